// What the runtimes read and check of a resize.
#pragma once
#include "hipc_ops.h"
#include "shared/resize.h"

namespace hipc {

inline int32_t check_resize(hipc_context *context, const ResizeOptions &options, const hipc_tensor *x,
                            const hipc_tensor *scales, const hipc_tensor *roi, const hipc_tensor *y) {
  if (y->rank != x->rank) return hipc_error(context, HIPC_ERROR_SHAPE, "resize: ranks of input and output differ");
  if (scales && (elements(scales) != x->rank || scales->dtype != F32))
    return hipc_error(context, HIPC_ERROR_SHAPE, "resize needs one float scale for each of the %d axes", x->rank);
  if (options.coordinate == TF_CROP_AND_RESIZE && (!roi || elements(roi) != 2 * x->rank || roi->dtype != F32))
    return hipc_error(context, HIPC_ERROR_SHAPE, "resize needs a float region with two numbers for each axis");
  return HIPC_OK;
}

// The axes, from the numbers of `scales` (NULL: they follow from the extents) and, where the resize crops, of `roi`.
inline int32_t read_axes(hipc_context *context, const ResizeOptions &options, const hipc_tensor *x, const float *scales,
                         const float *roi, const hipc_tensor *y, ResizeAxis *axes) {
  for (int32_t i = 0; i < x->rank; i++) {
    ResizeAxis &axis = axes[i];
    axis = {x->shape[i], y->shape[i], 1, 0, 1};
    if (scales) axis.scale = scales[i];
    else if (axis.in) axis.scale = (double)axis.out / (double)axis.in;
    if (options.coordinate == TF_CROP_AND_RESIZE) axis.roi_begin = roi[i], axis.roi_end = roi[x->rank + i];
    if (axis.out && !(axis.scale > 0))
      return hipc_error(context, HIPC_ERROR_VALUE, "resize: the scale of axis %d is not positive", i);
    if (axis.out && options.antialias && axis.scale < 1e-6)
      return hipc_error(context, HIPC_ERROR_VALUE, "resize: the scale of axis %d is too small for antialiasing", i);
    if (axis.out && !axis.in)
      return hipc_error(context, HIPC_ERROR_VALUE, "resize: axis %d is empty and has nothing to sample", i);
  }
  return HIPC_OK;
}

} // namespace hipc
