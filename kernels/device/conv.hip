// Convolution: as a product of the filters by the input under each place of the window, gathered tile by tile; and
// directly, one thread an element, where a group has few filters.
#include "hipc_math.h"
#include "hipc_tiles.h"
#include "hipc_window.h"

using namespace hipc;

namespace {

using Conv = WindowedProduct;

// Columns are places of the output, the depth is channel after channel of the window's taps. Neighbouring threads have
// neighbouring places, which read side by side; the tap that they are at is the same for a wave.
template <class T> struct Gathered {
  const T *x;
  const Conv &conv;
  i32 start[3], offset;  // of the window of this thread's place

  __attribute__((device, always_inline)) Gathered(const T *from, const Conv &product, i64 first_column) : x(from), conv(product) {
    const Window &w = conv.window;
    i64 column = first_column + tile_column();
    Place o = place_in(w.out, (u32)min(column, (i64)conv.out_size - 1));
    for (int axis = 0; axis < 3; axis++) start[axis] = w.source(axis, o.at[axis], 0);
    offset = (start[0] * w.in[1] + start[1]) * w.in[2] + start[2];
    // Nothing is inside of a place that does not exist.
    if (column >= conv.out_size) start[0] = -0x40000000;
  }
  __attribute__((device, always_inline)) Vector<T, EACH> fetch(i64, i64 first_depth, i64 end_depth) const {
    const Window &w = conv.window;
    Vector<T, EACH> value;
    u32 depth = (u32)first_depth + (u32)depth_of_wave(), channel = depth / (u32)conv.taps;
    Place k = place_in(w.kernel, depth - channel * (u32)conv.taps);
    const T *from = x + (i64)channel * conv.in_size;
    UNROLL for (int i = 0; i < EACH; i++) {
      i32 d = k.at[0] * w.dilations[0], h = k.at[1] * w.dilations[1], c = k.at[2] * w.dilations[2];
      bool inside = depth + i < (u64)end_depth && (u32)(start[0] + d) < (u32)w.in[0] && (u32)(start[1] + h) < (u32)w.in[1] &&
                    (u32)(start[2] + c) < (u32)w.in[2];
      // What is outside reads the first element instead: loads need no branches.
      T found = *(inside ? from + (offset + (d * w.in[1] + h) * w.in[2] + c) : x);
      value[i] = inside ? found : (T)0.0f;
      if (advance(k, w.kernel)) from += conv.in_size;
    }
    return value;
  }
  __attribute__((device, always_inline)) void put(T (*tile)[DEPTH + PAD], const Vector<T, EACH> &value) const {
    put_columns(tile, value);
  }
};

// Grid: tiles, images * groups.
template <class T> DEVICE void conv_tiles(const T *x, const T *w, T *y, const Conv &conv, Epilogue epilogue) {
  i64 across = ceil_div((i64)conv.out_size, (i64)TILE), depth = (i64)conv.channels * conv.taps;
  i64 first_row = block() / across * TILE, first_column = block() % across * TILE;
  for (u32 product = block_y(); product < (u32)(conv.images * conv.groups); product += blocks_y()) {
    i32 group = (i32)product % conv.groups;
    const T *filters = w + (i64)group * conv.filters * depth;
    Operand<T> A{filters, conv.filters, depth, 1, depth % EACH == 0 && is_aligned(filters, 16)};
    Gathered<T> B(x + (i64)product * conv.channels * conv.in_size, conv, first_column);
    multiply_tiles<T>(A, B, first_row, first_column, depth, [=, &conv](i64 row, i64 column, f32 sum) {
      i64 at = ((i64)product * conv.filters + row) * conv.out_size + column;
      if (row < conv.filters && column < conv.out_size) y[at] = finish<T>(epilogue, sum, at, group * conv.filters + row);
    });
  }
}

// `first` and `second` are those of the epilogue, in double.
template <class T>
DEVICE void conv_direct(const T *x, const T *w, T *y, const Conv &conv, Epilogue epilogue, f64 first, f64 second) {
  const Window &win = conv.window;
  i64 count = (i64)conv.images * conv.groups * conv.filters * conv.out_size;
  for (i64 at = global_thread(); at < count; at += global_threads()) {
    Place o = place_in(win.out, (u32)(at % conv.out_size));
    i64 filter = at / conv.out_size % ((i64)conv.groups * conv.filters), image = at / conv.out_size / conv.groups / conv.filters;
    i64 group = filter / conv.filters;
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
  KERNEL(256) conv_##WORD(const T *x, const T *w, T *y, Conv conv, Epilogue epilogue) {                                \
    conv_tiles<T>(x, w, y, conv, epilogue);                                                                            \
  }
HIPC_FLOATS(DEFINE)
#undef DEFINE
#define DEFINE(WORD, T)                                                                                                \
  KERNEL(256) conv_direct_##WORD(const T *x, const T *w, T *y, Conv conv, Epilogue epilogue, f64 first, f64 second) {  \
    conv_direct<T>(x, w, y, conv, epilogue, first, second);                                                            \
  }
HIPC_ALL_FLOATS(DEFINE)
