// hipc_softmax and hipc_hardmax on GPUs: a block a row where rows are contiguous, else a thread a column.
#include "gpu.h"

using namespace hipc;

namespace {

int32_t check(hipc_context *context, const char *op, const hipc_tensor *x, const hipc_tensor *y, int64_t *axis) {
  HIPC_TRY(check_same_shape(context, op, x, y));
  HIPC_TRY(check_contiguous(context, op, x, y));
  HIPC_TRY(check_axis(context, op, *axis, x->rank, axis));
  bool is_float = x->dtype == F32 || x->dtype == F16 || x->dtype == BF16 || x->dtype == F64;
  return is_float && y->dtype == x->dtype ? (int32_t)HIPC_OK : unsupported_dtype(context, op, x->dtype);
}

} // namespace

HIPC_EXPORT int32_t hipc_softmax(hipc_context *context, const hipc_tensor *x, hipc_tensor *y, int64_t axis,
                                 int64_t log) {
  HIPC_TRY(check(context, "softmax", x, y, &axis));
  if (elements(x) == 0) return HIPC_OK;
  Rows r = rows_of(x, axis);
  if (r.inner != 1)
    return launch(context, kernel_name("softmax_columns", x->dtype), over(context, r.outer * r.inner), x->data, y->data,
                  r.outer * r.inner, r.length, r.inner, (int32_t)(log != 0));
  uint32_t threads = (uint32_t)wave_size(context);
  while (threads < 1024 && threads * 4 < r.length) threads *= 2;
  return launch(context, kernel_name("softmax", x->dtype), rows(r.outer, threads), x->data, y->data, r.length,
                (int32_t)(log != 0));
}

HIPC_EXPORT int32_t hipc_hardmax(hipc_context *context, const hipc_tensor *x, hipc_tensor *y, int64_t axis) {
  HIPC_TRY(check(context, "hardmax", x, y, &axis));
  if (elements(x) == 0) return HIPC_OK;
  Rows r = rows_of(x, axis);
  return launch(context, kernel_name("hardmax", x->dtype), over(context, r.outer * r.inner), x->data, y->data,
                r.outer * r.inner, r.length, r.inner);
}
