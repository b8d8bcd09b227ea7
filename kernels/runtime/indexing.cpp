// hipc_gather_elements, hipc_gather_nd, hipc_scatter_elements, hipc_scatter_nd, hipc_tensor_scatter, hipc_one_hot
// and hipc_reverse_sequence on GPUs. Numbers stay on the device: kernels report those outside.
#include "gpu.h"
#include "shared/space.h"

using namespace hipc;

namespace {

int32_t check_indices_type(hipc_context *context, const char *op, const hipc_tensor *indices) {
  if (indices->dtype == I32 || indices->dtype == I64) return HIPC_OK;
  return hipc_error(context, HIPC_ERROR_UNSUPPORTED, "%s needs int32 or int64 indices, not %s", op, dtype_name(indices->dtype));
}

int32_t copy_data(hipc_context *context, const char *op, const hipc_tensor *from, hipc_tensor *to) {
  if (element_size(from->dtype) == 0) return unsupported_dtype(context, op, from->dtype);
  int64_t bytes = elements(from) * element_size(from->dtype);
  return from->data == to->data || !bytes ? (int32_t)HIPC_OK : hipc_copy(context, to->data, from->data, bytes);
}

int32_t check_elements(hipc_context *context, const char *op, const hipc_tensor *data_in, const hipc_tensor *indices,
                       int64_t *axis) {
  HIPC_TRY(check_axis(context, op, *axis, data_in->rank, axis));
  HIPC_TRY(check_indices_type(context, op, indices));
  if (data_in->rank != indices->rank || data_in->rank == 0)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: data and indices need one rank of at least 1", op);
  for (int32_t i = 0; i < data_in->rank; i++)
    if (i != *axis && indices->shape[i] > data_in->shape[i])
      return hipc_error(context, HIPC_ERROR_SHAPE, "%s: axis %d of indices is longer than that of data", op, i);
  return HIPC_OK;
}

// Extents and strides of the index tuples' axes; their number of places.
int64_t tuple_axes(const hipc_tensor *data_in, int32_t first, int64_t depth, Space *axes) {
  axes->rank = (int32_t)depth;
  int64_t places = 1;
  for (int64_t k = 0; k < depth; k++) axes->shape[k] = data_in->shape[first + k], places *= axes->shape[k];
  return places;
}


} // namespace

HIPC_EXPORT int32_t hipc_gather_elements(hipc_context *context, const hipc_tensor *data_in, const hipc_tensor *indices,
                                         hipc_tensor *y, int64_t axis) {
  const char *op = "gather_elements";
  HIPC_TRY(check_contiguous(context, op, data_in, indices, y));
  HIPC_TRY(check_same_shape(context, op, indices, y));
  HIPC_TRY(check_elements(context, op, data_in, indices, &axis));
  if (element_size(data_in->dtype) == 0 || y->dtype != data_in->dtype) return unsupported_dtype(context, op, data_in->dtype);
  if (elements(indices) == 0) return HIPC_OK;
  Space line{};
  line.rank = indices->rank;
  for (int32_t i = 0; i < line.rank; i++)
    line.shape[i] = indices->shape[i], line.strides[i] = i == axis ? 0 : extent(data_in, i + 1, data_in->rank);
  int32_t *fault = device_fault(context);
  if (!fault) return HIPC_ERROR_MEMORY;
  int64_t count = elements(indices);
  return launch(context, kernel_name_of_size(op, element_size(y->dtype)), over(context, count), data_in->data, indices->data,
                y->data, line, count, data_in->shape[axis], extent(data_in, (int32_t)axis + 1, data_in->rank),
                (int32_t)(indices->dtype == I64), fault);
}

HIPC_EXPORT int32_t hipc_gather_nd(hipc_context *context, const hipc_tensor *data_in, const hipc_tensor *indices,
                                   hipc_tensor *y, int64_t batch_dims) {
  const char *op = "gather_nd";
  HIPC_TRY(check_contiguous(context, op, data_in, indices, y));
  HIPC_TRY(check_indices_type(context, op, indices));
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
  if (element_size(data_in->dtype) == 0) return unsupported_dtype(context, op, data_in->dtype);
  if (elements(y) == 0) return HIPC_OK;
  Space axes{};
  tuple_axes(data_in, first, depth, &axes);
  int32_t *fault = device_fault(context);
  if (!fault) return HIPC_ERROR_MEMORY;
  return launch(context, kernel_name_of_size(op, element_size(y->dtype)), over(context, elements(y)), data_in->data,
                indices->data, y->data, axes, tuples, elements(y), inner, block, (int32_t)(indices->dtype == I64), fault);
}

HIPC_EXPORT int32_t hipc_scatter_elements(hipc_context *context, const hipc_tensor *data_in,
                                          const hipc_tensor *indices, const hipc_tensor *updates, hipc_tensor *y,
                                          int64_t axis, int64_t reduction, int64_t is_unsigned) {
  const char *op = "scatter_elements";
  HIPC_TRY(check_contiguous(context, op, data_in, indices, updates, y));
  HIPC_TRY(check_same_shape(context, op, data_in, y));
  HIPC_TRY(check_same_shape(context, op, indices, updates));
  HIPC_TRY(check_elements(context, op, data_in, indices, &axis));
  // Plain writes move bytes; a byte of a bool is one.
  int32_t dtype = signed_as(data_in->dtype, is_unsigned);
  if (!is_number(dtype)) return unsupported_dtype(context, op, data_in->dtype);
  HIPC_TRY(copy_data(context, op, data_in, y));
  int64_t count = elements(indices);
  if (count == 0) return HIPC_OK;
  // Lines along the axis, each a thread's.
  Space lines{}, own{};
  int64_t length = indices->shape[axis];
  for (int32_t i = 0; i < indices->rank; i++) {
    if (i == axis) continue;
    lines.shape[lines.rank] = own.shape[own.rank] = indices->shape[i];
    lines.strides[lines.rank++] = extent(data_in, i + 1, data_in->rank);
    own.strides[own.rank++] = extent(indices, i + 1, indices->rank);
  }
  int32_t *fault = device_fault(context);
  if (!fault) return HIPC_ERROR_MEMORY;
  return launch(context, kernel_name(op, dtype), over(context, count / length), y->data, indices->data, updates->data, lines,
                own, count / length, length, data_in->shape[axis], extent(data_in, (int32_t)axis + 1, data_in->rank),
                extent(indices, (int32_t)axis + 1, indices->rank), (int32_t)(indices->dtype == I64), (int32_t)reduction, fault);
}

HIPC_EXPORT int32_t hipc_scatter_nd(hipc_context *context, const hipc_tensor *data_in, const hipc_tensor *indices,
                                    const hipc_tensor *updates, hipc_tensor *y, int64_t reduction,
                                    int64_t is_unsigned) {
  const char *op = "scatter_nd";
  HIPC_TRY(check_contiguous(context, op, data_in, indices, updates, y));
  HIPC_TRY(check_same_shape(context, op, data_in, y));
  HIPC_TRY(check_indices_type(context, op, indices));
  int64_t depth = indices->rank ? indices->shape[indices->rank - 1] : 0;
  if (indices->rank == 0 || depth > data_in->rank)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: index tuples do not fit data", op);
  int64_t tuples = extent(indices, 0, indices->rank - 1), inner = extent(data_in, (int32_t)depth, data_in->rank);
  if (elements(updates) != tuples * inner)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: updates do not have the extents of data and indices", op);
  int32_t dtype = signed_as(data_in->dtype, is_unsigned), wide = indices->dtype == I64;
  if (reduction ? !is_number(dtype) : element_size(dtype) == 0) return unsupported_dtype(context, op, data_in->dtype);
  HIPC_TRY(copy_data(context, op, data_in, y));
  if (tuples * inner == 0) return HIPC_OK;
  Space axes{};
  int64_t places = tuple_axes(data_in, 0, depth, &axes);
  int32_t *fault = device_fault(context);
  if (!fault) return HIPC_ERROR_MEMORY;
  if (reduction)
    return launch(context, kernel_name(op, dtype), over(context, inner), y->data, indices->data, updates->data, axes, tuples,
                  inner, wide, (int32_t)reduction, fault);
  if (tuples > INT32_MAX) return hipc_error(context, HIPC_ERROR_UNSUPPORTED, "%s of %lld tuples", op, (long long)tuples);
  int32_t *owners = (int32_t *)device_scratch(context, max<int64_t>(places, 1) * 4);
  if (!owners) return out_of_memory(context, op);
  HIPC_TRY(device_fill(context, owners, 0xff, places * 4));
  HIPC_TRY(launch(context, "scatter_nd_owners", over(context, tuples), owners, indices->data, axes, tuples, wide, fault));
  return launch(context, kernel_name_of_size("scatter_nd_write", element_size(dtype)), over(context, tuples * inner), y->data,
                (const int32_t *)owners, indices->data, updates->data, axes, tuples * inner, inner, wide, fault);
}

HIPC_EXPORT int32_t hipc_tensor_scatter(hipc_context *context, const hipc_tensor *past, const hipc_tensor *update,
                                        const hipc_tensor *positions, hipc_tensor *y, int64_t axis, int64_t mode) {
  const char *op = "tensor_scatter";
  HIPC_TRY(check_contiguous(context, op, past, update, positions, y));
  HIPC_TRY(check_same_shape(context, op, past, y));
  HIPC_TRY(check_axis(context, op, axis, past->rank, &axis));
  if (axis == 0 || update->rank != past->rank)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s needs operands of one rank and an axis after the batch", op);
  for (int32_t i = 0; i < past->rank; i++)
    if (i == axis ? update->shape[i] > past->shape[i] : update->shape[i] != past->shape[i])
      return hipc_error(context, HIPC_ERROR_SHAPE, "%s: axis %d of the update does not fit", op, i);
  if (positions && (positions->dtype != I64 || elements(positions) != past->shape[0]))
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s needs one int64 position for each batch entry", op);
  HIPC_TRY(copy_data(context, op, past, y));
  if (elements(update) == 0) return HIPC_OK;
  int32_t *fault = device_fault(context);
  if (!fault) return HIPC_ERROR_MEMORY;
  return launch(context, kernel_name_of_size(op, element_size(y->dtype)), over(context, elements(update)), y->data,
                update->data, positions ? data<int64_t>(positions) : nullptr, elements(update), extent(past, 1, (int32_t)axis),
                past->shape[axis], update->shape[axis], extent(past, (int32_t)axis + 1, past->rank), (int32_t)(mode == 1), fault);
}

HIPC_EXPORT int32_t hipc_one_hot(hipc_context *context, const hipc_tensor *indices, const hipc_tensor *values,
                                 hipc_tensor *y, int64_t axis) {
  const char *op = "one_hot";
  HIPC_TRY(check_contiguous(context, op, indices, values, y));
  HIPC_TRY(check_axis(context, op, axis, y->rank, &axis));
  HIPC_TRY(check_indices_type(context, op, indices));
  Rows r = rows_of(y, axis);
  if (elements(values) != 2 || elements(indices) != r.outer * r.inner || y->rank != indices->rank + 1)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: the output does not have the extents of indices and depth", op);
  if (element_size(y->dtype) == 0 || values->dtype != y->dtype) return unsupported_dtype(context, op, y->dtype);
  if (elements(y) == 0) return HIPC_OK;
  return launch(context, kernel_name_of_size(op, element_size(y->dtype)), over(context, elements(y)), indices->data,
                values->data, y->data, elements(y), r.length, r.inner, (int32_t)(indices->dtype == I64));
}

HIPC_EXPORT int32_t hipc_reverse_sequence(hipc_context *context, const hipc_tensor *x, const hipc_tensor *lengths,
                                          hipc_tensor *y, int64_t batch_axis, int64_t time_axis) {
  const char *op = "reverse_sequence";
  HIPC_TRY(check_same_shape(context, op, x, y));
  HIPC_TRY(check_contiguous(context, op, x, lengths, y));
  if (x->rank < 2 || batch_axis + time_axis != 1 || batch_axis < 0 || time_axis < 0)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: batch and time must be the first two axes", op);
  if (lengths->dtype != I64) return unsupported_dtype(context, op, lengths->dtype);
  if (elements(lengths) != x->shape[batch_axis])
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s needs one length per sequence", op);
  if (element_size(x->dtype) == 0 || y->dtype != x->dtype) return unsupported_dtype(context, op, x->dtype);
  if (elements(x) == 0) return HIPC_OK;
  int32_t *fault = device_fault(context);
  if (!fault) return HIPC_ERROR_MEMORY;
  return launch(context, kernel_name_of_size(op, element_size(x->dtype)), over(context, elements(x)), x->data, lengths->data,
                y->data, elements(x), x->shape[0], x->shape[1], extent(x, 2, x->rank), (int32_t)(time_axis == 0), fault);
}
