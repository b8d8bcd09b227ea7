// Sampling at positions that are data: grid_sample, roi_align, max_roi_pool, and what deform_conv multiplies; and col2im,
// which adds columns up to images. A thread an element of the output, or a position of all channels.
#include "hipc_math.h"
#include "hipc_mixed.h"
#include "shared/sampling.h"
#include "shared/unfolded.h"

using namespace hipc;

namespace {

constexpr i32 FAULT_INDEX = 2;  // of kernels/runtime/gpu.h

// The plane at a place along every axis; axes that are missing have one tap, at 0.
template <class T, class C> DEVICE C sample(const Grid &g, const T *plane, const AxisPlace<C> (&places)[SPATIAL]) {
  C sum = 0;
  for (i32 i = 0; i < places[0].count; i++) {
    AxisTap<C> first = tap_of(g, 0, places[0], i);
    for (i32 j = 0; first.at >= 0 && j < places[1].count; j++) {
      AxisTap<C> second = tap_of(g, 1, places[1], j);
      for (i32 k = 0; second.at >= 0 && k < places[2].count; k++) {
        AxisTap<C> third = tap_of(g, 2, places[2], k);
        if (third.at < 0) continue;
        i64 offset = first.at * g.stride[0] + second.at * g.stride[1] + third.at * g.stride[2];
        sum += first.weight * second.weight * third.weight * widen(plane[offset]);
      }
    }
  }
  return sum;
}

template <class T>
DEVICE void grid_sample(const T *x, const void *grid, T *y, const Grid &g, i64 batch, i64 channels, i64 points, i64 plane,
                        i32 grid_dtype) {
  using C = Compute<T>;
  for (i64 task = global_thread(); task < batch * points; task += global_threads()) {
    i64 n = task / points, point = task % points;
    AxisPlace<C> places[SPATIAL];
    UNROLL for (int a = 0; a < SPATIAL; a++) {
      places[a] = {0, 0, 1};
      // The grid names the last axis first.
      if (a < g.axes) places[a] = place_along(g, a, number_as<C>(grid, grid_dtype, task * g.axes + (g.axes - 1 - a)));
    }
    for (i64 c = 0; c < channels; c++) {
      i64 image = n * channels + c;
      y[image * points + point] = narrow<T>(sample(g, x + image * plane, places));
    }
  }
}

template <class T>
DEVICE void roi_align(const T *x, const T *rois, const i64 *images, T *y, const Region &r, i64 count, i64 batch, i32 *fault) {
  i64 bins = r.out_height * r.out_width;
  for (i64 at = global_thread(); at < count * r.channels * bins; at += global_threads()) {
    i64 bin = at % bins, channel = at / bins % r.channels, roi = at / bins / r.channels, image = images[roi];
    if (image < 0 || image >= batch) {
      *fault = FAULT_INDEX;
      continue;
    }
    const T *plane = x + (image * r.channels + channel) * r.height * r.width;
    y[at] = narrow<T>(pooled_bin(r, bins_of(r, rois + roi * 4), plane, bin / r.out_width, bin % r.out_width));
  }
}

template <class T>
DEVICE void max_roi_pool(const T *x, const T *rois, T *y, const RoiCells &cells, i64 count, i64 channels, i64 batch, i32 *fault) {
  i64 bins = cells.rows * cells.columns;
  for (i64 at = global_thread(); at < count * channels * bins; at += global_threads()) {
    i64 bin = at % bins, channel = at / bins % channels;
    const T *roi = rois + at / bins / channels * 5;
    f64 image = (f64)widen(roi[0]);
    if (!(image >= 0 && image < (f64)batch)) {
      *fault = FAULT_INDEX;
      continue;
    }
    const T *plane = x + ((i64)image * channels + channel) * cells.height * cells.width;
    y[at] = narrow<T>(greatest_of_cell(cells, plane, roi + 1, bin / cells.columns, bin % cells.columns));
  }
}

// samples[n][channel][tap][position]: what a convolution of 1 x 1 then multiplies.
template <class T>
DEVICE void deform_samples(const T *x, const T *offset, const T *mask, T *samples, const Deformed &d) {
  i64 per_group = d.channels_in / d.offset_group, count = d.batch * d.offset_group * d.taps() * d.positions();
  for (i64 task = global_thread(); task < count; task += global_threads()) {
    i64 position = task % d.positions(), tap = task / d.positions() % d.taps();
    i64 part = task / d.positions() / d.taps() % d.offset_group, n = task / d.positions() / d.taps() / d.offset_group;
    auto at = deformed_tap(d, offset, mask, n, part, tap, position);
    for (i64 c = part * per_group; c < (part + 1) * per_group; c++) {
      i64 image = n * d.channels_in + c;
      auto value = at.weight * between(x + image * d.height * d.width, d, at.y, at.x);
      samples[(image * d.taps() + tap) * d.positions() + position] = narrow<T>(value);
    }
  }
}

template <class T> DEVICE void col2im(const T *x, T *y, const Col2Im &w) {
  for (i64 at = global_thread(); at < w.planes * w.size; at += global_threads()) {
    i64 plane = at / w.size;
    Compute<T> sum = 0;
    for (i64 block = 0; block < w.blocks; block++) {
      i64 place = at % w.size, tap = block, cell = 0, stride = 1;
      bool inside = true;
      for (i32 axis = w.axes - 1; axis >= 0; axis--) {
        i64 shifted = place % w.image[axis] + w.pads[axis] - tap % w.block[axis] * w.dilations[axis];
        i64 own = shifted / w.strides[axis];
        inside = inside && shifted >= 0 && own * w.strides[axis] == shifted && own < w.cells[axis];
        cell += own * stride, stride *= w.cells[axis];
        place /= w.image[axis], tap /= w.block[axis];
      }
      if (inside) sum += widen(x[(plane * w.blocks + block) * w.cell_count + cell]);
    }
    y[at] = narrow<T>(sum);
  }
}

} // namespace

#define DEFINE(WORD, T)                                                                                                \
  KERNEL(256) grid_sample_##WORD(const T *x, const void *grid, T *y, Grid g, i64 batch, i64 channels, i64 points,      \
                                 i64 plane, i32 grid_dtype) {                                                          \
    grid_sample<T>(x, grid, y, g, batch, channels, points, plane, grid_dtype);                                         \
  }                                                                                                                    \
  KERNEL(256) roi_align_##WORD(const T *x, const T *rois, const i64 *images, T *y, Region r, i64 count, i64 batch,     \
                               i32 *fault) {                                                                           \
    roi_align<T>(x, rois, images, y, r, count, batch, fault);                                                          \
  }                                                                                                                    \
  KERNEL(256) max_roi_pool_##WORD(const T *x, const T *rois, T *y, RoiCells cells, i64 count, i64 channels, i64 batch, \
                                  i32 *fault) {                                                                        \
    max_roi_pool<T>(x, rois, y, cells, count, channels, batch, fault);                                                 \
  }                                                                                                                    \
  KERNEL(256) deform_samples_##WORD(const T *x, const T *offset, const T *mask, T *samples, Deformed d) {              \
    deform_samples<T>(x, offset, mask, samples, d);                                                                    \
  }                                                                                                                    \
  KERNEL(256) col2im_##WORD(const T *x, T *y, Col2Im w) { col2im<T>(x, y, w); }
HIPC_ALL_FLOATS(DEFINE)
