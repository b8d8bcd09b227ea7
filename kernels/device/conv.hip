// Convolution over 1 to 3 spatial dimensions: y = activation(conv(x, w) + bias) + residual. As a product of the weights
// [filters][channels * taps] by columns of the input that are gathered on the way into LDS; element by element where groups
// are too narrow for tiles.
#include "hipc_math.h"
#include "hipc_tiles.h"

using namespace hipc;

namespace {

// A convolution in normal form, as kernels/runtime/conv.cpp passes it: spatial extents padded in front to three.
struct Conv {
  i64 in[3], out[3], kernel[3], strides[3], dilations[3], pads[3];
  i64 channels, filters, groups, images;  // channels and filters of one group
};

DEVICE i64 volume(const i64 *extents) { return extents[0] * extents[1] * extents[2]; }

// Columns of one group of one image: a column is an output position, its depth runs over channels and taps.
template <class T> struct Gathered {
  const T *x;
  Conv c;
  i64 columns;

  __attribute__((device, always_inline)) int row() const { return (int)thread() % (TILE / EACH) * EACH; }
  __attribute__((device, always_inline)) int depth() const { return (int)thread() / (TILE / EACH); }
  __attribute__((device, always_inline)) Vector<T, EACH> fetch(i64 first_row, i64 first_depth, i64 end_depth) const {
    Vector<T, EACH> value;
    i64 column = first_row + row(), tap = first_depth + depth();
    bool any = tap < end_depth;
    i64 kw = tap % c.kernel[2], rest = tap / c.kernel[2];
    i64 kh = rest % c.kernel[1], kd = rest / c.kernel[1] % c.kernel[0], channel = rest / c.kernel[1] / c.kernel[0];
    i64 ow = column % c.out[2], oh = column / c.out[2] % c.out[1], od = column / c.out[2] / c.out[1];
    const T *plane = x + channel * volume(c.in);
    i64 down = kd * c.dilations[0] - c.pads[0], along = kh * c.dilations[1] - c.pads[1], across = kw * c.dilations[2] - c.pads[2];
    UNROLL for (int i = 0; i < EACH; i++) {
      i64 d = od * c.strides[0] + down, h = oh * c.strides[1] + along, w = ow * c.strides[2] + across;
      bool inside = any && column + i < columns && d >= 0 && d < c.in[0] && h >= 0 && h < c.in[1] && w >= 0 && w < c.in[2];
      value[i] = inside ? plane[(d * c.in[1] + h) * c.in[2] + w] : (T)0.0f;
      if (++ow < c.out[2]) continue;
      ow = 0;
      if (++oh < c.out[1]) continue;
      oh = 0, od++;
    }
    return value;
  }
  __attribute__((device, always_inline)) void put(T (*tile)[DEPTH + PAD], const Vector<T, EACH> &value) const {
    UNROLL for (int i = 0; i < EACH; i++) tile[row() + i][depth()] = value[i];
  }
};

template <class T> DEVICE void conv_tiles(const T *x, const T *w, T *y, const Conv &c, const Epilogue &end) {
  i64 columns = volume(c.out), depth = c.channels * volume(c.kernel), across = ceil_div(columns, (i64)TILE);
  i64 first_row = block() / across * TILE, first_column = block() % across * TILE;
  for (i64 product = block_y(); product < c.images * c.groups; product += blocks_y()) {
    i64 group = product % c.groups, first_filter = group * c.filters;
    const T *weights = w + first_filter * depth;
    Operand<T> A{weights, c.filters, depth, 1, depth % EACH == 0 && is_aligned(weights, 16)};
    Gathered<T> B{x + product * c.channels * volume(c.in), c, columns};
    multiply_tiles<T>(A, B, first_row, first_column, depth, [=](i64 row, i64 column, f32 sum) {
      i64 at = (product * c.filters + row) * columns + column;
      if (row < c.filters && column < columns) y[at] = finish<T>(end, sum, at, first_filter + row);
    });
  }
}

template <class T> DEVICE void conv_direct(const T *x, const T *w, T *y, const Conv &c, const Epilogue &end) {
  i64 columns = volume(c.out), filters = c.groups * c.filters, taps = volume(c.kernel), in_size = volume(c.in);
  for (i64 at = global_thread(); at < c.images * filters * columns; at += global_threads()) {
    i64 column = at % columns, filter = at / columns % filters, image = at / columns / filters;
    i64 ow = column % c.out[2], oh = column / c.out[2] % c.out[1], od = column / c.out[2] / c.out[1];
    const T *plane = x + (image * c.groups + filter / c.filters) * c.channels * in_size;
    const T *weights = w + filter * c.channels * taps;
    f32 sum = 0;
    for (i64 channel = 0; channel < c.channels; channel++, plane += in_size) {
      for (i64 kd = 0; kd < c.kernel[0]; kd++) {
        i64 depth = od * c.strides[0] + kd * c.dilations[0] - c.pads[0];
        for (i64 kh = 0; kh < c.kernel[1]; kh++) {
          i64 h = oh * c.strides[1] + kh * c.dilations[1] - c.pads[1];
          for (i64 kw = 0; kw < c.kernel[2]; kw++, weights++) {
            i64 v = ow * c.strides[2] + kw * c.dilations[2] - c.pads[2];
            bool inside = depth >= 0 && depth < c.in[0] && h >= 0 && h < c.in[1] && v >= 0 && v < c.in[2];
            if (inside) sum += widen(*weights) * widen(plane[(depth * c.in[1] + h) * c.in[2] + v]);
          }
        }
      }
    }
    y[at] = finish<T>(end, sum, at, filter);
  }
}

} // namespace

#define DEFINE(WORD, T)                                                                                                \
  KERNEL(256) conv_##WORD(const T *x, const T *w, T *y, Conv c, Epilogue end) { conv_tiles<T>(x, w, y, c, end); }      \
  KERNEL(256) conv_direct_##WORD(const T *x, const T *w, T *y, Conv c, Epilogue end) {                                 \
    conv_direct<T>(x, w, y, c, end);                                                                                   \
  }
HIPC_FLOATS(DEFINE)
