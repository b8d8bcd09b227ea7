// hipc_max_roi_pool.
#include "hipc_ops.h"

using namespace hipc;

namespace {

struct Cells {
  int64_t height, width, rows, columns;
};

// Bounds of cell `index` of `count` along one axis of a region, clipped to the map.
HIPC_INLINE void bounds(double start, double size, int64_t index, int64_t count, int64_t limit, int64_t *begin,
                        int64_t *end) {
  double low = start + floor((double)index * size / (double)count);
  double high = start + ceil((double)(index + 1) * size / (double)count);
  // A region is data: bounds are clipped as numbers before they become indices.
  *begin = !(low > 0) ? 0 : low > (double)limit ? limit : (int64_t)low;
  *end = !(high > 0) ? 0 : high > (double)limit ? limit : (int64_t)high;
}

template <class T>
void pool_region(const Cells &cells, const T *plane, const double *region, T *y) {
  using C = Compute<T>;
  double width = fmax(region[2] - region[0] + 1, 1), height = fmax(region[3] - region[1] + 1, 1);
  for (int64_t row = 0; row < cells.rows; row++)
    for (int64_t column = 0; column < cells.columns; column++) {
      int64_t top, bottom, left, right;
      bounds(region[1], height, row, cells.rows, cells.height, &top, &bottom);
      bounds(region[0], width, column, cells.columns, cells.width, &left, &right);
      // An empty cell is zero.
      C best = top < bottom && left < right ? -(C)__builtin_inff() : (C)0;
      for (int64_t i = top; i < bottom; i++)
        for (int64_t j = left; j < right; j++) {
          C value = widen(plane[i * cells.width + j]);
          best = value > best || value != value ? value : best;
        }
      y[row * cells.columns + column] = (T)best;
    }
}

} // namespace

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
    Cells cells{x->shape[2], x->shape[3], output_height, output_width};
    int64_t plane = cells.height * cells.width;
    parallel_for(context, count * channels, plane + bins * 8, [=](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; task++) {
        const T *region = regions + task / channels * 5;
        double corners[4];
        for (int k = 0; k < 4; k++) corners[k] = round((double)widen(region[1 + k]) * spatial_scale);
        int64_t image = (int64_t)widen(region[0]);
        pool_region(cells, maps + (image * channels + task % channels) * plane, corners, out + task * bins);
      }
    });
    return HIPC_OK;
  });
}
