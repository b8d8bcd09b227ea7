// A window that slides over spatial axes, from the attributes of operators.
#pragma once
#include "gpu.h"
#include "shared/window.h"

namespace hipc {

struct WindowAttributes {
  const int64_t *kernel, *strides, *pads, *dilations;
  int64_t num_kernel, num_strides, num_pads, num_dilations;
  bool ceil_mode;
};

// Checks the spatial extents of y against x and the window.
inline int32_t read_window(hipc_context *context, const char *op, const hipc_tensor *x, const hipc_tensor *y,
                           const WindowAttributes &a, Window *window) {
  int32_t spatial = x->rank - 2;
  if (spatial < 1 || spatial > 3)
    return hipc_error(context, HIPC_ERROR_UNSUPPORTED, "%s with %d spatial dimensions; 1 to 3 are supported", op, spatial);
  if (y->rank != x->rank || a.num_kernel != spatial || a.num_strides != spatial || a.num_dilations != spatial ||
      a.num_pads != 2 * spatial)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: the rank of y and the attributes do not fit x of rank %d", op, x->rank);
  if (extent(x, 2, x->rank) > INT32_MAX || extent(y, 2, y->rank) > INT32_MAX)
    return hipc_error(context, HIPC_ERROR_UNSUPPORTED, "%s of planes with more than 2^31 elements", op);
  for (int axis = 0; axis < 3; axis++) {
    window->in[axis] = window->out[axis] = window->kernel[axis] = window->strides[axis] = window->dilations[axis] = 1;
    window->before[axis] = window->after[axis] = 0;
  }
  for (int32_t i = 0; i < spatial; i++) {
    int axis = 3 - spatial + i;
    if (a.kernel[i] < 1 || a.strides[i] < 1 || a.dilations[i] < 1)
      return hipc_error(context, HIPC_ERROR_VALUE, "%s: kernel, strides and dilations must be positive", op);
    window->in[axis] = (int32_t)x->shape[2 + i], window->out[axis] = (int32_t)y->shape[2 + i];
    window->kernel[axis] = (int32_t)a.kernel[i], window->strides[axis] = (int32_t)a.strides[i];
    window->dilations[axis] = (int32_t)a.dilations[i];
    window->before[axis] = (int32_t)a.pads[i], window->after[axis] = (int32_t)a.pads[spatial + i];
    int64_t room = x->shape[2 + i] + a.pads[i] + a.pads[spatial + i] - (a.kernel[i] - 1) * a.dilations[i] - 1;
    // With ceil_mode the last window must still start inside the input or the padding before it.
    int64_t expected = room < 0 ? 0
                       : a.ceil_mode ? min(ceil_div(room, a.strides[i]) + 1, ceil_div(x->shape[2 + i] + a.pads[i], a.strides[i]))
                                     : room / a.strides[i] + 1;
    if (y->shape[2 + i] != expected)
      return hipc_error(context, HIPC_ERROR_SHAPE, "%s: spatial extent %d of y is %lld, expected %lld", op, i,
                        (long long)y->shape[2 + i], (long long)expected);
  }
  return HIPC_OK;
}

} // namespace hipc
