// hipc_gather, hipc_gather_elements, hipc_gather_nd. Elements move by their size; every index is checked before any moves.
#include "hipc_ops.h"

using namespace hipc;

namespace {

// y[o][i][:] = data[o][indices[i]][:]
template <class T, class I>
void gather_blocks(hipc_context *context, const T *from, const I *indices, T *to, int64_t outer, int64_t extent,
                   int64_t count, int64_t inner) {
  parallel_for(context, outer * count, inner, [=](int64_t begin, int64_t end) {
    int64_t o = begin / count, i = begin % count;
    while (begin < end) {
      const T *base = from + o * extent * inner;
      T *target = to + begin * inner;
      int64_t stop = min(count, i + end - begin);
      begin += stop - i;
      if (inner == 1)
        for (; i < stop; i++) *target++ = base[from_front(indices[i], extent)];
      else
        for (; i < stop; i++, target += inner)
          memcpy(target, base + from_front(indices[i], extent) * inner, (size_t)inner * sizeof(T));
      i = 0;
      o++;
    }
  });
}

} // namespace

HIPC_EXPORT int32_t hipc_gather(hipc_context *context, const hipc_tensor *data_in, const hipc_tensor *indices,
                                hipc_tensor *y, int64_t axis) {
  HIPC_TRY(check_contiguous(context, "gather", data_in, indices, y));
  HIPC_TRY(check_axis(context, "gather", axis, data_in->rank, &axis));
  Rows rows = rows_of(data_in, axis);
  int64_t count = elements(indices);
  if (elements(y) != rows.outer * count * rows.inner)
    return hipc_error(context, HIPC_ERROR_SHAPE, "gather: the output does not have the extents of data and indices");
  return dispatch_index(context, "gather", indices->dtype, [&]<class I>() -> int32_t {
    HIPC_TRY(check_indices(context, "gather", data<I>(indices), count, axis, rows.length));
    return dispatch_bytes(context, "gather", data_in->dtype, [&]<class T>() {
      gather_blocks(context, data<T>(data_in), data<I>(indices), data<T>(y), rows.outer, rows.length, count,
                    rows.inner);
      return HIPC_OK;
    });
  });
}

HIPC_EXPORT int32_t hipc_gather_elements(hipc_context *context, const hipc_tensor *data_in,
                                         const hipc_tensor *indices, hipc_tensor *y, int64_t axis) {
  const char *op = "gather_elements";
  HIPC_TRY(check_contiguous(context, op, data_in, indices, y));
  HIPC_TRY(check_same_shape(context, op, indices, y));
  HIPC_TRY(check_axis(context, op, axis, data_in->rank, &axis));
  if (data_in->rank != indices->rank || data_in->rank == 0)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: data and indices need one rank of at least 1", op);
  for (int32_t i = 0; i < data_in->rank; i++)
    if (i != axis && indices->shape[i] > data_in->shape[i])
      return hipc_error(context, HIPC_ERROR_SHAPE, "%s: axis %d of indices is longer than that of data", op, i);
  int64_t count = elements(indices), length = data_in->shape[axis];
  if (count == 0) return HIPC_OK;
  return dispatch_index(context, op, indices->dtype, [&]<class I>() -> int32_t {
    HIPC_TRY(check_indices(context, op, data<I>(indices), count, axis, length));
    return dispatch_bytes(context, op, data_in->dtype, [&]<class T>() {
      const T *from = data<T>(data_in);
      const I *index = data<I>(indices);
      T *to = data<T>(y);
      int64_t step = extent(data_in, (int32_t)axis + 1, data_in->rank);
      int32_t rank = indices->rank;
      int64_t width = indices->shape[rank - 1];
      bool last = axis == rank - 1;
      // Lines along the last axis; the walk gives the start of the line in data, axis left at 0.
      parallel_for(context, count / width, width * 2, [=](int64_t begin, int64_t end) {
        Walk<1> walk(rank - 1, indices->shape);
        int64_t stride = 1;
        for (int32_t i = rank - 1; i >= 0; i--) {
          if (i < rank - 1) walk.strides[0][i] = i == axis ? 0 : stride;
          stride *= data_in->shape[i];
        }
        walk.seek(begin);
        for (int64_t line = begin; line < end; line++, walk.next()) {
          const T *base = from + walk.offsets[0];
          const I *own = index + line * width;
          if (last)
            for (int64_t i = 0; i < width; i++) to[line * width + i] = base[from_front(own[i], length)];
          else
            for (int64_t i = 0; i < width; i++) to[line * width + i] = base[from_front(own[i], length) * step + i];
        }
      });
      return HIPC_OK;
    });
  });
}

HIPC_EXPORT int32_t hipc_gather_nd(hipc_context *context, const hipc_tensor *data_in, const hipc_tensor *indices,
                                   hipc_tensor *y, int64_t batch_dims) {
  const char *op = "gather_nd";
  HIPC_TRY(check_contiguous(context, op, data_in, indices, y));
  int64_t depth = indices->rank ? indices->shape[indices->rank - 1] : 0;
  if (indices->rank == 0 || batch_dims < 0 || batch_dims >= indices->rank || batch_dims + depth > data_in->rank)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: index tuples do not fit data", op);
  int32_t first = (int32_t)batch_dims, after = (int32_t)(batch_dims + depth);
  for (int32_t i = 0; i < first; i++)
    if (data_in->shape[i] != indices->shape[i])
      return hipc_error(context, HIPC_ERROR_SHAPE, "%s: batch axis %d of data and indices differ", op, i);
  int64_t batch = extent(data_in, 0, first), tuples = extent(indices, first, indices->rank - 1);
  int64_t inner = extent(data_in, after, data_in->rank), block = extent(data_in, first, data_in->rank);
  if (elements(y) != batch * tuples * inner)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: the output does not have the extents of data and indices", op);
  if (batch * tuples == 0) return HIPC_OK;
  return dispatch_index(context, op, indices->dtype, [&]<class I>() -> int32_t {
    const I *index = data<I>(indices);
    for (int64_t i = 0; i < batch * tuples; i++)
      for (int64_t k = 0; k < depth; k++) {
        int64_t value = (int64_t)index[i * depth + k], length = data_in->shape[first + k];
        if (value < -length || value >= length) return index_error(context, op, value, first + k, length);
      }
    return dispatch_bytes(context, op, data_in->dtype, [&]<class T>() {
      const T *from = data<T>(data_in);
      T *to = data<T>(y);
      parallel_for(context, batch * tuples, inner + depth * 2, [=](int64_t begin, int64_t end) {
        for (int64_t task = begin; task < end; task++) {
          int64_t offset = 0;
          for (int64_t k = 0; k < depth; k++) {
            int64_t length = data_in->shape[first + k];
            offset = offset * length + from_front(index[task * depth + k], length);
          }
          const T *source = from + task / tuples * block + offset * inner;
          if (inner == 1)
            to[task] = *source;
          else
            memcpy(to + task * inner, source, (size_t)inner * sizeof(T));
        }
      });
      return HIPC_OK;
    });
  });
}
