// hipc_grid_sample, hipc_roi_align, hipc_max_roi_pool, hipc_deform_conv and hipc_col2im on GPUs.
#include "../host/regions.h"
#include "gpu.h"
#include "shared/unfolded.h"

using namespace hipc;

// Of kernels/runtime/conv.cpp.
HIPC_EXPORT int32_t hipc_conv(hipc_context *context, const hipc_tensor *x, const hipc_tensor *w, const hipc_tensor *bias,
                              const hipc_tensor *residual, hipc_tensor *y, const int64_t *strides, int64_t num_strides,
                              const int64_t *pads, int64_t num_pads, const int64_t *dilations, int64_t num_dilations,
                              int64_t group, int64_t activation, double activation_alpha, double activation_beta);

namespace {

bool is_float_type(int32_t dtype) { return dtype == F32 || dtype == F16 || dtype == BF16 || dtype == F64; }

template <class... Tensors> int32_t check_floats(hipc_context *context, const char *op, const hipc_tensor *x, const Tensors *...others) {
  if (!is_float_type(x->dtype)) return unsupported_dtype(context, op, x->dtype);
  const hipc_tensor *all[] = {others...};
  for (const hipc_tensor *other : all)
    if (other && other->dtype != x->dtype) return unsupported_dtype(context, op, other->dtype);
  return HIPC_OK;
}

hipc_tensor contiguous(void *data, int32_t dtype, int64_t a, int64_t b, int64_t c, int64_t d) {
  return {data, dtype, 4, {a, b, c, d}, {b * c * d, c * d, d, 1}};
}

} // namespace

HIPC_EXPORT int32_t hipc_grid_sample(hipc_context *context, const hipc_tensor *x, const hipc_tensor *grid,
                                     hipc_tensor *y, int64_t mode, int64_t padding, int64_t align_corners) {
  const char *op = "grid_sample";
  Grid g;
  HIPC_TRY(read_grid(context, x, grid, y, mode, padding, align_corners, &g));
  HIPC_TRY(check_floats(context, op, x, y));
  if (!is_float_type(grid->dtype)) return unsupported_dtype(context, op, grid->dtype);
  int64_t points = extent(grid, 1, grid->rank - 1), batch = x->shape[0], channels = x->shape[1];
  if (elements(y) == 0) return HIPC_OK;
  return launch(context, kernel_name(op, x->dtype), over(context, batch * points), x->data, grid->data, y->data, g, batch,
                channels, points, extent(x, 2, x->rank), grid->dtype);
}

HIPC_EXPORT int32_t hipc_roi_align(hipc_context *context, const hipc_tensor *x, const hipc_tensor *rois,
                                   const hipc_tensor *batch_indices, hipc_tensor *y, int64_t mode, int64_t coordinate,
                                   int64_t output_height, int64_t output_width, int64_t sampling_ratio,
                                   double spatial_scale) {
  const char *op = "roi_align";
  Region r;
  HIPC_TRY(read_region(context, x, rois, batch_indices, y, mode, coordinate, output_height, output_width, sampling_ratio,
                       spatial_scale, &r));
  HIPC_TRY(check_floats(context, op, x, rois, y));
  int64_t count = rois->shape[0];
  if (elements(y) == 0) return HIPC_OK;
  int32_t *fault = device_fault(context);
  if (!fault) return HIPC_ERROR_MEMORY;
  return launch(context, kernel_name(op, x->dtype), over(context, elements(y)), x->data, rois->data, batch_indices->data,
                y->data, r, count, x->shape[0], fault);
}

HIPC_EXPORT int32_t hipc_max_roi_pool(hipc_context *context, const hipc_tensor *x, const hipc_tensor *rois,
                                      hipc_tensor *y, int64_t output_height, int64_t output_width,
                                      double spatial_scale) {
  const char *op = "max_roi_pool";
  HIPC_TRY(check_contiguous(context, op, x, rois, y));
  if (x->rank != 4 || rois->rank != 2 || rois->shape[1] != 5)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: regions need five numbers of the input's type each", op);
  HIPC_TRY(check_floats(context, op, x, rois, y));
  int64_t count = rois->shape[0];
  if (output_height < 1 || output_width < 1 || elements(y) != count * x->shape[1] * output_height * output_width)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: the output does not have the extents asked for", op);
  if (elements(y) == 0) return HIPC_OK;
  int32_t *fault = device_fault(context);
  if (!fault) return HIPC_ERROR_MEMORY;
  RoiCells cells{x->shape[2], x->shape[3], output_height, output_width, spatial_scale};
  return launch(context, kernel_name(op, x->dtype), over(context, elements(y)), x->data, rois->data, y->data, cells, count,
                x->shape[1], x->shape[0], fault);
}

// What lies under every tap is sampled first, at the type of x; a convolution of 1 x 1 multiplies it.
HIPC_EXPORT int32_t hipc_deform_conv(hipc_context *context, const hipc_tensor *x, const hipc_tensor *w,
                                     const hipc_tensor *offset, const hipc_tensor *bias, const hipc_tensor *mask,
                                     hipc_tensor *y, const int64_t *strides, int64_t num_strides, const int64_t *pads,
                                     int64_t num_pads, const int64_t *dilations, int64_t num_dilations, int64_t group,
                                     int64_t offset_group) {
  const char *op = "deform_conv";
  HIPC_TRY(check_contiguous(context, op, x, w, offset, bias, mask, y));
  if (num_strides != 2 || num_pads != 4 || num_dilations != 2)
    return hipc_error(context, HIPC_ERROR_VALUE, "%s: strides, pads and dilations are of another rank", op);
  HIPC_TRY(check_floats(context, op, x, w, offset, bias, mask, y));
  Deformed d{};
  d.group = group, d.offset_group = offset_group;
  for (int i = 0; i < 2; i++) d.stride[i] = strides[i], d.pad[i] = pads[i], d.dilation[i] = dilations[i];
  HIPC_TRY(read_deformed(context, x, w, offset, bias, mask, y, &d));
  if (elements(y) == 0) return HIPC_OK;
  int64_t depth = d.channels_in * d.taps();
  void *samples = device_scratch(context, d.batch * depth * d.positions() * element_size(x->dtype));
  if (!samples) return out_of_memory(context, op);
  HIPC_TRY(launch(context, kernel_name("deform_samples", x->dtype),
                  over(context, d.batch * offset_group * d.taps() * d.positions()), x->data, offset->data,
                  mask ? mask->data : nullptr, samples, d));
  hipc_tensor columns = contiguous(samples, x->dtype, d.batch, depth, d.out_height, d.out_width);
  hipc_tensor weights = contiguous(w->data, w->dtype, d.channels_out, depth / group, 1, 1);
  const int64_t ones[] = {1, 1}, zeros[] = {0, 0, 0, 0};
  return hipc_conv(context, &columns, &weights, bias, nullptr, y, ones, 2, zeros, 4, ones, 2, group, 0, 0, 0);
}

HIPC_EXPORT int32_t hipc_col2im(hipc_context *context, const hipc_tensor *x, const hipc_tensor *block, hipc_tensor *y,
                                const int64_t *strides, int64_t num_strides, const int64_t *pads, int64_t num_pads,
                                const int64_t *dilations, int64_t num_dilations) {
  const char *op = "col2im";
  HIPC_TRY(check_contiguous(context, op, x, block, y));
  Col2Im w{};
  w.axes = y->rank - 2;
  if (x->rank != 3 || w.axes < 1 || block->dtype != I64 || elements(block) != w.axes || num_strides != w.axes ||
      num_dilations != w.axes || num_pads != 2 * w.axes)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: ranks and attributes do not fit each other", op);
  HIPC_TRY(check_floats(context, op, x, y));
  int64_t buffer[HIPC_MAX_RANK];
  const int64_t *blocks = (const int64_t *)host_view(context, block->data, buffer, 8 * w.axes);
  if (!blocks) return HIPC_ERROR_INTERNAL;
  w.blocks = w.cell_count = 1;
  for (int32_t i = 0; i < w.axes; i++) {
    if (strides[i] < 1 || dilations[i] < 1 || blocks[i] < 1)
      return hipc_error(context, HIPC_ERROR_VALUE, "%s: blocks, strides and dilations must be positive", op);
    w.block[i] = blocks[i], w.image[i] = y->shape[2 + i];
    w.strides[i] = strides[i], w.pads[i] = pads[i], w.dilations[i] = dilations[i];
    int64_t room = w.image[i] + pads[i] + pads[w.axes + i] - dilations[i] * (blocks[i] - 1) - 1;
    w.cells[i] = room < 0 ? 0 : room / strides[i] + 1;
    w.blocks *= w.block[i], w.cell_count *= w.cells[i];
  }
  if (x->shape[0] != y->shape[0] || x->shape[1] != y->shape[1] * w.blocks || x->shape[2] != w.cell_count)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: the image has %lld blocks, the columns %lld", op,
                      (long long)w.cell_count, (long long)x->shape[2]);
  if (elements(y) == 0) return HIPC_OK;
  w.planes = y->shape[0] * y->shape[1], w.size = extent(y, 2, y->rank);
  return launch(context, kernel_name(op, x->dtype), over(context, elements(y)), x->data, y->data, w);
}
