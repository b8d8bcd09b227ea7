// hipc_cumsum, hipc_cumprod: along the axis `at` where it is given, else along `axis`. Half precision accumulates in float; integers wrap around.
#include "hipc_ops.h"

using namespace hipc;

namespace {

enum class Operation { sum, product };

// Integers combine as unsigned numbers, whose overflow is defined.
template <Operation operation, class T> HIPC_INLINE Compute<T> combined(Compute<T> a, Compute<T> b) {
  if constexpr (TypeInfo<T>::is_float)
    return operation == Operation::sum ? a + b : a * b;
  else
    return (T)(operation == Operation::sum ? (uint64_t)a + (uint64_t)b : (uint64_t)a * (uint64_t)b);
}

template <Operation operation, class T> HIPC_INLINE Compute<T> neutral() {
  return operation == Operation::sum ? (Compute<T>)0 : (Compute<T>)1;
}

constexpr int64_t TILE = 64;

template <Operation operation, class T>
void tile(const T *x, T *y, int64_t length, int64_t inner, int64_t width, bool exclusive, bool reverse) {
  Compute<T> running[TILE];
  for (int64_t j = 0; j < width; j++) running[j] = neutral<operation, T>();
  for (int64_t n = 0; n < length; n++) {
    int64_t at = (reverse ? length - 1 - n : n) * inner;
    for (int64_t j = 0; j < width; j++) {
      Compute<T> next = combined<operation, T>(running[j], widen(x[at + j]));
      y[at + j] = (T)(exclusive ? running[j] : next);
      running[j] = next;
    }
  }
}

template <Operation operation, class T>
void row(const T *x, T *y, int64_t length, bool exclusive, bool reverse) {
  Compute<T> running = neutral<operation, T>();
  int64_t i = reverse ? length - 1 : 0, step = reverse ? -1 : 1;
  for (int64_t n = 0; n < length; n++, i += step) {
    Compute<T> next = combined<operation, T>(running, widen(x[i]));
    y[i] = (T)(exclusive ? running : next);
    running = next;
  }
}

template <Operation operation>
int32_t scan(hipc_context *context, const char *op, const hipc_tensor *x, const hipc_tensor *at, hipc_tensor *y,
             int64_t axis, int64_t exclusive, int64_t reverse) {
  if (at) HIPC_TRY(axis_from(context, op, at, &axis));
  HIPC_TRY(check_same_shape(context, op, x, y));
  HIPC_TRY(check_contiguous(context, op, x, y));
  HIPC_TRY(check_axis(context, op, axis, x->rank, &axis));
  if (elements(x) == 0) return HIPC_OK;
  return dispatch_number(context, op, x->dtype, [&]<class T>() {
    Rows rows = rows_of(x, axis);
    int64_t tiles = ceil_div(rows.inner, TILE);
    const T *in = data<T>(x);
    T *out = data<T>(y);
    parallel_for(context, rows.outer * tiles, rows.length * min(rows.inner, TILE), [=](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; task++) {
        int64_t column = task % tiles * TILE, offset = task / tiles * rows.length * rows.inner + column;
        if (rows.inner == 1) {
          row<operation>(in + offset, out + offset, rows.length, exclusive != 0, reverse != 0);
          continue;
        }
        tile<operation>(in + offset, out + offset, rows.length, rows.inner, min(rows.inner - column, TILE),
                        exclusive != 0, reverse != 0);
      }
    });
    return HIPC_OK;
  });
}

} // namespace

HIPC_EXPORT int32_t hipc_cumsum(hipc_context *context, const hipc_tensor *x, const hipc_tensor *at, hipc_tensor *y,
                                int64_t axis, int64_t exclusive, int64_t reverse) {
  return scan<Operation::sum>(context, "cumsum", x, at, y, axis, exclusive, reverse);
}

HIPC_EXPORT int32_t hipc_cumprod(hipc_context *context, const hipc_tensor *x, const hipc_tensor *at, hipc_tensor *y,
                                 int64_t axis, int64_t exclusive, int64_t reverse) {
  return scan<Operation::product>(context, "cumprod", x, at, y, axis, exclusive, reverse);
}
