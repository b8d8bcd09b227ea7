// hipc_nonzero_count, hipc_nonzero, hipc_compress_count, hipc_compress: the count comes first, since the output's extent
// depends on it.
#include "hipc_ops.h"

using namespace hipc;

namespace {

// Bits that tell zero from non-zero: the sign of a float does not count.
template <class T> HIPC_INLINE bool is_set(T value, T mask) { return (value & mask) != 0; }

template <class Body> int32_t dispatch_mask(hipc_context *context, const char *op, int32_t dtype, Body &&body) {
  bool is_float = dtype == F32 || dtype == F64 || dtype == F16 || dtype == BF16;
  if (dtype == C64 || dtype == C128) return unsupported_dtype(context, op, dtype);
  switch (element_size(dtype)) {
  case 1: return body((uint8_t)~0);
  case 2: return body((uint16_t)(is_float ? 0x7fff : ~0));
  case 4: return body((uint32_t)(is_float ? 0x7fffffff : ~0u));
  case 8: return body((uint64_t)(is_float ? ~0ull >> 1 : ~0ull));
  default: return unsupported_dtype(context, op, dtype);
  }
}

template <class T> int64_t count_set(const T *x, int64_t count, T mask) {
  int64_t found = 0;
  for (int64_t i = 0; i < count; i++) found += is_set(x[i], mask);
  return found;
}

int32_t store_count(hipc_context *context, const char *op, hipc_tensor *n, int64_t count) {
  if (n->dtype != I64 || elements(n) != 1)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s writes one int64 number", op);
  *data<int64_t>(n) = count;
  return HIPC_OK;
}

} // namespace

HIPC_EXPORT int32_t hipc_nonzero_count(hipc_context *context, const hipc_tensor *x, hipc_tensor *n) {
  HIPC_TRY(check_contiguous(context, "nonzero_count", x));
  return dispatch_mask(context, "nonzero_count", x->dtype, [&]<class T>(T mask) {
    return store_count(context, "nonzero_count", n, count_set(data<T>(x), elements(x), mask));
  });
}

HIPC_EXPORT int32_t hipc_nonzero(hipc_context *context, const hipc_tensor *x, hipc_tensor *y) {
  HIPC_TRY(check_contiguous(context, "nonzero", x, y));
  if (y->dtype != I64) return unsupported_dtype(context, "nonzero", y->dtype);
  return dispatch_mask(context, "nonzero", x->dtype, [&]<class T>(T mask) -> int32_t {
    const T *in = data<T>(x);
    int64_t count = elements(x), found = count_set(in, count, mask);
    if (y->rank != 2 || y->shape[0] != x->rank || y->shape[1] != found)
      return hipc_error(context, HIPC_ERROR_SHAPE, "nonzero: the output does not have %d rows of %lld", x->rank,
                        (long long)found);
    if (found == 0) return HIPC_OK;
    int64_t *out = data<int64_t>(y);
    Walk<1> walk(x->rank, x->shape);
    walk.seek(0);
    for (int64_t i = 0, column = 0; i < count; i++, walk.next()) {
      if (!is_set(in[i], mask)) continue;
      for (int32_t axis = 0; axis < x->rank; axis++) out[axis * found + column] = walk.index[axis];
      column++;
    }
    return HIPC_OK;
  });
}

HIPC_EXPORT int32_t hipc_compress_count(hipc_context *context, const hipc_tensor *condition, hipc_tensor *n) {
  HIPC_TRY(check_contiguous(context, "compress_count", condition));
  if (element_size(condition->dtype) != 1) return unsupported_dtype(context, "compress_count", condition->dtype);
  return store_count(context, "compress_count", n,
                     count_set(data<uint8_t>(condition), elements(condition), (uint8_t)~0));
}

// A condition shorter than the axis drops the rest; a longer one must be false beyond it.
HIPC_EXPORT int32_t hipc_compress(hipc_context *context, const hipc_tensor *x, const hipc_tensor *condition,
                                  hipc_tensor *y, int64_t axis, int64_t flatten) {
  HIPC_TRY(check_contiguous(context, "compress", x, condition, y));
  if (element_size(condition->dtype) != 1) return unsupported_dtype(context, "compress", condition->dtype);
  Rows rows{1, elements(x), 1};
  if (!flatten) {
    HIPC_TRY(check_axis(context, "compress", axis, x->rank, &axis));
    rows = rows_of(x, axis);
  }
  const uint8_t *keep = data<uint8_t>(condition);
  int64_t length = elements(condition), kept = 0;
  for (int64_t i = 0; i < length; i++) {
    if (keep[i] && i >= rows.length) return index_error(context, "compress", i, flatten ? 0 : axis, rows.length);
    kept += keep[i] != 0;
  }
  if (elements(y) != rows.outer * kept * rows.inner)
    return hipc_error(context, HIPC_ERROR_SHAPE, "compress: the output does not have room for %lld slices",
                      (long long)kept);
  if (elements(y) == 0) return HIPC_OK;
  return dispatch_bytes(context, "compress", x->dtype, [&]<class T>() {
    const T *from = data<T>(x);
    T *to = data<T>(y);
    parallel_for(context, rows.outer, rows.length * rows.inner, [=](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; o++) {
        T *target = to + o * kept * rows.inner;
        for (int64_t i = 0; i < length; i++) {
          if (!keep[i]) continue;
          const T *source = from + (o * rows.length + i) * rows.inner;
          for (int64_t j = 0; j < rows.inner; j++) target[j] = source[j];
          target += rows.inner;
        }
      }
    });
    return HIPC_OK;
  });
}
