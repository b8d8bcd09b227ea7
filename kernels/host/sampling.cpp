// hipc_grid_sample, hipc_roi_align: interpolation at positions that are data. No position, however wild, reads outside.
#include "hipc_ops.h"

using namespace hipc;

namespace {

enum SampleMode : int64_t { LINEAR, NEAREST, CUBIC };
enum Padding : int64_t { ZEROS, BORDER, REFLECTION };
constexpr int SPATIAL = 3;

// ---- grid_sample ------------------------------------------------------------------------------------------------
struct Grid {
  int64_t mode, padding;
  bool align_corners;
  int axes;
  int64_t in[SPATIAL], stride[SPATIAL];
};

// Position folded back between the borders of an axis.
template <class C> C reflected(C x, C low, C high) {
  C range = high - low;
  if (!(range > 0)) return low;
  C distance = x < low ? low - x : x > high ? x - high : (C)0;
  if (distance == 0) return x;
  C turns = (C)floor((double)(distance / range)), rest = distance - turns * range;
  bool even = fmod((double)turns, 2.0) == 0;
  return (x < low) == even ? low + rest : high - rest;
}

template <class C> C border_low(const Grid &g) { return g.align_corners ? (C)0 : (C)-0.5; }
template <class C> C border_high(const Grid &g, int axis) {
  return (C)g.in[axis] - (g.align_corners ? (C)1 : (C)0.5);
}

// Whole position of a pixel as an index, or -1 where the padding is zero.
template <class C> int64_t pixel(const Grid &g, int axis, C position) {
  C last = (C)(g.in[axis] - 1);
  if (g.padding == ZEROS) return position >= 0 && position <= last ? (int64_t)position : -1;
  if (g.padding == REFLECTION) position = (C)trunc((double)reflected(position, border_low<C>(g), border_high<C>(g, axis)));
  // A NaN goes to the border.
  return !(position > 0) ? 0 : position >= last ? g.in[axis] - 1 : (int64_t)position;
}

template <class C> void cubic_weights(C t, C *weights) {
  const C a = (C)-0.75;
  auto far = [&](C x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  auto near = [&](C x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
  weights[0] = far(t + 1);
  weights[1] = near(t);
  weights[2] = near(1 - t);
  weights[3] = far(2 - t);
}

// Pixels and weights along one axis for one normalised coordinate.
template <class C> struct AxisTaps {
  int count;
  int64_t at[4];
  C weight[4];
};

template <class C> AxisTaps<C> taps_at(const Grid &g, int axis, C coordinate) {
  C extent = (C)g.in[axis], low = border_low<C>(g), high = border_high<C>(g, axis);
  C x = g.align_corners ? (coordinate + 1) / 2 * (extent - 1) : ((coordinate + 1) * extent - 1) / 2;
  if (g.mode == NEAREST) x = (C)nearbyint((double)x);
  if (x < low || x > high) {
    if (g.padding == BORDER) x = x < 0 ? (C)0 : extent - 1;
    if (g.padding == REFLECTION) x = reflected(x, low, high);
  }
  if (g.mode == NEAREST) return {1, {pixel(g, axis, (C)trunc((double)x))}, {1}};
  C whole = (C)floor((double)x), t = x - whole;
  if (g.mode == LINEAR)
    return {2, {pixel(g, axis, whole), pixel(g, axis, whole + 1)}, {1 - t, t}};
  AxisTaps<C> taps{4, {}, {}};
  for (int k = 0; k < 4; k++) taps.at[k] = pixel(g, axis, whole + (C)(k - 1));
  cubic_weights(t, taps.weight);
  return taps;
}

template <class T> Compute<T> sample(const Grid &g, const T *plane, const AxisTaps<Compute<T>> *taps) {
  using C = Compute<T>;
  C sum = 0;
  int counts[SPATIAL] = {1, 1, 1};
  for (int a = 0; a < g.axes; a++) counts[a] = taps[a].count;
  for (int i = 0; i < counts[0]; i++)
    for (int j = 0; j < counts[1]; j++)
      for (int k = 0; k < counts[2]; k++) {
        int pick[SPATIAL] = {i, j, k};
        int64_t offset = 0;
        C weight = 1;
        bool inside = true;
        for (int a = 0; a < g.axes; a++) {
          int64_t at = taps[a].at[pick[a]];
          inside = inside && at >= 0;
          offset += at * g.stride[a];
          weight *= taps[a].weight[pick[a]];
        }
        if (inside) sum += weight * widen(plane[offset]);
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
      for (int a = 0; a < g.axes; a++) taps[a] = taps_at(g, a, (C)widen(grid[task * g.axes + (g.axes - 1 - a)]));
      for (int64_t c = 0; c < channels; c++) {
        int64_t image = n * channels + c;
        y[image * points + point] = (T)sample(g, x + image * plane, taps);
      }
    }
  });
}

// ---- roi_align --------------------------------------------------------------------------------------------------
struct Region {
  bool is_max;
  int64_t channels, height, width, out_height, out_width, sampling_ratio;
  double scale, shift;
  bool at_least_one;
};

// Four pixels around a position with their weights; a position outside the map weighs nothing.
template <class C> struct Corners {
  int64_t at[4];
  C weight[4];
};

template <class C> Corners<C> corners_at(const Region &r, C y, C x) {
  C height = (C)r.height, width = (C)r.width;
  if (!(y >= -1 && y <= height && x >= -1 && x <= width)) return {{0, 0, 0, 0}, {0, 0, 0, 0}};
  y = y < 0 ? 0 : y;
  x = x < 0 ? 0 : x;
  int64_t top = (int64_t)y, left = (int64_t)x, bottom = top + 1, right = left + 1;
  if (top >= r.height - 1) y = (C)(top = bottom = r.height - 1);
  if (left >= r.width - 1) x = (C)(left = right = r.width - 1);
  C dy = y - (C)top, dx = x - (C)left;
  return {{top * r.width + left, top * r.width + right, bottom * r.width + left, bottom * r.width + right},
          {(1 - dy) * (1 - dx), (1 - dy) * dx, dy * (1 - dx), dy * dx}};
}

// One output position of all channels.
template <class T>
void pool_bin(const Region &r, const T *map, const T *roi, int64_t row, int64_t column, T *y) {
  using C = Compute<T>;
  C scale = (C)r.scale, shift = (C)r.shift;
  C x0 = widen(roi[0]) * scale - shift, y0 = widen(roi[1]) * scale - shift;
  C width = widen(roi[2]) * scale - shift - x0, height = widen(roi[3]) * scale - shift - y0;
  if (r.at_least_one) width = width > 1 ? width : (C)1, height = height > 1 ? height : (C)1;
  C bin_height = height / (C)r.out_height, bin_width = width / (C)r.out_width;
  auto samples = [&](C bin) -> int64_t {
    if (r.sampling_ratio > 0) return r.sampling_ratio;
    // A region is data: one too large, or not a number, takes a bounded number of samples.
    double wanted = ceil((double)bin);
    return !(wanted > 0) ? 0 : wanted > 4096 ? 4096 : (int64_t)wanted;
  };
  int64_t rows = samples(bin_height), columns = samples(bin_width), count = max(rows * columns, (int64_t)1);
  int64_t plane = r.height * r.width, step = r.out_height * r.out_width;
  for (int64_t c = 0; c < r.channels; c++) {
    C sum = 0;
    bool first = true;
    for (int64_t i = 0; i < rows; i++)
      for (int64_t j = 0; j < columns; j++) {
        C at_y = y0 + (C)row * bin_height + ((C)i + (C)0.5) * bin_height / (C)rows;
        C at_x = x0 + (C)column * bin_width + ((C)j + (C)0.5) * bin_width / (C)columns;
        Corners<C> corners = corners_at(r, at_y, at_x);
        C parts[4];
        for (int k = 0; k < 4; k++) parts[k] = corners.weight[k] * widen(map[c * plane + corners.at[k]]);
        if (!r.is_max) {
          sum += parts[0] + parts[1] + parts[2] + parts[3];
          continue;
        }
        // ONNX takes the greatest of the weighted corners.
        C top = max(max(parts[0], parts[1]), max(parts[2], parts[3]));
        sum = first || top > sum ? top : sum;
        first = false;
      }
    y[c * step] = (T)(r.is_max ? sum : sum / (C)count);
  }
}

} // namespace

HIPC_EXPORT int32_t hipc_grid_sample(hipc_context *context, const hipc_tensor *x, const hipc_tensor *grid,
                                     hipc_tensor *y, int64_t mode, int64_t padding, int64_t align_corners) {
  const char *op = "grid_sample";
  HIPC_TRY(check_contiguous(context, op, x, grid, y));
  int32_t axes = x->rank - 2;
  if (axes < 1 || axes > SPATIAL || grid->rank != x->rank || y->rank != x->rank || grid->shape[0] != x->shape[0] ||
      grid->shape[x->rank - 1] != axes)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: the grid does not fit an input of rank %d", op, x->rank);
  int64_t points = extent(grid, 1, grid->rank - 1), batch = x->shape[0], channels = x->shape[1];
  if (elements(y) != batch * channels * points)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: the output does not have the grid's extents", op);
  if (elements(y) == 0) return HIPC_OK;
  Grid g{mode, padding, align_corners != 0, axes, {1, 1, 1}, {0, 0, 0}};
  for (int32_t a = 0; a < axes; a++) {
    g.in[a] = x->shape[2 + a];
    g.stride[a] = extent(x, 3 + a, x->rank);
    if (g.in[a] == 0) return hipc_error(context, HIPC_ERROR_VALUE, "%s: spatial axis %d is empty", op, a);
  }
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
  HIPC_TRY(check_contiguous(context, op, x, rois, batch_indices, y));
  if (x->rank != 4 || rois->rank != 2 || rois->shape[1] != 4 || elements(batch_indices) != rois->shape[0] ||
      rois->dtype != x->dtype)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: regions need four numbers of the input's type each", op);
  if (batch_indices->dtype != I64) return unsupported_dtype(context, op, batch_indices->dtype);
  int64_t count = rois->shape[0];
  if (output_height < 1 || output_width < 1 || elements(y) != count * x->shape[1] * output_height * output_width)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: the output does not have the extents asked for", op);
  const int64_t *images = data<int64_t>(batch_indices);
  for (int64_t i = 0; i < count; i++)
    if (images[i] < 0 || images[i] >= x->shape[0]) return index_error(context, op, images[i], 0, x->shape[0]);
  if (elements(y) == 0) return HIPC_OK;
  if (x->shape[2] * x->shape[3] == 0) return hipc_error(context, HIPC_ERROR_VALUE, "%s: the feature map is empty", op);
  bool half_pixel = coordinate == 0;
  Region r{mode == 1,     x->shape[1],    x->shape[2],   x->shape[3],          output_height, output_width,
           sampling_ratio, spatial_scale, half_pixel ? 0.5 : 0.0, !half_pixel};
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
