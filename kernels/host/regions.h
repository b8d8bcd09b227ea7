// What the runtimes read and check of operators that sample a plane at positions that are data.
#pragma once
#include "hipc_ops.h"
#include "shared/sampling.h"

namespace hipc {

inline int32_t read_grid(hipc_context *context, const hipc_tensor *x, const hipc_tensor *grid, const hipc_tensor *y,
                         int64_t mode, int64_t padding, int64_t align_corners, Grid *g) {
  const char *op = "grid_sample";
  HIPC_TRY(check_contiguous(context, op, x, grid, y));
  int32_t axes = x->rank - 2;
  if (axes < 1 || axes > SPATIAL || grid->rank != x->rank || y->rank != x->rank || grid->shape[0] != x->shape[0] ||
      grid->shape[x->rank - 1] != axes)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: the grid does not fit an input of rank %d", op, x->rank);
  if (elements(y) != x->shape[0] * x->shape[1] * extent(grid, 1, grid->rank - 1))
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: the output does not have the grid's extents", op);
  *g = {(int32_t)mode, (int32_t)padding, align_corners != 0, axes, {1, 1, 1}, {0, 0, 0}};
  for (int32_t a = 0; a < axes; a++) {
    g->in[a] = x->shape[2 + a];
    g->stride[a] = extent(x, 3 + a, x->rank);
    if (g->in[a] == 0 && elements(y) != 0)
      return hipc_error(context, HIPC_ERROR_VALUE, "%s: spatial axis %d is empty", op, a);
  }
  return HIPC_OK;
}

inline int32_t read_region(hipc_context *context, const hipc_tensor *x, const hipc_tensor *rois,
                           const hipc_tensor *batch_indices, const hipc_tensor *y, int64_t mode, int64_t coordinate,
                           int64_t output_height, int64_t output_width, int64_t sampling_ratio, double spatial_scale,
                           Region *r) {
  const char *op = "roi_align";
  HIPC_TRY(check_contiguous(context, op, x, rois, batch_indices, y));
  if (x->rank != 4 || rois->rank != 2 || rois->shape[1] != 4 || elements(batch_indices) != rois->shape[0] ||
      rois->dtype != x->dtype)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: regions need four numbers of the input's type each", op);
  if (batch_indices->dtype != I64) return unsupported_dtype(context, op, batch_indices->dtype);
  if (output_height < 1 || output_width < 1 ||
      elements(y) != rois->shape[0] * x->shape[1] * output_height * output_width)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: the output does not have the extents asked for", op);
  if (elements(y) != 0 && x->shape[2] * x->shape[3] == 0)
    return hipc_error(context, HIPC_ERROR_VALUE, "%s: the feature map is empty", op);
  bool half_pixel = coordinate == 0;
  *r = {x->shape[1],    x->shape[2],   x->shape[3],            output_height, output_width,
        sampling_ratio, spatial_scale, half_pixel ? 0.5 : 0.0, mode == 1,     !half_pixel};
  return HIPC_OK;
}

// Two spatial axes; the caller has filled in groups, strides, pads and dilations.
inline int32_t read_deformed(hipc_context *context, const hipc_tensor *x, const hipc_tensor *w, const hipc_tensor *offset,
                             const hipc_tensor *bias, const hipc_tensor *mask, const hipc_tensor *y, Deformed *d) {
  const char *op = "deform_conv";
  if (x->rank != 4 || w->rank != 4 || offset->rank != 4 || y->rank != 4 || (mask && mask->rank != 4))
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s needs two spatial axes", op);
  d->batch = x->shape[0], d->channels_in = x->shape[1], d->channels_out = w->shape[0];
  d->height = x->shape[2], d->width = x->shape[3];
  d->out_height = y->shape[2], d->out_width = y->shape[3];
  d->kernel_height = w->shape[2], d->kernel_width = w->shape[3];
  int64_t taps = d->offset_group * d->taps();
  auto lies_on_output = [&](const hipc_tensor *tensor, int64_t channels) {
    return tensor->shape[0] == d->batch && tensor->shape[1] == channels && tensor->shape[2] == d->out_height &&
           tensor->shape[3] == d->out_width;
  };
  bool fits = d->group > 0 && d->offset_group > 0 && d->channels_in % d->group == 0 &&
              d->channels_out % d->group == 0 && d->channels_in % d->offset_group == 0 &&
              w->shape[1] * d->group == d->channels_in && lies_on_output(y, d->channels_out) &&
              lies_on_output(offset, 2 * taps) && (!mask || lies_on_output(mask, taps)) &&
              (!bias || elements(bias) == d->channels_out);
  return fits ? (int32_t)HIPC_OK : hipc_error(context, HIPC_ERROR_SHAPE, "%s: extents of the operands do not fit", op);
}

} // namespace hipc
