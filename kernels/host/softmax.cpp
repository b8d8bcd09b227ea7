// hipc_softmax, hipc_hardmax.
#include "hipc_ops.h"

using namespace hipc;

namespace {

// One contiguous row of arithmetic type; `x` and `y` may be the same row.
template <class C> HIPC_INLINE void softmax_row(const C *x, C *y, int64_t length, bool log) {
  C top = greatest(x, length), sum = 0;
  if (log) {
    {
#pragma clang fp reassociate(on)
      for (int64_t i = 0; i < length; i++) sum += exp_of(x[i] - top);
    }
    C rest = log_of(sum);
    for (int64_t i = 0; i < length; i++) y[i] = (x[i] - top) - rest;
    return;
  }
  {
#pragma clang fp reassociate(on)
    for (int64_t i = 0; i < length; i++) {
      C e = exp_of(x[i] - top);
      y[i] = e;
      sum += e;
    }
  }
  C scale = (C)1 / sum;
  for (int64_t i = 0; i < length; i++) y[i] *= scale;
}

// Rows whose elements lie `inner` apart, for `width` neighbouring rows at once.
constexpr int64_t TILE = 64;

template <class T>
HIPC_INLINE void softmax_columns(const T *x, T *y, int64_t length, int64_t inner, int64_t width, bool log) {
  using C = Compute<T>;
  C top[TILE], sum[TILE];
  for (int64_t j = 0; j < width; j++) top[j] = -(C)__builtin_inff(), sum[j] = 0;
  for (int64_t i = 0; i < length; i++)
    for (int64_t j = 0; j < width; j++) {
      C value = widen(x[i * inner + j]);
      top[j] = value > top[j] ? value : top[j];
    }
  // Half precision would round the exponentials: it computes them again.
  bool keep = sizeof(T) == sizeof(C) && !log;
  for (int64_t i = 0; i < length; i++)
    for (int64_t j = 0; j < width; j++) {
      C e = exp_of(widen(x[i * inner + j]) - top[j]);
      sum[j] += e;
      if (keep) y[i * inner + j] = (T)e;
    }
  for (int64_t j = 0; j < width; j++) sum[j] = log ? log_of(sum[j]) : (C)1 / sum[j];
  for (int64_t i = 0; i < length; i++)
    for (int64_t j = 0; j < width; j++) {
      C value = widen(keep ? y[i * inner + j] : x[i * inner + j]);
      y[i * inner + j] = (T)(keep ? value * sum[j] : log ? value - top[j] - sum[j] : exp_of(value - top[j]) * sum[j]);
    }
}

template <class T> int32_t softmax(hipc_context *context, const T *x, T *y, Rows rows, bool log) {
  using C = Compute<T>;
  int64_t cost = rows.length * 12;
  if (rows.inner != 1) {
    int64_t tiles = ceil_div(rows.inner, TILE);
    parallel_for(context, rows.outer * tiles, cost * min(rows.inner, TILE), [=](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; task++) {
        int64_t column = task % tiles * TILE, offset = task / tiles * rows.length * rows.inner + column;
        softmax_columns(x + offset, y + offset, rows.length, rows.inner, min(rows.inner - column, TILE), log);
      }
    });
    return HIPC_OK;
  }
  if constexpr (sizeof(T) == sizeof(C)) {
    parallel_for(context, rows.outer, cost, [=](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; row++)
        softmax_row((const C *)x + row * rows.length, (C *)y + row * rows.length, rows.length, log);
    });
    return HIPC_OK;
  } else {
    // Half precision is widened once, so that the sum and the quotient see unrounded numbers.
    int64_t stride = round_up(rows.length, 16);
    C *wide = (C *)hipc_scratch(context, hipc_num_threads(context) * stride * (int64_t)sizeof(C));
    if (!wide) return out_of_memory(context, "softmax");
    parallel_for_threads(context, rows.outer, cost, [=](int64_t begin, int64_t end, int32_t thread) {
      C *line = wide + thread * stride;
      for (int64_t row = begin; row < end; row++) {
        for (int64_t i = 0; i < rows.length; i++) line[i] = widen(x[row * rows.length + i]);
        softmax_row(line, line, rows.length, log);
        for (int64_t i = 0; i < rows.length; i++) y[row * rows.length + i] = (T)line[i];
      }
    });
    return HIPC_OK;
  }
}

} // namespace

HIPC_EXPORT int32_t hipc_softmax(hipc_context *context, const hipc_tensor *x, hipc_tensor *y, int64_t axis,
                                 int64_t log) {
  HIPC_TRY(check_same_shape(context, "softmax", x, y));
  HIPC_TRY(check_contiguous(context, "softmax", x, y));
  HIPC_TRY(check_axis(context, "softmax", axis, x->rank, &axis));
  if (elements(x) == 0) return HIPC_OK;
  return dispatch_float(context, "softmax", x->dtype, [&]<class T>() {
    return softmax<T>(context, data<T>(x), data<T>(y), rows_of(x, axis), log != 0);
  });
}

// The first maximum wins, and a NaN is a maximum, as in numpy.argmax.
HIPC_EXPORT int32_t hipc_hardmax(hipc_context *context, const hipc_tensor *x, hipc_tensor *y, int64_t axis) {
  HIPC_TRY(check_same_shape(context, "hardmax", x, y));
  HIPC_TRY(check_contiguous(context, "hardmax", x, y));
  HIPC_TRY(check_axis(context, "hardmax", axis, x->rank, &axis));
  if (elements(x) == 0) return HIPC_OK;
  return dispatch_float(context, "hardmax", x->dtype, [&]<class T>() {
    Rows rows = rows_of(x, axis);
    const T *in = data<T>(x);
    T *out = data<T>(y);
    parallel_for(context, rows.outer * rows.inner, rows.length * 3, [=](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; row++) {
        int64_t offset = row / rows.inner * rows.length * rows.inner + row % rows.inner, best = 0;
        Compute<T> top = widen(in[offset]);
        for (int64_t i = 1; i < rows.length && top == top; i++) {
          Compute<T> value = widen(in[offset + i * rows.inner]);
          if (value > top || value != value) top = value, best = i;
        }
        for (int64_t i = 0; i < rows.length; i++) out[offset + i * rows.inner] = (T)(Compute<T>)(i == best);
      }
    });
    return HIPC_OK;
  });
}
