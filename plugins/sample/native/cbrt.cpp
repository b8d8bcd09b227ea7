// What sample.cbrt calls: y = cube root of x, by the C library's function.
#include <hipc.h>

extern "C" float cbrtf(float);

extern "C" int32_t sample_cbrt(hipc_context *context, const hipc_tensor *x, hipc_tensor *y) {
  if (x->dtype != 1) return hipc_error(context, HIPC_ERROR_UNSUPPORTED, "element type %d", x->dtype);
  int64_t count = 1;
  for (int32_t axis = 0; axis < x->rank; ++axis) count *= x->shape[axis];
  const float *from = static_cast<const float *>(x->data);
  float *to = static_cast<float *>(y->data);
  for (int64_t i = 0; i < count; ++i) to[i] = cbrtf(from[i]);
  return HIPC_OK;
}
