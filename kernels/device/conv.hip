// Convolution: as a product of the filters by the input under each place of the window, gathered tile by tile; and
// directly, one thread an element, where a group has few filters. Where there are channels enough the depth of the product
// is tap after tap of all channels: what a place reads under a tap is then found once for eight channels.
#include "hipc_math.h"
#include "hipc_tiles.h"
#include "hipc_window.h"

using namespace hipc;

namespace {

using Conv = WindowedProduct;

// Columns are places of the output. Neighbouring threads have neighbouring places, which read side by side; the tap that
// they are at is the same for a wave.
template <class T> struct Columns {
  const T *x;
  const Conv &conv;
  i32 start[3], offset;  // of the window of this thread's place

  __attribute__((device, always_inline)) Columns(const T *from, const Conv &product, i64 first_column) : x(from), conv(product) {
    const Window &w = conv.window;
    i64 column = first_column + tile_column();
    Place o = place_in(w.out, (u32)min(column, (i64)conv.out_size - 1));
    for (int axis = 0; axis < 3; axis++) start[axis] = w.source(axis, o.at[axis], 0);
    offset = (start[0] * w.in[1] + start[1]) * w.in[2] + start[2];
    // Nothing is inside of a place that does not exist.
    if (column >= conv.out_size) start[0] = -0x40000000;
  }
  // Whether the place has an element under a tap, and where that is in a channel.
  __attribute__((device, always_inline)) bool find(const Place &k, u32 &at) const {
    const Window &w = conv.window;
    i32 d = k.at[0] * w.dilations[0], h = k.at[1] * w.dilations[1], c = k.at[2] * w.dilations[2];
    at = (u32)(offset + (d * w.in[1] + h) * w.in[2] + c);
    return (u32)(start[0] + d) < (u32)w.in[0] && (u32)(start[1] + h) < (u32)w.in[1] && (u32)(start[2] + c) < (u32)w.in[2];
  }
  __attribute__((device, always_inline)) void put(T (*tile)[PITCH<T>], const Fetched<T> &fetched) const {
    put_columns(tile, fetched.arrived());
  }
};

// The depth is channel after channel of the window's taps.
template <class T> struct Gathered : Columns<T> {
  using Columns<T>::Columns;
  __attribute__((device, always_inline)) Fetched<T> fetch(i64, i64 first_depth, i64 end_depth) const {
    const Conv &conv = this->conv;
    Fetched<T> fetched;
    u32 depth = (u32)first_depth + (u32)depth_of_wave(), channel = depth / (u32)conv.taps, at;
    Place k = place_in(conv.window.kernel, depth - channel * (u32)conv.taps);
    const T *from = this->x + (i64)channel * conv.in_size;
    UNROLL for (int i = 0; i < EACH; i++) {
      bool inside = this->find(k, at) && depth + i < (u64)end_depth;
      // What is outside reads the first element instead.
      fetched.set(i, *(inside ? from + at : this->x), inside);
      if (advance(k, conv.window.kernel)) from += conv.in_size;
    }
    return fetched;
  }
};

// The depth is tap after tap of the channels, EACH at a time: of a tap's last ones some may not exist.
template <class T> struct ByTaps : Columns<T> {
  mutable Place tap;
  mutable i32 channel;

  __attribute__((device, always_inline)) ByTaps(const T *from, const Conv &product, i64 first_column)
      : Columns<T>(from, product, first_column), tap{}, channel(depth_of_wave()) {}
  __attribute__((device, always_inline)) Fetched<T> fetch(i64, i64 first_depth, i64 end_depth) const {
    const Conv &conv = this->conv;
    Fetched<T> fetched;
    for (i32 all = ceil_div(conv.channels, EACH) * EACH; channel >= all; channel -= all) advance(tap, conv.window.kernel);
    u32 at;
    bool inside = this->find(tap, at) && first_depth + depth_of_wave() < end_depth;
    i32 left = conv.channels - channel;
    at = inside ? at : 0;
    const T *from = this->x + (i64)channel * conv.in_size;
    UNROLL for (int i = 0; i < EACH; i++) {
      // Of channels that do not exist the last one is read instead.
      fetched.set(i, (from + (i64)min(i, left - 1) * conv.in_size)[at], inside && i < left);
    }
    channel += DEPTH;
    return fetched;
  }
};

// Grid: tiles, images * groups. The filters' rows have `depth` elements, which follow each other as COLUMNS wants them.
template <class T, class COLUMNS>
DEVICE void conv_tiles(const T *x, const T *w, T *y, const Conv &conv, Epilogue epilogue, i64 depth) {
  i64 across = ceil_div((i64)conv.out_size, (i64)TILE);
  i64 first_row = block() / across * TILE, first_column = block() % across * TILE;
  for (u32 product = block_y(); product < (u32)(conv.images * conv.groups); product += blocks_y()) {
    i32 group = (i32)product % conv.groups;
    const T *filters = w + (i64)group * conv.filters * depth;
    Operand<T> A{filters, conv.filters, depth, 1, depth % EACH == 0 && is_aligned(filters, 16)};
    COLUMNS B(x + (i64)product * conv.channels * conv.in_size, conv, first_column);
    multiply_tiles<T>(A, B, first_row, first_column, depth, [=, &conv](i64 row, i64 column, f32 sum) {
      i64 at = ((i64)product * conv.filters + row) * conv.out_size + column;
      if (row < conv.filters && column < conv.out_size) y[at] = finish<T>(epilogue, sum, at, group * conv.filters + row);
    });
  }
}

// Filters as ByTaps wants them: [filter][tap][channel], channels filled up with zeros.
template <class T> DEVICE void order_by_taps(const T *w, T *to, i64 count, i32 channels, i32 taps) {
  i32 all = ceil_div(channels, EACH) * EACH;
  for (i64 at = global_thread(); at < count; at += global_threads()) {
    i64 row = quotient(at, all), filter = quotient(row, taps);
    i32 channel = (i32)(at - row * all), tap = (i32)(row - filter * taps);
    to[at] = channel < channels ? w[(filter * channels + channel) * taps + tap] : T{};
  }
}

// `first` and `second` are those of the epilogue, in double.
template <class T>
DEVICE void conv_direct(const T *x, const T *w, T *y, const Conv &conv, Epilogue epilogue, f64 first, f64 second) {
  const Window &win = conv.window;
  i64 count = (i64)conv.images * conv.groups * conv.filters * conv.out_size;
  for (i64 at = global_thread(); at < count; at += global_threads()) {
    i64 plane = quotient(at, conv.out_size), image = quotient(plane, (i64)conv.groups * conv.filters);
    Place o = place_in(win.out, (u32)(at - plane * conv.out_size));
    i64 filter = plane - image * conv.groups * conv.filters, group = (u32)filter / (u32)conv.filters;
    const T *from = x + (image * conv.groups + group) * conv.channels * conv.in_size;
    const T *weights = w + filter * conv.channels * conv.taps;
    Compute<T> sum = 0;
    for (i32 channel = 0; channel < conv.channels; channel++, from += conv.in_size)
      for (i32 kd = 0; kd < win.kernel[0]; kd++)
        for (i32 kh = 0; kh < win.kernel[1]; kh++)
          for (i32 kw = 0; kw < win.kernel[2]; kw++, weights++) {
            i32 d = win.source(0, o.at[0], kd), h = win.source(1, o.at[1], kh), c = win.source(2, o.at[2], kw);
            if ((u32)d < (u32)win.in[0] && (u32)h < (u32)win.in[1] && (u32)c < (u32)win.in[2])
              sum += widen(from[(d * win.in[1] + h) * win.in[2] + c]) * widen(*weights);
          }
    if constexpr (same<T, f64>::value) {
      if (epilogue.bias) sum += ((const f64 *)epilogue.bias)[filter];
      sum = activate(sum, epilogue.activation, first, second);
      if (epilogue.residual) sum += ((const f64 *)epilogue.residual)[at];
      y[at] = sum;
    } else {
      (void)first, (void)second;
      y[at] = finish<T>(epilogue, sum, at, filter);
    }
  }
}

} // namespace

#define DEFINE(WORD, T)                                                                                                \
  KERNEL_OF_BLOCKS(256, 2) conv_##WORD(const T *x, const T *w, T *y, Conv conv, Epilogue epilogue, i64 depth) {        \
    conv_tiles<T, Gathered<T>>(x, w, y, conv, epilogue, depth);                                                        \
  }                                                                                                                    \
  KERNEL_OF_BLOCKS(256, 3) conv_taps_##WORD(const T *x, const T *w, T *y, Conv conv, Epilogue epilogue, i64 depth) {   \
    conv_tiles<T, ByTaps<T>>(x, w, y, conv, epilogue, depth);                                                          \
  }
HIPC_FLOATS(DEFINE)
KERNEL(256) conv_order_b2(const u16 *w, u16 *to, i64 count, i32 channels, i32 taps) {
  order_by_taps(w, to, count, channels, taps);
}
KERNEL(256) conv_order_b4(const u32 *w, u32 *to, i64 count, i32 channels, i32 taps) {
  order_by_taps(w, to, count, channels, taps);
}
#undef DEFINE
#define DEFINE(WORD, T)                                                                                                \
  KERNEL(256) conv_direct_##WORD(const T *x, const T *w, T *y, Conv conv, Epilogue epilogue, f64 first, f64 second) {  \
    conv_direct<T>(x, w, y, conv, epilogue, first, second);                                                            \
  }
HIPC_ALL_FLOATS(DEFINE)
