// hipc_gather on GPUs.
#include "gpu.h"

using namespace hipc;

HIPC_EXPORT int32_t hipc_gather(hipc_context *context, const hipc_tensor *data, const hipc_tensor *indices,
                                hipc_tensor *y, int64_t axis) {
  const char *op = "gather";
  HIPC_TRY(check_contiguous(context, op, data, indices, y));
  HIPC_TRY(check_axis(context, op, axis, data->rank, &axis));
  if (indices->dtype != I32 && indices->dtype != I64) return unsupported_dtype(context, op, indices->dtype);
  Rows rows = rows_of(data, axis);
  int64_t count = elements(indices), size = element_size(data->dtype), inner = rows.inner;
  if (data->dtype != y->dtype || elements(y) != rows.outer * count * rows.inner)
    return hipc_error(context, HIPC_ERROR_SHAPE, "gather: y does not have the shape of what is gathered");
  if (elements(y) == 0) return HIPC_OK;
  bool wide = inner * size % 16 == 0 && (uintptr_t)data->data % 16 == 0 && (uintptr_t)y->data % 16 == 0;
  if (wide) inner = inner * size / 16, size = 16;
  int32_t *fault = device_fault(context);
  if (!fault) return HIPC_ERROR_MEMORY;
  int64_t total = rows.outer * count * inner;
  return launch(context, kernel_name_of_size(indices->dtype == I32 ? "gather_i32" : "gather_i64", size), over(context, total),
                (const void *)data->data, (const void *)indices->data, y->data, total, rows.length, count, inner, fault);
}
