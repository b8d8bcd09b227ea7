// hipc_grid_sample, hipc_roi_align: interpolation at positions that are data.
#include "regions.h"

using namespace hipc;

namespace {

// Pixels and weights along one axis, for all channels.
template <class C> struct AxisTaps {
  int32_t count;
  AxisTap<C> taps[4];

  AxisTaps() : count(1), taps{{0, 1}} {}
  AxisTaps(const Grid &g, int axis, C coordinate) {
    AxisPlace<C> place = place_along(g, axis, coordinate);
    count = place.count;
    for (int32_t k = 0; k < count; k++) taps[k] = tap_of(g, axis, place, k);
  }
};

template <class T> Compute<T> sample(const Grid &g, const T *plane, const AxisTaps<Compute<T>> *taps) {
  Compute<T> sum = 0;
  for (int i = 0; i < taps[0].count; i++)
    for (int j = 0; j < taps[1].count; j++)
      for (int k = 0; k < taps[2].count; k++) {
        const auto &a = taps[0].taps[i], &b = taps[1].taps[j], &c = taps[2].taps[k];
        if (a.at < 0 || b.at < 0 || c.at < 0) continue;
        sum += a.weight * b.weight * c.weight * widen(plane[a.at * g.stride[0] + b.at * g.stride[1] + c.at * g.stride[2]]);
      }
  return sum;
}

template <class T, class G>
void grid_sample(hipc_context *context, const Grid &g, const T *x, const G *grid, T *y, int64_t batch,
                 int64_t channels, int64_t points) {
  using C = Compute<T>;
  int64_t plane = 1;
  for (int a = 0; a < g.axes; a++) plane *= g.in[a];
  parallel_for(context, batch * points, 64 + channels * 16, [=](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; task++) {
      int64_t n = task / points, point = task % points;
      AxisTaps<C> taps[SPATIAL];
      // The grid names the last axis first.
      for (int a = 0; a < g.axes; a++)
        taps[a] = AxisTaps<C>(g, a, (C)widen(grid[task * g.axes + (g.axes - 1 - a)]));
      for (int64_t c = 0; c < channels; c++) {
        int64_t image = n * channels + c;
        y[image * points + point] = (T)sample(g, x + image * plane, taps);
      }
    }
  });
}

// One output position of all channels.
template <class T> void pool_bin(const Region &r, const T *map, const T *roi, int64_t row, int64_t column, T *y) {
  auto bins = bins_of(r, roi);
  for (int64_t c = 0; c < r.channels; c++)
    y[c * r.out_height * r.out_width] = (T)pooled_bin(r, bins, map + c * r.height * r.width, row, column);
}

} // namespace

HIPC_EXPORT int32_t hipc_grid_sample(hipc_context *context, const hipc_tensor *x, const hipc_tensor *grid,
                                     hipc_tensor *y, int64_t mode, int64_t padding, int64_t align_corners) {
  const char *op = "grid_sample";
  Grid g;
  HIPC_TRY(read_grid(context, x, grid, y, mode, padding, align_corners, &g));
  int64_t points = extent(grid, 1, grid->rank - 1), batch = x->shape[0], channels = x->shape[1];
  if (elements(y) == 0) return HIPC_OK;
  return dispatch_float(context, op, x->dtype, [&]<class T>() {
    return dispatch_float(context, op, grid->dtype, [&]<class G>() {
      grid_sample(context, g, data<T>(x), data<G>(grid), data<T>(y), batch, channels, points);
      return HIPC_OK;
    });
  });
}

HIPC_EXPORT int32_t hipc_roi_align(hipc_context *context, const hipc_tensor *x, const hipc_tensor *rois,
                                   const hipc_tensor *batch_indices, hipc_tensor *y, int64_t mode, int64_t coordinate,
                                   int64_t output_height, int64_t output_width, int64_t sampling_ratio,
                                   double spatial_scale) {
  const char *op = "roi_align";
  Region r;
  HIPC_TRY(read_region(context, x, rois, batch_indices, y, mode, coordinate, output_height, output_width, sampling_ratio,
                       spatial_scale, &r));
  int64_t count = rois->shape[0];
  const int64_t *images = data<int64_t>(batch_indices);
  for (int64_t i = 0; i < count; i++)
    if (images[i] < 0 || images[i] >= x->shape[0]) return index_error(context, op, images[i], 0, x->shape[0]);
  if (elements(y) == 0) return HIPC_OK;
  return dispatch_float(context, op, x->dtype, [&]<class T>() {
    const T *maps = data<T>(x), *regions = data<T>(rois);
    T *out = data<T>(y);
    int64_t bins = output_height * output_width;
    parallel_for(context, count * bins, r.channels * 32, [=](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; task++) {
        int64_t i = task / bins, bin = task % bins;
        pool_bin(r, maps + images[i] * r.channels * r.height * r.width, regions + i * 4, bin / output_width,
                 bin % output_width, out + i * r.channels * bins + bin);
      }
    });
    return HIPC_OK;
  });
}
