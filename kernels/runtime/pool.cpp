// hipc_pool_window and hipc_global_pool on GPUs: maxima and averages.
#include "../host/pool_window.h"
#include "gpu.h"

using namespace hipc;

namespace {

// As kernels/device/pool.hip declares it.
struct Normal {
  int64_t in[3], out[3], kernel[3], strides[3], dilations[3], before[3], after[3];
  int64_t planes;
};

Normal normal_of(const Window &window) {
  Normal normal;
  for (int axis = 0; axis < 3; axis++) {
    normal.in[axis] = window.in[axis], normal.out[axis] = window.out[axis], normal.kernel[axis] = window.kernel[axis];
    normal.strides[axis] = window.strides[axis], normal.dilations[axis] = window.dilations[axis];
    normal.before[axis] = window.before[axis], normal.after[axis] = window.after[axis];
  }
  normal.planes = window.planes;
  return normal;
}

bool is_float(int32_t dtype) { return dtype == F32 || dtype == F16 || dtype == BF16 || dtype == F64; }

int32_t no_norm(hipc_context *context, const char *op) {
  return hipc_error(context, HIPC_ERROR_UNSUPPORTED, "%s by norms is not supported on GPUs", op);
}

} // namespace

HIPC_EXPORT int32_t hipc_pool_window(hipc_context *context, const hipc_tensor *x, hipc_tensor *y, int64_t mode,
                                     const int64_t *kernel, int64_t num_kernel, const int64_t *strides, int64_t num_strides,
                                     const int64_t *pads, int64_t num_pads, const int64_t *dilations, int64_t num_dilations,
                                     int64_t ceil_mode, int64_t count_include_pad, int64_t, int64_t is_unsigned) {
  const char *op = "pool";
  WindowAttributes attributes{kernel,      strides,  pads,          dilations,     num_kernel,
                              num_strides, num_pads, num_dilations, ceil_mode != 0};
  Window window{};
  HIPC_TRY(read_window(context, op, x, y, attributes, window));
  HIPC_TRY(check_contiguous(context, op, x, y));
  if (elements(y) == 0) return HIPC_OK;
  Launch each = over(context, elements(y));
  if (mode == POOL_MAX)
    return launch(context, kernel_name("max_pool", with_sign(x->dtype, is_unsigned)), each, x->data, y->data, normal_of(window));
  if (mode != POOL_AVERAGE) return no_norm(context, op);
  if (!is_float(x->dtype)) return unsupported_dtype(context, "average pool", x->dtype);
  return launch(context, kernel_name("average_pool", x->dtype), each, x->data, y->data, normal_of(window),
                (int32_t)(count_include_pad != 0));
}

HIPC_EXPORT int32_t hipc_global_pool(hipc_context *context, const hipc_tensor *x, hipc_tensor *y, int64_t mode, int64_t) {
  const char *op = "global pool";
  int64_t planes = x->rank < 2 ? 0 : extent(x, 0, 2), count = x->rank < 2 ? 0 : extent(x, 2, x->rank);
  if (x->rank < 2 || x->dtype != y->dtype || elements(y) != planes)
    return hipc_error(context, HIPC_ERROR_SHAPE, "global pool: y must hold one %s for each of the %lld planes of x",
                      dtype_name(x->dtype), (long long)planes);
  HIPC_TRY(check_contiguous(context, op, x, y));
  if (mode == POOL_LP) return no_norm(context, op);
  if (!is_float(x->dtype)) return unsupported_dtype(context, op, x->dtype);
  if (planes == 0) return HIPC_OK;
  const char *family = mode == POOL_MAX ? "global_max_pool" : "global_average_pool";
  return launch(context, kernel_name(family, x->dtype), rows(planes), x->data, y->data, count);
}
