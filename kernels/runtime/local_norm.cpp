// hipc_lrn and hipc_lp_norm on GPUs.
#include "gpu.h"

using namespace hipc;

namespace {

int32_t check(hipc_context *context, const char *op, const hipc_tensor *x, const hipc_tensor *y) {
  HIPC_TRY(check_same_shape(context, op, x, y));
  HIPC_TRY(check_contiguous(context, op, x, y));
  bool is_float = x->dtype == F32 || x->dtype == F16 || x->dtype == BF16 || x->dtype == F64;
  return is_float && y->dtype == x->dtype ? (int32_t)HIPC_OK : unsupported_dtype(context, op, x->dtype);
}

} // namespace

HIPC_EXPORT int32_t hipc_lrn(hipc_context *context, const hipc_tensor *x, hipc_tensor *y, int64_t size, double alpha,
                             double beta, double bias) {
  HIPC_TRY(check(context, "lrn", x, y));
  if (x->rank < 2) return hipc_error(context, HIPC_ERROR_SHAPE, "lrn needs a batch axis and a channel axis");
  if (size < 1) return hipc_error(context, HIPC_ERROR_VALUE, "lrn: size %lld is not positive", (long long)size);
  if (elements(x) == 0) return HIPC_OK;
  return launch(context, kernel_name("lrn", x->dtype), over(context, elements(x)), x->data, y->data, elements(x), x->shape[1],
                extent(x, 2, x->rank), size, alpha, beta, bias);
}

HIPC_EXPORT int32_t hipc_lp_norm(hipc_context *context, const hipc_tensor *x, hipc_tensor *y, int64_t axis, int64_t p) {
  HIPC_TRY(check(context, "lp_norm", x, y));
  HIPC_TRY(check_axis(context, "lp_norm", axis, x->rank, &axis));
  if (p != 1 && p != 2) return hipc_error(context, HIPC_ERROR_VALUE, "lp_norm: p = %lld is not 1 or 2", (long long)p);
  if (elements(x) == 0) return HIPC_OK;
  Rows r = rows_of(x, axis);
  if (r.inner == 1)
    return launch(context, kernel_name("lp_norm_rows", x->dtype), rows(r.outer), x->data, y->data, r.outer, r.length,
                  (int32_t)(p == 2));
  return launch(context, kernel_name("lp_norm_columns", x->dtype), over(context, r.outer * r.inner), x->data, y->data,
                r.outer * r.inner, r.length, r.inner, (int32_t)(p == 2));
}
