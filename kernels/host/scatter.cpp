// hipc_scatter_elements, hipc_scatter_nd, hipc_tensor_scatter. Every index is checked before data is copied; updates then run in order on one
// thread, so that with repeated indices the last one wins and sums round the same way every time.
#include "hipc_ops.h"

using namespace hipc;

namespace {

enum Reduction : int64_t { NONE, ADD, MUL, MAX, MIN };

// A NaN on either side is the extreme, as in numpy.maximum and numpy.minimum.
template <Reduction kind, class T> HIPC_INLINE T reduced(T old, T update) {
  if constexpr (kind == NONE) {
    return update;
  } else if constexpr (TypeInfo<T>::is_float) {
    Compute<T> a = widen(old), b = widen(update);
    if constexpr (kind == ADD) return (T)(a + b);
    if constexpr (kind == MUL) return (T)(a * b);
    if constexpr (kind == MAX) return a >= b || a != a ? old : update;
    if constexpr (kind == MIN) return a <= b || a != a ? old : update;
  } else {
    // Unsigned arithmetic wraps around instead of overflowing.
    if constexpr (kind == ADD) return (T)((uint64_t)old + (uint64_t)update);
    if constexpr (kind == MUL) return (T)((uint64_t)old * (uint64_t)update);
    if constexpr (kind == MAX) return old > update ? old : update;
    if constexpr (kind == MIN) return old < update ? old : update;
  }
}

template <class Body>
int32_t dispatch_reduction(hipc_context *context, const char *op, int64_t kind, Body &&body) {
  switch (kind) {
  case ADD: return body.template operator()<ADD>();
  case MUL: return body.template operator()<MUL>();
  case MAX: return body.template operator()<MAX>();
  case MIN: return body.template operator()<MIN>();
  default: return hipc_error(context, HIPC_ERROR_VALUE, "%s: reduction %lld is not known", op, (long long)kind);
  }
}

// body.operator()<kind, T>(): by size for plain writes, by number type for reductions.
template <class Body>
int32_t dispatch_update(hipc_context *context, const char *op, int64_t kind, int32_t dtype, int64_t is_unsigned,
                        Body &&body) {
  if (kind == NONE)
    return dispatch_bytes(context, op, dtype, [&]<class T>() { return body.template operator()<NONE, T>(); });
  return dispatch_reduction(context, op, kind, [&]<Reduction reduction>() {
    return dispatch_number(context, op, signed_as(dtype, is_unsigned),
                           [&]<class T>() { return body.template operator()<reduction, T>(); });
  });
}

int32_t copy_data(hipc_context *context, const char *op, const hipc_tensor *from, hipc_tensor *to) {
  int64_t bytes = elements(from) * element_size(from->dtype);
  if (element_size(from->dtype) == 0) return unsupported_dtype(context, op, from->dtype);
  if (from->data != to->data && bytes) memcpy(to->data, from->data, (size_t)bytes);
  return HIPC_OK;
}

} // namespace

HIPC_EXPORT int32_t hipc_scatter_elements(hipc_context *context, const hipc_tensor *data_in,
                                          const hipc_tensor *indices, const hipc_tensor *updates, hipc_tensor *y,
                                          int64_t axis, int64_t reduction, int64_t is_unsigned) {
  const char *op = "scatter_elements";
  HIPC_TRY(check_contiguous(context, op, data_in, indices, updates, y));
  HIPC_TRY(check_same_shape(context, op, data_in, y));
  HIPC_TRY(check_same_shape(context, op, indices, updates));
  HIPC_TRY(check_axis(context, op, axis, data_in->rank, &axis));
  int32_t rank = data_in->rank;
  if (rank != indices->rank || rank == 0)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: data and indices need one rank of at least 1", op);
  for (int32_t i = 0; i < rank; i++)
    if (i != axis && indices->shape[i] > data_in->shape[i])
      return hipc_error(context, HIPC_ERROR_SHAPE, "%s: axis %d of indices is longer than that of data", op, i);
  int64_t count = elements(indices), length = data_in->shape[axis];
  int64_t step = extent(data_in, (int32_t)axis + 1, rank);
  return dispatch_index(context, op, indices->dtype, [&]<class I>() -> int32_t {
    HIPC_TRY(check_indices(context, op, data<I>(indices), count, axis, length));
    HIPC_TRY(copy_data(context, op, data_in, y));
    if (count == 0) return HIPC_OK;
    return dispatch_update(context, op, reduction, data_in->dtype, is_unsigned, [&]<Reduction kind, class T>() {
      const I *index = data<I>(indices);
      const T *update = data<T>(updates);
      T *to = data<T>(y);
      Walk<1> walk(rank, indices->shape);
      int64_t stride = 1;
      for (int32_t i = rank - 1; i >= 0; i--) {
        walk.strides[0][i] = i == axis ? 0 : stride;
        stride *= data_in->shape[i];
      }
      walk.seek(0);
      for (int64_t i = 0; i < count; i++, walk.next()) {
        T *place = to + walk.offsets[0] + from_front(index[i], length) * step;
        *place = reduced<kind>(*place, update[i]);
      }
      return HIPC_OK;
    });
  });
}

HIPC_EXPORT int32_t hipc_scatter_nd(hipc_context *context, const hipc_tensor *data_in, const hipc_tensor *indices,
                                    const hipc_tensor *updates, hipc_tensor *y, int64_t reduction,
                                    int64_t is_unsigned) {
  const char *op = "scatter_nd";
  HIPC_TRY(check_contiguous(context, op, data_in, indices, updates, y));
  HIPC_TRY(check_same_shape(context, op, data_in, y));
  int64_t depth = indices->rank ? indices->shape[indices->rank - 1] : 0;
  if (indices->rank == 0 || depth > data_in->rank)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: index tuples do not fit data", op);
  int64_t tuples = extent(indices, 0, indices->rank - 1), inner = extent(data_in, (int32_t)depth, data_in->rank);
  if (elements(updates) != tuples * inner)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: updates do not have the extents of data and indices", op);
  return dispatch_index(context, op, indices->dtype, [&]<class I>() -> int32_t {
    const I *index = data<I>(indices);
    for (int64_t i = 0; i < tuples; i++)
      for (int64_t k = 0; k < depth; k++) {
        int64_t value = (int64_t)index[i * depth + k], length = data_in->shape[k];
        if (value < -length || value >= length) return index_error(context, op, value, k, length);
      }
    HIPC_TRY(copy_data(context, op, data_in, y));
    return dispatch_update(context, op, reduction, data_in->dtype, is_unsigned, [&]<Reduction kind, class T>() {
      const T *update = data<T>(updates);
      T *to = data<T>(y);
      for (int64_t i = 0; i < tuples; i++) {
        int64_t offset = 0;
        for (int64_t k = 0; k < depth; k++)
          offset = offset * data_in->shape[k] + from_front(index[i * depth + k], data_in->shape[k]);
        T *place = to + offset * inner;
        for (int64_t j = 0; j < inner; j++) place[j] = reduced<kind>(place[j], update[i * inner + j]);
      }
      return HIPC_OK;
    });
  });
}

// Position p of batch entry b receives update[b, p - positions[b]]; `circular` continues at the start of the axis.
HIPC_EXPORT int32_t hipc_tensor_scatter(hipc_context *context, const hipc_tensor *past, const hipc_tensor *update,
                                        const hipc_tensor *positions, hipc_tensor *y, int64_t axis, int64_t mode) {
  const char *op = "tensor_scatter";
  bool circular = mode == 1;
  HIPC_TRY(check_contiguous(context, op, past, update, positions, y));
  HIPC_TRY(check_same_shape(context, op, past, y));
  HIPC_TRY(check_axis(context, op, axis, past->rank, &axis));
  if (axis == 0 || update->rank != past->rank)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s needs operands of one rank and an axis after the batch", op);
  for (int32_t i = 0; i < past->rank; i++)
    if (i == axis ? update->shape[i] > past->shape[i] : update->shape[i] != past->shape[i])
      return hipc_error(context, HIPC_ERROR_SHAPE, "%s: axis %d of the update does not fit", op, i);
  int64_t batch = past->shape[0], length = past->shape[axis], count = update->shape[axis];
  if (positions && (positions->dtype != I64 || elements(positions) != batch))
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s needs one int64 position for each batch entry", op);
  const int64_t *first = positions ? data<int64_t>(positions) : nullptr;
  for (int64_t b = 0; first && b < batch; b++) {
    if (first[b] < 0 || first[b] >= max(length, (int64_t)1)) return index_error(context, op, first[b], axis, length);
    if (!circular && first[b] + count > length)
      return index_error(context, op, first[b] + count - 1, axis, length);
  }
  HIPC_TRY(copy_data(context, op, past, y));
  if (elements(update) == 0) return HIPC_OK;
  int64_t groups = extent(past, 1, (int32_t)axis);
  int64_t bytes = extent(past, (int32_t)axis + 1, past->rank) * element_size(past->dtype);
  const char *from = data<char>(update);
  char *to = data<char>(y);
  parallel_for(context, batch * groups, count * bytes, [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; row++) {
      int64_t start = first ? first[row / groups] : 0, whole = min(count, length - start);
      const char *source = from + row * count * bytes;
      char *target = to + row * length * bytes;
      memcpy(target + start * bytes, source, (size_t)(whole * bytes));
      // What runs over the end goes to the start.
      if (whole < count) memcpy(target, source + whole * bytes, (size_t)((count - whole) * bytes));
    }
  });
  return HIPC_OK;
}
