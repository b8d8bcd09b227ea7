// hipc_layer_norm, hipc_layer_norm_stats, hipc_rms_norm, hipc_instance_norm and hipc_group_norm on GPUs: one block a row.
#include "gpu.h"
#include "shared/norms.h"

using namespace hipc;

namespace {

bool is_float_type(int32_t dtype) { return dtype == F32 || dtype == F16 || dtype == BF16 || dtype == F64; }

// A parameter broadcasts along leading and trailing axes of the row: element i of the row is at i / inner % extent.
int32_t read_parameter(hipc_context *context, const char *op, const hipc_tensor *parameter, int32_t rank,
                       const int64_t *shape, int64_t *inner, int64_t *extent_of) {
  *inner = *extent_of = 1;
  if (!parameter) return HIPC_OK;
  if (!is_float_type(parameter->dtype)) return unsupported_dtype(context, op, parameter->dtype);
  int32_t skip = 0;
  while (parameter->rank - skip > rank && parameter->shape[skip] == 1) skip++;
  int32_t own = parameter->rank - skip;
  bool fits = own <= rank, trailing = true, leading = false;
  for (int32_t i = own - 1; fits && i >= 0; i--) {
    int64_t size = parameter->shape[skip + i], wanted = shape[rank - own + i];
    fits = size == 1 || size == wanted;
    if (wanted == 1) continue;
    if (size == 1 && trailing) *inner *= wanted;
    else if (size == 1) leading = true;
    else if (leading)
      return hipc_error(context, HIPC_ERROR_UNSUPPORTED, "%s: scale or bias broadcasts along an axis in the middle", op);
    else trailing = false, *extent_of *= size;
  }
  if (fits) return HIPC_OK;
  return hipc_error(context, HIPC_ERROR_SHAPE, "%s: scale or bias does not broadcast to the normalised axes", op);
}

uint32_t threads_for(hipc_context *context, int64_t length) {
  uint32_t threads = (uint32_t)wave_size(context);
  while (threads < 1024 && threads * 8 < length) threads *= 2;
  return threads;
}

// Rows of decoders have a kernel that keeps them in registers.
bool fits_registers(const hipc_tensor *x, const hipc_tensor *scale, const hipc_tensor *y, int64_t length, uint32_t threads) {
  int64_t vector = 16 / element_size(x->dtype);
  if (!scale) return false;
  bool aligned = ((uintptr_t)x->data | (uintptr_t)scale->data | (uintptr_t)y->data) % 16 == 0;
  return x->dtype != F64 && scale->dtype == x->dtype && elements(scale) == length && aligned && length % vector == 0 &&
         length <= 4 * vector * (int64_t)threads;
}

int32_t normalise_rows(hipc_context *context, const char *op, bool centred, const hipc_tensor *x, const hipc_tensor *scale,
                       const hipc_tensor *bias, hipc_tensor *y, hipc_tensor *mean, hipc_tensor *inverse, int64_t axis,
                       double epsilon) {
  HIPC_TRY(check_same_shape(context, op, x, y));
  HIPC_TRY(check_contiguous(context, op, x, scale, bias, y, mean, inverse));
  HIPC_TRY(check_axis(context, op, axis, x->rank, &axis));
  if (!is_float_type(x->dtype) || y->dtype != x->dtype) return unsupported_dtype(context, op, x->dtype);
  int32_t first = x->rank ? (int32_t)axis : 0, rank = x->rank - first;
  int64_t count = extent(x, 0, first), length = extent(x, first, x->rank);
  if (mean && (elements(mean) != count || elements(inverse) != count || inverse->dtype != mean->dtype))
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: mean and inverse deviation need one element per row", op);
  NormParameters p{scale ? scale->data : nullptr, bias ? bias->data : nullptr, scale ? scale->dtype : F32, bias ? bias->dtype : F32,
               1, 1, 1, 1};
  HIPC_TRY(read_parameter(context, op, scale, rank, x->shape + first, &p.scale_inner, &p.scale_extent));
  HIPC_TRY(read_parameter(context, op, bias, rank, x->shape + first, &p.bias_inner, &p.bias_extent));
  if (count == 0 || (length == 0 && !mean)) return HIPC_OK;
  uint32_t threads = threads_for(context, length);
  if (!centred && fits_registers(x, scale, y, length, threads))
    return launch(context, kernel_name("rms_norm", x->dtype), rows(count, threads), x->data, scale->data, y->data, length,
                  (float)epsilon);
  return launch(context, kernel_name("layer_norm", x->dtype), rows(count, threads), x->data, y->data, length, epsilon, p,
                (int32_t)centred, mean ? mean->data : nullptr, inverse ? inverse->data : nullptr,
                mean ? mean->dtype : (int32_t)F32);
}

int32_t normalise_groups(hipc_context *context, const char *op, const hipc_tensor *x, const hipc_tensor *scale,
                         const hipc_tensor *bias, hipc_tensor *y, int64_t groups, double epsilon) {
  HIPC_TRY(check_same_shape(context, op, x, y));
  HIPC_TRY(check_contiguous(context, op, x, scale, bias, y));
  if (x->rank < 2) return hipc_error(context, HIPC_ERROR_SHAPE, "%s needs a batch axis and a channel axis", op);
  int64_t channels = x->shape[1], spatial = extent(x, 2, x->rank), parameters = elements(scale);
  if (groups < 1 || channels % groups)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: %lld channels do not divide into %lld groups", op,
                      (long long)channels, (long long)groups);
  if ((parameters != channels && parameters != groups) || elements(bias) != parameters)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: scale and bias need one number per channel or per group", op);
  const hipc_tensor *operands[] = {x, scale, bias};
  for (const hipc_tensor *tensor : operands)
    if (!is_float_type(tensor->dtype)) return unsupported_dtype(context, op, tensor->dtype);
  if (elements(x) == 0) return HIPC_OK;
  int64_t width = channels / groups;
  return launch(context, kernel_name("group_norm", x->dtype),
                rows(x->shape[0] * groups, threads_for(context, width * spatial)), x->data, y->data, groups, width, spatial,
                epsilon, scale->data, bias->data, scale->dtype, bias->dtype, (int32_t)(parameters == channels));
}

} // namespace

HIPC_EXPORT int32_t hipc_layer_norm(hipc_context *context, const hipc_tensor *x, const hipc_tensor *scale,
                                    const hipc_tensor *bias, hipc_tensor *y, int64_t axis, double epsilon) {
  return normalise_rows(context, "layer_norm", true, x, scale, bias, y, nullptr, nullptr, axis, epsilon);
}

HIPC_EXPORT int32_t hipc_layer_norm_stats(hipc_context *context, const hipc_tensor *x, const hipc_tensor *scale,
                                          const hipc_tensor *bias, hipc_tensor *y, hipc_tensor *mean,
                                          hipc_tensor *inv_std, int64_t axis, double epsilon) {
  return normalise_rows(context, "layer_norm_stats", true, x, scale, bias, y, mean, inv_std, axis, epsilon);
}

HIPC_EXPORT int32_t hipc_rms_norm(hipc_context *context, const hipc_tensor *x, const hipc_tensor *scale,
                                  hipc_tensor *y, int64_t axis, double epsilon) {
  return normalise_rows(context, "rms_norm", false, x, scale, nullptr, y, nullptr, nullptr, axis, epsilon);
}

HIPC_EXPORT int32_t hipc_instance_norm(hipc_context *context, const hipc_tensor *x, const hipc_tensor *scale,
                                       const hipc_tensor *bias, hipc_tensor *y, double epsilon) {
  // Zero channels are zero groups of one; the check wants at least one.
  int64_t channels = x->rank > 1 ? max(x->shape[1], (int64_t)1) : 1;
  return normalise_groups(context, "instance_norm", x, scale, bias, y, channels, epsilon);
}

HIPC_EXPORT int32_t hipc_group_norm(hipc_context *context, const hipc_tensor *x, const hipc_tensor *scale,
                                    const hipc_tensor *bias, hipc_tensor *y, int64_t groups, double epsilon) {
  return normalise_groups(context, "group_norm", x, scale, bias, y, groups, epsilon);
}
