// hipc_random_uniform, hipc_random_normal, hipc_bernoulli and hipc_multinomial on GPUs.
#include "gpu.h"

using namespace hipc;

namespace {

bool is_float_type(int32_t dtype) { return dtype == F32 || dtype == F16 || dtype == BF16 || dtype == F64; }

int32_t fill(hipc_context *context, const char *op, hipc_tensor *y, double first, double second, int64_t seed) {
  HIPC_TRY(check_contiguous(context, op, y));
  if (!is_float_type(y->dtype)) return unsupported_dtype(context, op, y->dtype);
  if (elements(y) == 0) return HIPC_OK;
  return launch(context, kernel_name(op, y->dtype), over(context, elements(y)), y->data, elements(y), first, second, seed);
}

} // namespace

HIPC_EXPORT int32_t hipc_random_uniform(hipc_context *context, hipc_tensor *y, double low, double high, int64_t seed) {
  return fill(context, "random_uniform", y, low, high, seed);
}

HIPC_EXPORT int32_t hipc_random_normal(hipc_context *context, hipc_tensor *y, double mean, double scale, int64_t seed) {
  return fill(context, "random_normal", y, mean, scale, seed);
}

HIPC_EXPORT int32_t hipc_bernoulli(hipc_context *context, const hipc_tensor *x, hipc_tensor *y, int64_t seed) {
  const char *op = "bernoulli";
  HIPC_TRY(check_contiguous(context, op, x, y));
  HIPC_TRY(check_same_shape(context, op, x, y));
  int32_t to = signed_as(y->dtype, 0);
  if (!is_float_type(x->dtype)) return unsupported_dtype(context, op, x->dtype);
  if (!*dtype_word(to)) return unsupported_dtype(context, op, y->dtype);
  if (elements(y) == 0) return HIPC_OK;
  return launch(context, kernel_name(op, to), over(context, elements(y)), x->data, y->data, elements(y), seed, x->dtype);
}

HIPC_EXPORT int32_t hipc_multinomial(hipc_context *context, const hipc_tensor *x, hipc_tensor *y, int64_t seed) {
  const char *op = "multinomial";
  HIPC_TRY(check_contiguous(context, op, x, y));
  if (x->rank != 2 || y->rank != 2 || x->shape[0] != y->shape[0])
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s needs one row of logarithms for each row of the output", op);
  int64_t count = x->shape[0], classes = x->shape[1], draws = y->shape[1];
  if (!is_float_type(x->dtype)) return unsupported_dtype(context, op, x->dtype);
  if (y->dtype != I32 && y->dtype != I64) return unsupported_dtype(context, op, y->dtype);
  if (elements(y) == 0) return HIPC_OK;
  if (classes == 0) return hipc_error(context, HIPC_ERROR_VALUE, "%s: there is no class to draw", op);
  double *running = (double *)device_scratch(context, count * classes * 8);
  if (!running) return out_of_memory(context, op);
  HIPC_TRY(launch(context, "multinomial_sums", rows(count), x->data, running, count, classes, x->dtype));
  return launch(context, kernel_name(op, y->dtype), over(context, elements(y)), (const double *)running, y->data, count, classes,
                draws, seed);
}
