// Pooling over 1 to 3 spatial dimensions, and over whole planes. A thread makes one element, or a block one plane's.
#include "hipc_math.h"

using namespace hipc;

namespace {

// As kernels/runtime/pool.cpp passes it: spatial extents padded in front to three.
struct Window {
  i64 in[3], out[3], kernel[3], strides[3], dilations[3], before[3], after[3];
  i64 planes;
};

enum Mode : i32 { MAX, AVERAGE };

// A NaN replaces the largest value so far, and stays.
template <class C> DEVICE C larger(C value, C best) { return value > best || value != value ? value : best; }

// Positions of output `o` that an average divides by, along one axis.
DEVICE i64 counted(const Window &w, int axis, i64 o, bool pads) {
  i64 low = pads ? -w.before[axis] : 0, high = w.in[axis] + (pads ? w.after[axis] : 0), count = 0;
  for (i64 k = 0; k < w.kernel[axis]; k++) {
    i64 at = o * w.strides[axis] + k * w.dilations[axis] - w.before[axis];
    count += at >= low && at < high;
  }
  return count;
}

template <class T, Mode MODE> DEVICE void pool(const T *x, T *y, const Window &w, bool pads) {
  using C = Compute<T>;
  i64 columns = w.out[0] * w.out[1] * w.out[2], in_size = w.in[0] * w.in[1] * w.in[2];
  for (i64 at = global_thread(); at < w.planes * columns; at += global_threads()) {
    i64 column = at % columns, o[3] = {column / w.out[2] / w.out[1], column / w.out[2] % w.out[1], column % w.out[2]};
    const T *plane = x + at / columns * in_size;
    C value = MODE == MAX ? (C)lowest<T>() : (C)0;
    for (i64 kd = 0; kd < w.kernel[0]; kd++) {
      i64 d = o[0] * w.strides[0] + kd * w.dilations[0] - w.before[0];
      for (i64 kh = 0; kh < w.kernel[1]; kh++) {
        i64 h = o[1] * w.strides[1] + kh * w.dilations[1] - w.before[1];
        if (d < 0 || d >= w.in[0] || h < 0 || h >= w.in[1]) continue;
        for (i64 kw = 0; kw < w.kernel[2]; kw++) {
          i64 v = o[2] * w.strides[2] + kw * w.dilations[2] - w.before[2];
          if (v < 0 || v >= w.in[2]) continue;
          C found = widen(plane[(d * w.in[1] + h) * w.in[2] + v]);
          value = MODE == MAX ? larger(found, value) : (C)(value + found);
        }
      }
    }
    if constexpr (MODE == AVERAGE) {
      i64 count = counted(w, 0, o[0], pads) * counted(w, 1, o[1], pads) * counted(w, 2, o[2], pads);
      value = count ? value / (C)count : (C)0;
    }
    y[at] = narrow<T>(value);
  }
}

template <class T, Mode MODE> DEVICE void global_pool(const T *x, T *y, i64 count) {
  using C = Compute<T>;
  SHARED C shared[MOST_WAVES];
  C value = MODE == MAX ? (C)lowest<T>() : (C)0;
  const T *plane = x + (i64)block() * count;
  for (i64 i = thread(); i < count; i += threads())
    value = MODE == MAX ? larger(widen(plane[i]), value) : (C)(value + widen(plane[i]));
  if constexpr (MODE == MAX)
    value = combine_block(value, shared, (C)lowest<T>(), [](C a, C b) { return larger(b, a); });
  else value = sum_block(value, shared) / (C)count;
  if (thread() == 0) y[block()] = narrow<T>(value);
}

} // namespace

#define DEFINE(WORD, T)                                                                                                \
  KERNEL(256) max_pool_##WORD(const T *x, T *y, Window w) { pool<T, MAX>(x, y, w, false); }
HIPC_NUMBERS(DEFINE)
#undef DEFINE

#define DEFINE(WORD, T)                                                                                                \
  KERNEL(256) average_pool_##WORD(const T *x, T *y, Window w, i32 pads) { pool<T, AVERAGE>(x, y, w, pads); }           \
  KERNEL(256) global_max_pool_##WORD(const T *x, T *y, i64 count) { global_pool<T, MAX>(x, y, count); }                \
  KERNEL(256) global_average_pool_##WORD(const T *x, T *y, i64 count) { global_pool<T, AVERAGE>(x, y, count); }
HIPC_ALL_FLOATS(DEFINE)
