// Resizing. A table holds, for every output position of an axis, the positions it is made of and their weights. Nearest
// moves elements of all axes at once; the other modes blend one axis after the other. A thread an element.
#include "hipc_math.h"
#include "hipc_mixed.h"
#include "shared/resizing.h"

using namespace hipc;

namespace {

// Rounded to the nearest number of the type, at its limits where it lies beyond them.
template <class T, class C> DEVICE T saturated(C value) {
  if constexpr (is_float<T>) {
    return narrow<T>((Compute<T>)value);
  } else {
    f64 rounded = nearest_of((f64)value), low = (f64)lowest<T>(), high = (f64)highest<T>();
    if (!(rounded > low)) return lowest<T>();
    return rounded >= high ? highest<T>() : (T)rounded;
  }
}

// Numbers of ONNX element types: every one that can be blended.
template <class C> DEVICE C number_of(const void *from, i32 dtype, i64 at) {
  switch (dtype) {
  case 2: return (C)((const u8 *)from)[at];
  case 3: return (C)((const i8 *)from)[at];
  case 4: return (C)((const u16 *)from)[at];
  case 5: return (C)((const i16 *)from)[at];
  case 6: return (C)((const i32 *)from)[at];
  case 7: return (C)((const i64 *)from)[at];
  case 12: return (C)((const u32 *)from)[at];
  case 13: return (C)((const u64 *)from)[at];
  default: return number_as<C>(from, dtype, at);
  }
}
template <class C> DEVICE void put_number(void *to, i32 dtype, i64 at, C value) {
  switch (dtype) {
  case 2: ((u8 *)to)[at] = saturated<u8>(value); break;
  case 3: ((i8 *)to)[at] = saturated<i8>(value); break;
  case 4: ((u16 *)to)[at] = saturated<u16>(value); break;
  case 5: ((i16 *)to)[at] = saturated<i16>(value); break;
  case 6: ((i32 *)to)[at] = saturated<i32>(value); break;
  case 7: ((i64 *)to)[at] = saturated<i64>(value); break;
  case 12: ((u32 *)to)[at] = saturated<u32>(value); break;
  case 13: ((u64 *)to)[at] = saturated<u64>(value); break;
  case TYPE_F64: ((f64 *)to)[at] = (f64)value; break;
  default: put_mixed(to, dtype, at, (f32)value);
  }
}

template <class C> DEVICE void blend(const ResizePass &pass, const ResizeTable &table) {
  for (i64 at = global_thread(); at < pass.outer * pass.out * pass.inner; at += global_threads()) {
    i64 j = at % pass.inner, i = at / pass.inner % pass.out, base = at / pass.inner / pass.out * pass.in * pass.inner + j;
    C sum = 0;
    for (i64 k = 0; k < table.count; k++)
      sum += number_of<C>(pass.from, pass.from_dtype, base + table.source[i * table.count + k] * pass.inner) *
             (C)table.weight[i * table.count + k];
    put_number<C>(pass.to, pass.to_dtype, at, table.outside[i] ? (C)pass.extrapolation : sum);
  }
}

// `extrapolation` is one element, as bits.
template <class T> DEVICE void move(const T *x, T *y, const ResizeAxes &axes, i64 count, u64 extrapolation) {
  for (i64 at = global_thread(); at < count; at += global_threads()) {
    i64 rest = at, offset = 0, stride = 1;
    bool outside = false;
    for (i32 axis = axes.rank - 1; axis >= 0; axis--) {
      i64 place = rest % axes.out[axis];
      rest /= axes.out[axis];
      if (axes.source[axis]) {
        outside = outside || axes.outside[axis][place];
        place = axes.source[axis][place];
      }
      offset += place * stride, stride *= axes.in[axis];
    }
    if (!outside) y[at] = x[offset];
    else if constexpr (sizeof(T) <= 8) y[at] = (T)extrapolation;
    else y[at] = T{};
  }
}

} // namespace

KERNEL(256) resize_table(ResizeTable table, ResizeOptions options, ResizeAxis axis) {
  for (i64 at = global_thread(); at < axis.out; at += global_threads())
    table.outside[at] = fill_taps(options, axis, at, table.count, table.source + at * table.count, table.weight + at * table.count);
}
KERNEL(256) resize_blend_f32(ResizePass pass, ResizeTable table) { blend<f32>(pass, table); }
KERNEL(256) resize_blend_f64(ResizePass pass, ResizeTable table) { blend<f64>(pass, table); }
#define DEFINE(WORD, T)                                                                                                \
  KERNEL(256) resize_nearest_##WORD(const T *x, T *y, ResizeAxes axes, i64 count, u64 extrapolation) {                 \
    move<T>(x, y, axes, count, extrapolation);                                                                         \
  }
HIPC_BYTES(DEFINE)
