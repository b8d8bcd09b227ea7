// hipc_dft and hipc_det on GPUs.
#include "gpu.h"
#include "shared/spectrum.h"

using namespace hipc;

namespace {

bool is_float_type(int32_t dtype) { return dtype == F32 || dtype == F16 || dtype == BF16 || dtype == F64; }

} // namespace

HIPC_EXPORT int32_t hipc_det(hipc_context *context, const hipc_tensor *x, hipc_tensor *y) {
  const char *op = "det";
  HIPC_TRY(check_contiguous(context, op, x, y));
  if (x->rank < 2 || x->shape[x->rank - 1] != x->shape[x->rank - 2])
    return hipc_error(context, HIPC_ERROR_SHAPE, "det needs square matrices");
  int64_t n = x->shape[x->rank - 1], batch = extent(x, 0, x->rank - 2);
  if (elements(y) != batch) return hipc_error(context, HIPC_ERROR_SHAPE, "det writes one number for each matrix");
  if (!is_float_type(x->dtype) || y->dtype != x->dtype) return unsupported_dtype(context, op, x->dtype);
  if (batch == 0) return HIPC_OK;
  double *work = (double *)device_scratch(context, max<int64_t>(batch * n * n, 1) * 8);
  if (!work) return out_of_memory(context, op);
  return launch(context, kernel_name(op, x->dtype), rows(batch), x->data, y->data, work, batch, n);
}

HIPC_EXPORT int32_t hipc_dft(hipc_context *context, const hipc_tensor *x, const hipc_tensor *length, const hipc_tensor *at,
                             hipc_tensor *y, int64_t axis, int64_t inverse, int64_t onesided) {
  const char *op = "dft";
  HIPC_TRY(check_contiguous(context, op, x, length, at, y));
  if (at) HIPC_TRY(read_number(context, op, "the axis", at, &axis));
  HIPC_TRY(check_axis(context, op, axis, x->rank, &axis));
  if (x->rank < 2 || y->rank != x->rank || axis == x->rank - 1)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s needs an axis before the last, which holds the parts", op);
  if (!is_float_type(x->dtype) || y->dtype != x->dtype) return unsupported_dtype(context, op, x->dtype);
  int32_t last = x->rank - 1;
  Dft s{extent(x, 0, (int32_t)axis), x->shape[axis], y->shape[axis], extent(x, (int32_t)axis + 1, last), 0,
        (int32_t)x->shape[last], (int32_t)y->shape[last], inverse != 0, onesided != 0};
  bool to_real = s.inverse && s.onesided;
  s.length = to_real ? 2 * (s.in - 1) : s.in;
  if (length) HIPC_TRY(read_number(context, op, "the length", length, &s.length));
  int64_t expected = s.onesided && !s.inverse ? s.length / 2 + 1 : s.length;
  if (s.in_parts < 1 || s.in_parts > 2 || s.out_parts != (to_real ? 1 : 2) || s.out != expected ||
      elements(y) != s.outer * s.out * s.inner * s.out_parts)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: the output does not have the extents of a transform of length %lld",
                      op, (long long)s.length);
  if (elements(y) == 0) return HIPC_OK;
  if (s.length < 1) return hipc_error(context, HIPC_ERROR_VALUE, "%s: length %lld is not positive", op, (long long)s.length);
  double *roots = (double *)device_scratch(context, 16 * s.length);
  if (!roots) return out_of_memory(context, op);
  HIPC_TRY(launch(context, "dft_roots", over(context, s.length), roots, s.length));
  return launch(context, kernel_name(op, x->dtype), over(context, elements(y) / s.out_parts), x->data, y->data,
                (const double *)roots, s);
}
