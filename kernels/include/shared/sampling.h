// Sampling at positions that are data: grid_sample, roi_align, max_roi_pool, deform_conv. No position, however wild, makes
// an index outside.
#pragma once
#include "arguments.h"
#include "vocabulary.h"

namespace hipc {

// ---- grid_sample ------------------------------------------------------------------------------------------------
enum SampleMode : i32 { SAMPLE_LINEAR, SAMPLE_NEAREST, SAMPLE_CUBIC };
enum SamplePadding : i32 { SAMPLE_ZEROS, SAMPLE_BORDER, SAMPLE_REFLECTION };
constexpr int SPATIAL = 3;

struct Grid {
  i32 mode, padding, align_corners, axes;
  i64 in[SPATIAL], stride[SPATIAL];
};

// Position folded back between the borders of an axis.
template <class C> HIPC_SHARED C reflected(C x, C low, C high) {
  C range = high - low;
  if (!(range > 0)) return low;
  C distance = x < low ? low - x : x > high ? x - high : (C)0;
  if (distance == 0) return x;
  C turns = floor_of(distance / range), rest = distance - turns * range;
  bool even = turns - 2 * floor_of(turns / 2) == 0;
  return (x < low) == even ? low + rest : high - rest;
}

template <class C> HIPC_SHARED C border_low(const Grid &g) { return g.align_corners ? (C)0 : (C)-0.5; }
template <class C> HIPC_SHARED C border_high(const Grid &g, int axis) {
  return (C)g.in[axis] - (g.align_corners ? (C)1 : (C)0.5);
}

// Whole position of a pixel as an index, or -1 where the padding is zero.
template <class C> HIPC_SHARED i64 pixel(const Grid &g, int axis, C position) {
  C last = (C)(g.in[axis] - 1);
  if (g.padding == SAMPLE_ZEROS) return position >= 0 && position <= last ? (i64)position : -1;
  if (g.padding == SAMPLE_REFLECTION)
    position = trunc_of(reflected(position, border_low<C>(g), border_high<C>(g, axis)));
  // A NaN goes to the border.
  return !(position > 0) ? 0 : position >= last ? g.in[axis] - 1 : (i64)position;
}

// A normalised coordinate along one axis: the pixel before it, how far behind that it lies, and how many pixels count.
template <class C> struct AxisPlace {
  C whole, rest;
  i32 count;
};

template <class C> HIPC_SHARED AxisPlace<C> place_along(const Grid &g, int axis, C coordinate) {
  C extent = (C)g.in[axis], low = border_low<C>(g), high = border_high<C>(g, axis);
  C x = g.align_corners ? (coordinate + 1) / 2 * (extent - 1) : ((coordinate + 1) * extent - 1) / 2;
  if (g.mode == SAMPLE_NEAREST) x = nearest_of(x);
  if (x < low || x > high) {
    if (g.padding == SAMPLE_BORDER) x = x < 0 ? (C)0 : extent - 1;
    if (g.padding == SAMPLE_REFLECTION) x = reflected(x, low, high);
  }
  if (g.mode == SAMPLE_NEAREST) return {trunc_of(x), 0, 1};
  C whole = floor_of(x);
  return {whole, x - whole, g.mode == SAMPLE_LINEAR ? 2 : 4};
}

// One of the pixels, as an index or -1, and its weight.
template <class C> struct AxisTap {
  i64 at;
  C weight;
};

template <class C> HIPC_SHARED AxisTap<C> tap_of(const Grid &g, int axis, const AxisPlace<C> &place, i32 k) {
  if (place.count == 1) return {pixel(g, axis, place.whole), 1};
  if (place.count == 2) return {pixel(g, axis, place.whole + (C)k), k ? place.rest : 1 - place.rest};
  const C a = (C)-0.75;
  C x = abs_of(place.rest - (C)(k - 1));
  C weight = x <= 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return {pixel(g, axis, place.whole + (C)(k - 1)), weight};
}

// ---- roi_align --------------------------------------------------------------------------------------------------
struct Region {
  i64 channels, height, width, out_height, out_width, sampling_ratio;
  f64 scale, shift;
  i32 is_max, at_least_one;
};

// Four pixels around a position with their weights; a position outside the map weighs nothing.
template <class C> struct Corners {
  i64 at[4];
  C weight[4];
};

template <class C> HIPC_SHARED Corners<C> corners_at(const Region &r, C y, C x) {
  C height = (C)r.height, width = (C)r.width;
  if (!(y >= -1 && y <= height && x >= -1 && x <= width)) return {{0, 0, 0, 0}, {0, 0, 0, 0}};
  y = y < 0 ? 0 : y;
  x = x < 0 ? 0 : x;
  i64 top = (i64)y, left = (i64)x, bottom = top + 1, right = left + 1;
  if (top >= r.height - 1) y = (C)(top = bottom = r.height - 1);
  if (left >= r.width - 1) x = (C)(left = right = r.width - 1);
  C dy = y - (C)top, dx = x - (C)left;
  return {{top * r.width + left, top * r.width + right, bottom * r.width + left, bottom * r.width + right},
          {(1 - dy) * (1 - dx), (1 - dy) * dx, dy * (1 - dx), dy * dx}};
}

// One region on the map, and the samples that a bin of it takes.
template <class C> struct Bins {
  C x0, y0, width, height; // of a bin
  i64 rows, columns;
};

template <class C> HIPC_SHARED i64 samples_of(const Region &r, C bin) {
  if (r.sampling_ratio > 0) return r.sampling_ratio;
  // A region is data: one too large, or not a number, takes a bounded number of samples.
  f64 wanted = ceil_of((f64)bin);
  return !(wanted > 0) ? 0 : wanted > 4096 ? 4096 : (i64)wanted;
}

template <class T> HIPC_SHARED Bins<Compute<T>> bins_of(const Region &r, const T *roi) {
  using C = Compute<T>;
  C scale = (C)r.scale, shift = (C)r.shift;
  C x0 = widen(roi[0]) * scale - shift, y0 = widen(roi[1]) * scale - shift;
  C width = widen(roi[2]) * scale - shift - x0, height = widen(roi[3]) * scale - shift - y0;
  if (r.at_least_one) width = width > 1 ? width : (C)1, height = height > 1 ? height : (C)1;
  C bin_width = width / (C)r.out_width, bin_height = height / (C)r.out_height;
  return {x0, y0, bin_width, bin_height, samples_of(r, bin_height), samples_of(r, bin_width)};
}

// One bin of one channel.
template <class T>
HIPC_SHARED Compute<T> pooled_bin(const Region &r, const Bins<Compute<T>> &bins, const T *plane, i64 row, i64 column) {
  using C = Compute<T>;
  C sum = 0;
  bool first = true;
  for (i64 i = 0; i < bins.rows; i++)
    for (i64 j = 0; j < bins.columns; j++) {
      C at_y = bins.y0 + (C)row * bins.height + ((C)i + (C)0.5) * bins.height / (C)bins.rows;
      C at_x = bins.x0 + (C)column * bins.width + ((C)j + (C)0.5) * bins.width / (C)bins.columns;
      Corners<C> corners = corners_at(r, at_y, at_x);
      C parts[4];
      for (int k = 0; k < 4; k++) parts[k] = corners.weight[k] * widen(plane[corners.at[k]]);
      if (!r.is_max) {
        sum += parts[0] + parts[1] + parts[2] + parts[3];
        continue;
      }
      // ONNX takes the greatest of the weighted corners.
      C top = max(max(parts[0], parts[1]), max(parts[2], parts[3]));
      sum = first || top > sum ? top : sum;
      first = false;
    }
  return r.is_max ? sum : sum / (C)max(bins.rows * bins.columns, (i64)1);
}

// ---- max_roi_pool -----------------------------------------------------------------------------------------------
struct RoiCells {
  i64 height, width, rows, columns;
  f64 scale;
};

// Half away from zero.
HIPC_SHARED f64 rounded_away(f64 x) { return x < 0 ? -floor_of(0.5 - x) : floor_of(x + 0.5); }

// Bounds of cell `index` of `count` along one axis of a region, clipped to the map.
struct CellRange {
  i64 begin, end;
};
HIPC_SHARED CellRange cell_range(f64 start, f64 size, i64 index, i64 count, i64 limit) {
  f64 low = start + floor_of((f64)index * size / (f64)count);
  f64 high = start + ceil_of((f64)(index + 1) * size / (f64)count);
  // A region is data: bounds are clipped as numbers before they become indices.
  return {!(low > 0) ? 0 : low > (f64)limit ? limit : (i64)low, !(high > 0) ? 0 : high > (f64)limit ? limit : (i64)high};
}

// The greatest of one cell; `region` is x0, y0, x1, y1 in the numbers of the input.
template <class T>
HIPC_SHARED Compute<T> greatest_of_cell(const RoiCells &cells, const T *plane, const T *region, i64 row, i64 column) {
  using C = Compute<T>;
  f64 x0 = rounded_away((f64)widen(region[0]) * cells.scale), y0 = rounded_away((f64)widen(region[1]) * cells.scale);
  f64 width = rounded_away((f64)widen(region[2]) * cells.scale) - x0 + 1;
  f64 height = rounded_away((f64)widen(region[3]) * cells.scale) - y0 + 1;
  width = width > 1 ? width : 1, height = height > 1 ? height : 1;
  CellRange y = cell_range(y0, height, row, cells.rows, cells.height);
  CellRange x = cell_range(x0, width, column, cells.columns, cells.width);
  // An empty cell is zero.
  C best = y.begin < y.end && x.begin < x.end ? -(C)__builtin_inff() : (C)0;
  for (i64 i = y.begin; i < y.end; i++)
    for (i64 j = x.begin; j < x.end; j++) {
      C value = widen(plane[i * cells.width + j]);
      best = value > best || value != value ? value : best;
    }
  return best;
}

// ---- deform_conv ------------------------------------------------------------------------------------------------
struct Deformed {
  i64 batch, channels_in, channels_out, height, width, out_height, out_width, kernel_height, kernel_width, group,
      offset_group, stride[2], pad[2], dilation[2];

  HIPC_METHOD i64 taps() const { return kernel_height * kernel_width; }
  HIPC_METHOD i64 positions() const { return out_height * out_width; }
};

// The plane between its pixels; zero outside.
template <class T> HIPC_SHARED Compute<T> between(const T *plane, const Deformed &d, Compute<T> y, Compute<T> x) {
  using C = Compute<T>;
  if (!(y > -1 && y < (C)d.height && x > -1 && x < (C)d.width)) return 0;
  C whole_y = floor_of(y), whole_x = floor_of(x), dy = y - whole_y, dx = x - whole_x;
  i64 top = (i64)whole_y, left = (i64)whole_x;
  C corners[4];
  for (int k = 0; k < 4; k++) {
    i64 row = top + k / 2, column = left + k % 2;
    bool inside = row >= 0 && row < d.height && column >= 0 && column < d.width;
    corners[k] = inside ? widen(plane[row * d.width + column]) : (C)0;
  }
  return (1 - dy) * ((1 - dx) * corners[0] + dx * corners[1]) + dy * ((1 - dx) * corners[2] + dx * corners[3]);
}

// Where tap `tap` of output position `position` reads, and the weight of its mask.
template <class C> struct DeformedTap {
  C y, x, weight;
};
template <class T>
HIPC_SHARED DeformedTap<Compute<T>> deformed_tap(const Deformed &d, const T *offset, const T *mask, i64 n, i64 part,
                                                 i64 tap, i64 position) {
  using C = Compute<T>;
  i64 row = position / d.out_width, column = position % d.out_width, which = (n * d.offset_group + part) * d.taps() + tap;
  const T *shift = offset + which * 2 * d.positions() + position;
  C y = (C)(row * d.stride[0] - d.pad[0] + tap / d.kernel_width * d.dilation[0]) + widen(shift[0]);
  C x = (C)(column * d.stride[1] - d.pad[1] + tap % d.kernel_width * d.dilation[1]) + widen(shift[d.positions()]);
  return {y, x, mask ? widen(mask[which * d.positions() + position]) : (C)1};
}

} // namespace hipc
