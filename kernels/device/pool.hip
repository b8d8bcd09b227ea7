// Pooling windows, and padding. A thread an element of the output; a NaN is greatest, and stays.
#include "hipc_math.h"
#include "hipc_window.h"

using namespace hipc;

namespace {

enum Mode : i32 { GREATEST, AVERAGE, LP };

DEVICE f32 power_of(f32 x, i32 p) { return p == 1 ? x : p == 2 ? x * x : x == 0 ? 0.0f : exp_of(log_of(x) * (f32)p); }
DEVICE f64 power_of(f64 x, i32 p) {
  f64 product = 1;
  for (i32 i = 0; i < p; i++) product *= x;
  return product;
}
DEVICE f32 root_of(f32 x, i32 p) { return p == 1 ? x : p == 2 ? sqrt_of(x) : x == 0 ? 0.0f : exp_of(log_of(x) / (f32)p); }
DEVICE f64 root_of(f64 x, i32 p) { return p == 1 ? x : p == 2 ? sqrt_of(x) : x == 0 ? 0.0 : exp_of(log_of(x) / (f64)p); }

template <class C> DEVICE bool exceeds(C value, C best) { return value > best || value != value; }

// Taps of an axis whose position lies in [low, high).
struct Taps {
  i32 first, last;
};
DEVICE Taps taps_of(const Window &w, int axis, i32 o, i32 low, i32 high) {
  i32 start = o * w.strides[axis] - w.before[axis], step = w.dilations[axis];
  i32 first = low - start <= 0 ? 0 : (low - start + step - 1) / step;
  i32 last = high - start <= 0 ? 0 : min((high - start + step - 1) / step, w.kernel[axis]);
  return {first, max(first, last)};
}

template <class T, bool FLOAT = is_float<T>>
DEVICE void pool(const T *x, T *y, i64 *indices, const Window &w, i64 planes, i32 mode, i32 include_pads, i32 p, i32 column_major) {
  using C = Compute<T>;
  i64 out_size = (i64)w.out[0] * w.out[1] * w.out[2], in_size = (i64)w.in[0] * w.in[1] * w.in[2];
  for (i64 item = global_thread(); item < planes * out_size; item += global_threads()) {
    i64 plane = item / out_size, at = -1;
    Place o = place_in(w.out, (u32)(item % out_size));
    const T *from = x + plane * in_size;
    Taps d = taps_of(w, 0, o.at[0], 0, w.in[0]), h = taps_of(w, 1, o.at[1], 0, w.in[1]), c = taps_of(w, 2, o.at[2], 0, w.in[2]);
    C total = mode == GREATEST ? (C)lowest<C>() : (C)0;
    for (i32 kd = d.first; kd < d.last; kd++)
      for (i32 kh = h.first; kh < h.last; kh++)
        for (i32 kw = c.first; kw < c.last; kw++) {
          i32 depth = w.source(0, o.at[0], kd), height = w.source(1, o.at[1], kh), width = w.source(2, o.at[2], kw);
          i64 place = ((i64)depth * w.in[1] + height) * w.in[2] + width;
          C value = widen(from[place]);
          if (mode == GREATEST) {
            if (at >= 0 && (!exceeds(value, total) || total != total)) continue;
            total = value;
            at = column_major ? ((i64)width * w.in[1] + height) * w.in[0] + depth : place;
          } else if constexpr (FLOAT) {
            total += mode == LP ? power_of(abs_of(value), p) : value;
          }
        }
    if constexpr (FLOAT) {
      if (mode == AVERAGE) {
        i64 count = 1;
        for (int axis = 0; axis < 3; axis++) {
          Taps all = include_pads ? taps_of(w, axis, o.at[axis], -w.before[axis], w.in[axis] + w.after[axis])
                                  : taps_of(w, axis, o.at[axis], 0, w.in[axis]);
          count *= all.last - all.first;
        }
        // A window that lies in the padding has nothing to average.
        total = count ? total / (C)count : (C)0;
      }
      if (mode == LP) total = root_of(total, p);
    }
    y[item] = narrow<T>(total);
    if (indices) indices[item] = at < 0 ? -1 : plane * in_size + at;
  }
}

// A plane to one element, by a block.
template <class T> DEVICE void global_pool(const T *x, T *y, i64 planes, i64 size, i32 mode, i32 p) {
  using C = Compute<T>;
  SHARED C shared[MOST_WAVES];
  for (i64 plane = block(); plane < planes; plane += blocks()) {
    const T *from = x + plane * size;
    C total = mode == GREATEST ? lowest<C>() : (C)0;
    for (i64 i = thread(); i < size; i += threads()) {
      C value = widen(from[i]);
      if (mode == GREATEST) total = exceeds(value, total) ? value : total;
      else total += mode == LP ? power_of(abs_of(value), p) : value;
    }
    if (mode == GREATEST)
      total = combine_block(total, shared, lowest<C>(), [](C a, C b) { return exceeds(b, a) ? b : a; });
    else total = sum_block(total, shared);
    if (mode == AVERAGE) total = total / (C)size;
    if (mode == LP) total = root_of(total, p);
    if (thread() == 0) y[plane] = narrow<T>(total);
  }
}

enum PadMode : i32 { CONSTANT, REFLECT, EDGE, WRAP };

// Position in [0, extent) that an output position reads, or -1 for the padding value.
DEVICE i64 padded_source(i64 position, i64 extent, i32 mode) {
  if (position >= 0 && position < extent) return position;
  if (mode == EDGE) return position < 0 ? 0 : extent - 1;
  if (mode == WRAP) {
    i64 rest = position % extent;
    return rest < 0 ? rest + extent : rest;
  }
  if (mode == REFLECT) {
    if (extent == 1) return 0;
    i64 period = 2 * (extent - 1), rest = position % period;
    if (rest < 0) rest += period;
    return rest < extent ? rest : period - rest;
  }
  return -1;
}

// `in` has the extents of x and its strides, `out` those of y and, in place of strides, where x begins.
template <class T> DEVICE void pad(const T *x, const T *value, T *y, const Space &in, const Space &out, i64 count, i32 mode) {
  for (i64 at = global_thread(); at < count; at += global_threads()) {
    i64 rest = at, offset = 0;
    bool inside = true;
    for (i32 axis = in.rank - 1; axis >= 0; axis--) {
      i64 source = padded_source(rest % out.shape[axis] - out.strides[axis], in.shape[axis], mode);
      rest /= out.shape[axis];
      inside = inside && source >= 0;
      offset += source * in.strides[axis];
    }
    if (inside) y[at] = x[offset];
    else if (value) y[at] = *value;
    else y[at] = T{};
  }
}

} // namespace

#define DEFINE(WORD, T)                                                                                                \
  KERNEL(256) pool_##WORD(const T *x, T *y, i64 *indices, Window w, i64 planes, i32 mode, i32 include_pads, i32 p,     \
                          i32 column_major) {                                                                          \
    pool<T>(x, y, indices, w, planes, mode, include_pads, p, column_major);                                            \
  }
HIPC_NUMBERS(DEFINE)
#undef DEFINE
#define DEFINE(WORD, T)                                                                                                \
  KERNEL(256) global_pool_##WORD(const T *x, T *y, i64 planes, i64 size, i32 mode, i32 p) {                            \
    global_pool<T>(x, y, planes, size, mode, p);                                                                       \
  }
HIPC_ALL_FLOATS(DEFINE)
#undef DEFINE
#define DEFINE(WORD, T)                                                                                                \
  KERNEL(256) pad_##WORD(const T *x, const T *value, T *y, Space in, Space out, i64 count, i32 mode) {                 \
    pad<T>(x, value, y, in, out, count, mode);                                                                         \
  }
HIPC_BYTES(DEFINE)
