// Transposed convolution. Output positions with one remainder modulo the stride are a phase: within it, the window's taps
// that land there are an ordinary convolution of the input. That is a product of tiles, gathered on the way; few channels
// or filters, and float64, are summed directly, one thread an element.
#include "hipc_math.h"
#include "hipc_tiles.h"
#include "hipc_window.h"
#include "shared/unfolded.h"

using namespace hipc;

namespace {

// The taps of an axis that land on a phase: first, first + step, ..., `count` of them. Tap k reads input
// cell + (phase + pad - k * dilation) / stride.
struct PhaseTaps {
  i32 phase, first, step, count, cells;
};

DEVICE PhaseTaps taps_of_phase(const TransposedWindow &w, int axis, i32 phase) {
  i32 stride = w.strides[axis], first = 0, step = 1;
  auto lands = [&](i32 k) { return (phase + w.pads[axis] - k * w.dilations[axis]) % stride == 0; };
  while (first < w.kernel[axis] && !lands(first)) first++;
  // Taps that land on one phase are evenly spaced: a multiple of the dilation is a multiple of the stride.
  while (step * w.dilations[axis] % stride != 0) step++;
  i32 count = first < w.kernel[axis] ? ceil_div(w.kernel[axis] - first, step) : 0;
  return {phase, first, step, count, phase < w.out[axis] ? ceil_div(w.out[axis] - phase, stride) : 0};
}

struct Phase {
  PhaseTaps axis[3];
  __attribute__((device, always_inline)) i32 taps() const { return axis[0].count * axis[1].count * axis[2].count; }
  __attribute__((device, always_inline)) i32 cells() const { return axis[0].cells * axis[1].cells * axis[2].cells; }
};

DEVICE Phase phase_of(const TransposedWindow &w, u32 number) {
  Phase phase;
  for (int axis = 2; axis >= 0; axis--) {
    phase.axis[axis] = taps_of_phase(w, axis, (i32)(number % (u32)w.strides[axis]));
    number /= (u32)w.strides[axis];
  }
  return phase;
}

// Counts of the taps of a phase along every axis; a phase may have none: its sums are zero, and nothing is read.
struct Counts {
  i32 at[3];
};
DEVICE Counts counts_of(const Phase &phase) {
  Counts counts;
  for (int axis = 0; axis < 3; axis++) counts.at[axis] = max(phase.axis[axis].count, 1);
  return counts;
}

// Rows are filters, the depth is channel after channel of the phase's taps.
template <class T> struct Weights {
  const T *w;
  const TransposedWindow &conv;
  const Phase &phase;
  i32 size;  // taps of the whole window

  __attribute__((device, always_inline)) Fetched<T> fetch(i64 first_row, i64 first_depth, i64 end_depth) const {
    Fetched<T> fetched;
    i64 row = first_row + tile_row(), depth = first_depth + tile_depth();
    Counts counts = counts_of(phase);
    u32 taps = (u32)max(phase.taps(), 1), channel = (u32)depth / taps;
    Place n = place_in(counts.at, (u32)depth - channel * taps);
    UNROLL for (int i = 0; i < EACH; i++) {
      i32 k[3];
      for (int axis = 0; axis < 3; axis++) k[axis] = phase.axis[axis].first + n.at[axis] * phase.axis[axis].step;
      i64 at = ((i64)channel * conv.filters + row) * size + (k[0] * conv.kernel[1] + k[1]) * conv.kernel[2] + k[2];
      bool there = row < conv.filters && depth + i < end_depth;
      fetched.set(i, w[there ? at : 0], there);
      if (advance(n, counts.at)) channel++;
    }
    return fetched;
  }
  __attribute__((device, always_inline)) void put(T (*tile)[PITCH<T>], const Fetched<T> &fetched) const {
    put_along_depth(tile, fetched.arrived());
  }
};

// Columns are the cells of the phase. The next tap along an axis reads a fixed number of positions before.
template <class T> struct Gathered {
  const T *x;
  const TransposedWindow &conv;
  const Phase &phase;
  i64 in_size;
  i32 start[3], step[3];  // what this thread's cell reads under the first tap, and how far on the next one is

  __attribute__((device, always_inline))
  Gathered(const T *from, const TransposedWindow &window, const Phase &own, i64 size, i64 first_column)
      : x(from), conv(window), phase(own), in_size(size) {
    i64 column = first_column + tile_column();
    i32 rest = (i32)min(column, (i64)phase.cells() - 1);
    for (int axis = 2; axis >= 0; axis--) {
      const PhaseTaps &taps = phase.axis[axis];
      i32 above = rest / taps.cells;
      start[axis] = rest - above * taps.cells + (taps.phase + conv.pads[axis] - taps.first * conv.dilations[axis]) / conv.strides[axis];
      step[axis] = taps.step * conv.dilations[axis] / conv.strides[axis];
      rest = above;
    }
    // Nothing is inside of a cell that does not exist.
    if (column >= phase.cells()) start[0] = -0x40000000;
  }
  __attribute__((device, always_inline)) Fetched<T> fetch(i64, i64 first_depth, i64 end_depth) const {
    Fetched<T> fetched;
    Counts counts = counts_of(phase);
    u32 depth = (u32)first_depth + (u32)depth_of_wave(), taps = (u32)max(phase.taps(), 1), channel = depth / taps;
    Place n = place_in(counts.at, depth - channel * taps);
    const T *from = x + (i64)channel * in_size;
    UNROLL for (int i = 0; i < EACH; i++) {
      i32 d = start[0] - n.at[0] * step[0], h = start[1] - n.at[1] * step[1], c = start[2] - n.at[2] * step[2];
      bool inside = depth + i < (u64)end_depth && (u32)d < (u32)conv.in[0] && (u32)h < (u32)conv.in[1] && (u32)c < (u32)conv.in[2];
      // What is outside reads the first element instead.
      fetched.set(i, *(inside ? from + ((d * conv.in[1] + h) * conv.in[2] + c) : x), inside);
      if (advance(n, counts.at)) from += in_size;
    }
    return fetched;
  }
  __attribute__((device, always_inline)) void put(T (*tile)[PITCH<T>], const Fetched<T> &fetched) const {
    put_columns(tile, fetched.arrived());
  }
};

// Grid: tiles of the largest phase, images * groups, phases.
template <class T> DEVICE void conv_transpose_tiles(const T *x, const T *w, const T *bias, T *y, const TransposedWindow &conv) {
  Phase phase = phase_of(conv, block_z());
  i64 largest = 1, in_size = (i64)conv.in[0] * conv.in[1] * conv.in[2], out_size = (i64)conv.out[0] * conv.out[1] * conv.out[2];
  for (int axis = 0; axis < 3; axis++) largest *= ceil_div(conv.out[axis], conv.strides[axis]);
  i64 across = ceil_div(largest, (i64)TILE), first_row = block() / across * TILE, first_column = block() % across * TILE;
  if (first_column >= phase.cells()) return;
  i32 size = conv.kernel[0] * conv.kernel[1] * conv.kernel[2];
  i64 depth = (i64)conv.channels * phase.taps();
  for (u32 product = block_y(); product < (u32)(conv.images * conv.groups); product += blocks_y()) {
    i64 group = product % (u32)conv.groups, image = product / (u32)conv.groups;
    Weights<T> A{w + group * conv.channels * conv.filters * size, conv, phase, size};
    Gathered<T> B(x + (image * conv.groups + group) * conv.channels * in_size, conv, phase, in_size, first_column);
    multiply_tiles<T>(A, B, first_row, first_column, depth, [=, &conv, &phase](i64 row, i64 column, f32 sum) {
      if (row >= conv.filters || column >= phase.cells()) return;
      i64 rest = column, at = 0, stride = 1;
      for (int axis = 2; axis >= 0; axis--) {
        i64 cell = rest % phase.axis[axis].cells;
        rest /= phase.axis[axis].cells;
        at += (cell * conv.strides[axis] + phase.axis[axis].phase) * stride, stride *= conv.out[axis];
      }
      i64 filter = group * conv.filters + row;
      y[(image * conv.groups * conv.filters + filter) * out_size + at] = narrow<T>(sum + (bias ? widen(bias[filter]) : 0.0f));
    });
  }
}

template <class T> DEVICE void conv_transpose_direct(const T *x, const T *w, const T *bias, T *y, const TransposedWindow &conv) {
  i64 in_size = (i64)conv.in[0] * conv.in[1] * conv.in[2], out_size = (i64)conv.out[0] * conv.out[1] * conv.out[2];
  i64 size = conv.kernel[0] * conv.kernel[1] * conv.kernel[2], filters = (i64)conv.groups * conv.filters;
  for (i64 at = global_thread(); at < conv.images * filters * out_size; at += global_threads()) {
    i64 filter = at / out_size % filters, image = at / out_size / filters, group = filter / conv.filters;
    i64 place = at % out_size;
    i32 o[3] = {(i32)(place / ((i64)conv.out[1] * conv.out[2])), (i32)(place / conv.out[2] % conv.out[1]),
                (i32)(place % conv.out[2])};
    const T *from = x + (image * conv.groups + group) * conv.channels * in_size;
    const T *weights = w + (group * conv.channels * conv.filters + filter % conv.filters) * size;
    Compute<T> sum = bias ? widen(bias[filter]) : (Compute<T>)0;
    // A position under a tap, or -1.
    auto source = [&](int axis, i32 tap) {
      i32 shifted = o[axis] + conv.pads[axis] - tap * conv.dilations[axis];
      i32 own = shifted / conv.strides[axis];
      return shifted >= 0 && own * conv.strides[axis] == shifted && own < conv.in[axis] ? own : -1;
    };
    for (i32 kd = 0; kd < conv.kernel[0]; kd++) {
      i32 d = source(0, kd);
      for (i32 kh = 0; d >= 0 && kh < conv.kernel[1]; kh++) {
        i32 h = source(1, kh);
        for (i32 kw = 0; h >= 0 && kw < conv.kernel[2]; kw++) {
          i32 c = source(2, kw);
          if (c < 0) continue;
          const T *element = from + ((i64)d * conv.in[1] + h) * conv.in[2] + c;
          const T *weight = weights + (kd * conv.kernel[1] + kh) * conv.kernel[2] + kw;
          for (i32 channel = 0; channel < conv.channels; channel++)
            sum += widen(element[channel * in_size]) * widen(weight[channel * conv.filters * size]);
        }
      }
    }
    y[at] = narrow<T>(sum);
  }
}

} // namespace

#define DEFINE(WORD, T)                                                                                                \
  KERNEL_OF_BLOCKS(256, 2) conv_transpose_##WORD(const T *x, const T *w, const T *bias, T *y, TransposedWindow conv) { \
    conv_transpose_tiles<T>(x, w, bias, y, conv);                                                                      \
  }
HIPC_FLOATS(DEFINE)
#undef DEFINE
#define DEFINE(WORD, T)                                                                                                \
  KERNEL(256) conv_transpose_direct_##WORD(const T *x, const T *w, const T *bias, T *y, TransposedWindow conv) {       \
    conv_transpose_direct<T>(x, w, bias, y, conv);                                                                     \
  }
HIPC_ALL_FLOATS(DEFINE)
