// hipc_reduce: combines elements along the axes where the extents of input and output differ, which are then 1 in the
// output. It serves reductions whose axes are data. Integers wrap around; NaN is the greatest and the smallest element.
#include "hipc_ops.h"

using namespace hipc;

namespace {

enum Kind : int64_t { sum, product, greatest_of, smallest_of };

template <int64_t kind, class T> HIPC_INLINE T neutral() {
  if constexpr (kind == sum) return (T)0.0f;
  else if constexpr (kind == product) return (T)1.0f;
  else if constexpr (kind == greatest_of) return lowest<T>();
  else return highest<T>();
}

template <int64_t kind, class T> HIPC_INLINE Compute<T> combined(Compute<T> total, Compute<T> element) {
  if constexpr (kind == sum || kind == product) {
    if constexpr (TypeInfo<T>::is_float) return kind == sum ? total + element : total * element;
    // Unsigned numbers, whose overflow is defined.
    else return (T)(kind == sum ? (uint64_t)total + (uint64_t)element : (uint64_t)total * (uint64_t)element);
  } else {
    if constexpr (TypeInfo<T>::is_float)
      if (element != element) return element;
    return (kind == greatest_of ? element > total : element < total) ? element : total;
  }
}

// Axes of a walk, from the outermost to the innermost.
struct Axes {
  int32_t count = 0;
  int64_t shape[HIPC_MAX_RANK], strides[HIPC_MAX_RANK], size = 1;

  void add(int64_t extent, int64_t stride) {
    if (extent == 1) return;
    shape[count] = extent;
    strides[count++] = stride;
    size *= extent;
  }
  int64_t offset(int64_t position) const {
    int64_t total = 0;
    for (int32_t i = count - 1; i >= 0; i--) {
      total += position % shape[i] * strides[i];
      position /= shape[i];
    }
    return total;
  }
};

template <int64_t kind, class T> T reduced(const T *x, const Axes &axes) {
  Compute<T> total = widen(neutral<kind, T>());
  if (axes.size == 0) return (T)total;
  int64_t length = axes.count ? axes.shape[axes.count - 1] : 1, stride = axes.count ? axes.strides[axes.count - 1] : 0;
  for (int64_t first = 0; first < axes.size; first += length) {
    const T *row = x + axes.offset(first);
    for (int64_t i = 0; i < length; i++) total = combined<kind, T>(total, widen(row[i * stride]));
  }
  return (T)total;
}

template <int64_t kind, class T>
void reduce_all(hipc_context *context, const T *x, T *y, const Axes &kept, const Axes &axes) {
  parallel_for(context, kept.size, max<int64_t>(axes.size, 1), [=, &kept, &axes](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) y[i] = reduced<kind, T>(x + kept.offset(i), axes);
  });
}

} // namespace

HIPC_EXPORT int32_t hipc_reduce(hipc_context *context, const hipc_tensor *x, hipc_tensor *y, int64_t kind,
                                int64_t is_unsigned) {
  const char *op = "reduce";
  HIPC_TRY(check_contiguous(context, op, x, y));
  if (x->rank != y->rank) return hipc_error(context, HIPC_ERROR_SHAPE, "%s: ranks of input and output differ", op);
  Axes kept, axes;
  for (int32_t i = 0; i < x->rank; i++) {
    if (x->shape[i] == y->shape[i])
      kept.add(x->shape[i], x->strides[i]);
    else if (y->shape[i] == 1)
      axes.add(x->shape[i], x->strides[i]);
    else
      return hipc_error(context, HIPC_ERROR_SHAPE, "%s: axis %d of extent %lld cannot become %lld", op, (int)i,
                        (long long)x->shape[i], (long long)y->shape[i]);
  }
  return dispatch_number(context, op, signed_as(x->dtype, is_unsigned), [&]<class T>() {
    const T *in = data<T>(x);
    T *out = data<T>(y);
    switch (kind) {
    case sum: reduce_all<sum>(context, in, out, kept, axes); break;
    case product: reduce_all<product>(context, in, out, kept, axes); break;
    case greatest_of: reduce_all<greatest_of>(context, in, out, kept, axes); break;
    default: reduce_all<smallest_of>(context, in, out, kept, axes); break;
    }
    return HIPC_OK;
  });
}
