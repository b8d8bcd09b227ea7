// hipc_cumsum. Half precision accumulates in float; integers wrap around.
#include "hipc_ops.h"

using namespace hipc;

namespace {

// Integers add as unsigned numbers, whose overflow is defined.
template <class T> HIPC_INLINE Compute<T> plus(Compute<T> a, Compute<T> b) {
  if constexpr (TypeInfo<T>::is_float)
    return a + b;
  else
    return (T)((uint64_t)a + (uint64_t)b);
}

constexpr int64_t TILE = 64;

template <class T>
void cumsum_tile(const T *x, T *y, int64_t length, int64_t inner, int64_t width, bool exclusive, bool reverse) {
  Compute<T> sum[TILE];
  for (int64_t j = 0; j < width; j++) sum[j] = 0;
  for (int64_t n = 0; n < length; n++) {
    int64_t row = (reverse ? length - 1 - n : n) * inner;
    for (int64_t j = 0; j < width; j++) {
      Compute<T> next = plus<T>(sum[j], widen(x[row + j]));
      y[row + j] = (T)(exclusive ? sum[j] : next);
      sum[j] = next;
    }
  }
}

} // namespace

HIPC_EXPORT int32_t hipc_cumsum(hipc_context *context, const hipc_tensor *x, hipc_tensor *y, int64_t axis,
                                int64_t exclusive, int64_t reverse) {
  HIPC_TRY(check_same_shape(context, "cumsum", x, y));
  HIPC_TRY(check_contiguous(context, "cumsum", x, y));
  HIPC_TRY(check_axis(context, "cumsum", axis, x->rank, &axis));
  if (elements(x) == 0) return HIPC_OK;
  return dispatch_number(context, "cumsum", x->dtype, [&]<class T>() {
    Rows rows = rows_of(x, axis);
    int64_t tiles = ceil_div(rows.inner, TILE);
    const T *in = data<T>(x);
    T *out = data<T>(y);
    parallel_for(context, rows.outer * tiles, rows.length * min(rows.inner, TILE), [=](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; task++) {
        int64_t column = task % tiles * TILE, offset = task / tiles * rows.length * rows.inner + column;
        cumsum_tile(in + offset, out + offset, rows.length, rows.inner, min(rows.inner - column, TILE), exclusive != 0,
                    reverse != 0);
      }
    });
    return HIPC_OK;
  });
}
