// hipc_max_roi_pool.
#include "shared/sampling.h"

using namespace hipc;

HIPC_EXPORT int32_t hipc_max_roi_pool(hipc_context *context, const hipc_tensor *x, const hipc_tensor *rois,
                                      hipc_tensor *y, int64_t output_height, int64_t output_width,
                                      double spatial_scale) {
  const char *op = "max_roi_pool";
  HIPC_TRY(check_contiguous(context, op, x, rois, y));
  if (x->rank != 4 || rois->rank != 2 || rois->shape[1] != 5 || rois->dtype != x->dtype)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: regions need five numbers of the input's type each", op);
  int64_t count = rois->shape[0], channels = x->shape[1], bins = output_height * output_width;
  if (output_height < 1 || output_width < 1 || elements(y) != count * channels * bins)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: the output does not have the extents asked for", op);
  return dispatch_float(context, op, x->dtype, [&]<class T>() -> int32_t {
    const T *maps = data<T>(x), *regions = data<T>(rois);
    for (int64_t i = 0; i < count; i++) {
      double image = (double)widen(regions[i * 5]);
      if (!(image >= 0 && image < (double)x->shape[0]))
        return index_error(context, op, image > -1e15 && image < 1e15 ? (int64_t)image : -1, 0, x->shape[0]);
    }
    T *out = data<T>(y);
    RoiCells cells{x->shape[2], x->shape[3], output_height, output_width, spatial_scale};
    int64_t plane = cells.height * cells.width;
    parallel_for(context, count * channels, plane + bins * 8, [=](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; task++) {
        const T *region = regions + task / channels * 5;
        const T *from = maps + ((int64_t)widen(region[0]) * channels + task % channels) * plane;
        for (int64_t bin = 0; bin < bins; bin++)
          out[task * bins + bin] = (T)greatest_of_cell(cells, from, region + 1, bin / output_width, bin % output_width);
      }
    });
    return HIPC_OK;
  });
}
