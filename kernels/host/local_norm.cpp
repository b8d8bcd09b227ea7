// hipc_lrn, hipc_lp_norm.
#include "hipc_ops.h"

using namespace hipc;

namespace {

// Positions handled together, so that the loops over them are vector code.
constexpr int64_t TILE = 64;

HIPC_INLINE float power(float base, float exponent) { return ::powf(base, exponent); }
HIPC_INLINE double power(double base, double exponent) { return ::pow(base, exponent); }

// out[j] = base[j] ^ exponent for bases that are usually positive; the common exponents need no call.
template <class C> HIPC_INLINE void powers(const C *base, C *out, int64_t count, double exponent) {
  if (exponent == 0.75)
    for (int64_t j = 0; j < count; j++) {
      C root = sqrt_of(base[j]);
      out[j] = root * sqrt_of(root);
    }
  else if (exponent == 0.5)
    for (int64_t j = 0; j < count; j++) out[j] = sqrt_of(base[j]);
  else if (exponent == 1.0)
    for (int64_t j = 0; j < count; j++) out[j] = base[j];
  else
    for (int64_t j = 0; j < count; j++) out[j] = power(base[j], (C)exponent);
}

template <class T>
void lrn_tile(const T *x, T *y, int64_t channels, int64_t spatial, int64_t channel, int64_t width, int64_t size,
              double alpha, double beta, double bias) {
  using C = Compute<T>;
  C sum[TILE], divisor[TILE];
  int64_t first = max(channel - (size - 1) / 2, (int64_t)0), last = min(channel + size / 2, channels - 1);
  for (int64_t j = 0; j < width; j++) sum[j] = 0;
  for (int64_t c = first; c <= last; c++)
    for (int64_t j = 0; j < width; j++) {
      C value = widen(x[c * spatial + j]);
      sum[j] += value * value;
    }
  C factor = (C)(alpha / (double)size);
  for (int64_t j = 0; j < width; j++) sum[j] = (C)bias + factor * sum[j];
  powers(sum, divisor, width, beta);
  for (int64_t j = 0; j < width; j++)
    y[channel * spatial + j] = (T)(widen(x[channel * spatial + j]) / divisor[j]);
}

template <class T> void lp_tile(const T *x, T *y, int64_t length, int64_t inner, int64_t width, bool squares) {
  using C = Compute<T>;
  C norm[TILE];
  for (int64_t j = 0; j < width; j++) norm[j] = 0;
  for (int64_t i = 0; i < length; i++)
    for (int64_t j = 0; j < width; j++) {
      C value = widen(x[i * inner + j]);
      norm[j] += squares ? value * value : (value < 0 ? -value : value);
    }
  if (squares)
    for (int64_t j = 0; j < width; j++) norm[j] = sqrt_of(norm[j]);
  // A row of zeros stays zero.
  for (int64_t i = 0; i < length; i++)
    for (int64_t j = 0; j < width; j++)
      y[i * inner + j] = (T)(norm[j] == 0 ? (C)0 : widen(x[i * inner + j]) / norm[j]);
}

template <class T> void lp_row(const T *x, T *y, int64_t length, bool squares) {
  using C = Compute<T>;
  C norm = 0;
  {
#pragma clang fp reassociate(on)
    for (int64_t i = 0; i < length; i++) {
      C value = widen(x[i]);
      norm += squares ? value * value : (value < 0 ? -value : value);
    }
  }
  if (squares) norm = sqrt_of(norm);
  for (int64_t i = 0; i < length; i++) y[i] = (T)(norm == 0 ? (C)0 : widen(x[i]) / norm);
}

} // namespace

HIPC_EXPORT int32_t hipc_lrn(hipc_context *context, const hipc_tensor *x, hipc_tensor *y, int64_t size, double alpha,
                             double beta, double bias) {
  HIPC_TRY(check_same_shape(context, "lrn", x, y));
  HIPC_TRY(check_contiguous(context, "lrn", x, y));
  if (x->rank < 2) return hipc_error(context, HIPC_ERROR_SHAPE, "lrn needs a batch axis and a channel axis");
  if (size < 1) return hipc_error(context, HIPC_ERROR_VALUE, "lrn: size %lld is not positive", (long long)size);
  if (elements(x) == 0) return HIPC_OK;
  return dispatch_float(context, "lrn", x->dtype, [&]<class T>() {
    int64_t channels = x->shape[1], spatial = extent(x, 2, x->rank), tiles = ceil_div(spatial, TILE);
    const T *in = data<T>(x);
    T *out = data<T>(y);
    parallel_for(context, x->shape[0] * channels * tiles, (size + 8) * min(spatial, TILE),
                 [=](int64_t begin, int64_t end) {
                   for (int64_t task = begin; task < end; task++) {
                     int64_t column = task % tiles * TILE, plane = task / tiles;
                     int64_t offset = plane / channels * channels * spatial + column;
                     lrn_tile(in + offset, out + offset, channels, spatial, plane % channels,
                              min(spatial - column, TILE), size, alpha, beta, bias);
                   }
                 });
    return HIPC_OK;
  });
}

HIPC_EXPORT int32_t hipc_lp_norm(hipc_context *context, const hipc_tensor *x, hipc_tensor *y, int64_t axis,
                                 int64_t p) {
  HIPC_TRY(check_same_shape(context, "lp_norm", x, y));
  HIPC_TRY(check_contiguous(context, "lp_norm", x, y));
  HIPC_TRY(check_axis(context, "lp_norm", axis, x->rank, &axis));
  if (p != 1 && p != 2) return hipc_error(context, HIPC_ERROR_VALUE, "lp_norm: p = %lld is not 1 or 2", (long long)p);
  if (elements(x) == 0) return HIPC_OK;
  return dispatch_float(context, "lp_norm", x->dtype, [&]<class T>() {
    Rows rows = rows_of(x, axis);
    int64_t tiles = ceil_div(rows.inner, TILE);
    const T *in = data<T>(x);
    T *out = data<T>(y);
    parallel_for(context, rows.outer * tiles, rows.length * 3 * min(rows.inner, TILE), [=](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; task++) {
        int64_t column = task % tiles * TILE, offset = task / tiles * rows.length * rows.inner + column;
        if (rows.inner == 1)
          lp_row(in + offset, out + offset, rows.length, p == 2);
        else
          lp_tile(in + offset, out + offset, rows.length, rows.inner, min(rows.inner - column, TILE), p == 2);
      }
    });
    return HIPC_OK;
  });
}
