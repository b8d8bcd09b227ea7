// Rows of one mean and one variance: layer_norm, rms_norm, group_norm. One block per row; half precision is summed in
// float32. The second of two passes over a row finds the variance, and what rounding took from the mean: numbers far from
// zero keep their digits.
#include "hipc_math.h"
#include "shared/norms.h"

using namespace hipc;

namespace {

// The mean is mean + rest.
template <class C> struct Moments {
  C mean, rest, inverse;
};

template <class C> DEVICE C inverse_root(C x) { return (C)1 / sqrt_of(x); }

template <class T> DEVICE Moments<Compute<T>> moments_of(const T *x, i64 length, Compute<T> epsilon, bool centred) {
  using C = Compute<T>;
  SHARED C shared[MOST_WAVES];
  C mean = 0, rest = 0, squares = 0;
  if (centred) {
    C sum = 0;
    for (i64 i = thread(); i < length; i += threads()) sum += widen(x[i]);
    mean = sum_block(sum, shared) / (C)length;
  }
  for (i64 i = thread(); i < length; i += threads()) {
    C distance = widen(x[i]) - mean;
    squares += distance * distance;
    rest += distance;
  }
  squares = sum_block(squares, shared) / (C)length;
  rest = centred ? sum_block(rest, shared) / (C)length : (C)0;
  return {mean, rest, inverse_root(squares - rest * rest + epsilon)};
}

template <class P> DEVICE f32 parameter(const void *from, i64 at) { return widen(((const P *)from)[at]); }

// A scale or bias may have another element type than x.
template <class C> DEVICE C parameter_of(const void *from, i32 dtype, i64 at) {
  switch (dtype) {
  case 10: return (C)parameter<f16>(from, at);
  case 16: return (C)parameter<bf16>(from, at);
  case 11: return (C)((const f64 *)from)[at];
  default: return (C)((const f32 *)from)[at];
  }
}

template <class T> DEVICE void store_statistic(void *to, i32 dtype, i64 at, T value) {
  switch (dtype) {
  case 10: ((f16 *)to)[at] = (f16)value; break;
  case 16: ((bf16 *)to)[at] = narrow<bf16>((f32)value); break;
  case 11: ((f64 *)to)[at] = value; break;
  default: ((f32 *)to)[at] = (f32)value;
  }
}

template <class T>
DEVICE void layer_norm(const T *x, T *y, i64 length, f64 epsilon, NormParameters p, i32 centred, void *mean, void *inverse,
                       i32 mean_dtype) {
  using C = Compute<T>;
  i64 row = block();
  x += row * length, y += row * length;
  Moments<C> m = moments_of(x, length, (C)epsilon, centred != 0);
  for (i64 i = thread(); i < length; i += threads()) {
    C value = (widen(x[i]) - m.mean - m.rest) * m.inverse;
    if (p.scale) value *= parameter_of<C>(p.scale, p.scale_dtype, i / p.scale_inner % p.scale_extent);
    if (p.bias) value += parameter_of<C>(p.bias, p.bias_dtype, i / p.bias_inner % p.bias_extent);
    y[i] = narrow<T>(value);
  }
  if (mean && thread() == 0) {
    store_statistic(mean, mean_dtype, row, m.mean + m.rest);
    store_statistic(inverse, mean_dtype, row, m.inverse);
  }
}

// Rows of decoders: length a multiple of the vector, scale of x's type, everything aligned. The row stays in registers.
template <class T> DEVICE void rms_norm(const T *x, const T *scale, T *y, i64 length, f32 epsilon) {
  constexpr int COUNT = LANE_VECTOR<T>, MOST = 4;
  SHARED f32 shared[MOST_WAVES];
  i64 row = block(), vectors = length / COUNT;
  x += row * length, y += row * length;
  Vector<T, COUNT> kept[MOST];
  f32 squares = 0;
  UNROLL for (int part = 0; part < MOST; part++) {
    i64 at = (i64)part * threads() + thread();
    if (at >= vectors) continue;
    kept[part] = load<T, COUNT>(x + at * COUNT);
    UNROLL for (int i = 0; i < COUNT; i++) squares += widen(kept[part][i]) * widen(kept[part][i]);
  }
  f32 inverse = 1.0f / sqrt_of(sum_block(squares, shared) / (f32)length + epsilon);
  UNROLL for (int part = 0; part < MOST; part++) {
    i64 at = (i64)part * threads() + thread();
    if (at >= vectors) continue;
    Vector<T, COUNT> factor = load<T, COUNT>(scale + at * COUNT);
    UNROLL for (int i = 0; i < COUNT; i++) kept[part][i] = narrow<T>(widen(kept[part][i]) * inverse * widen(factor[i]));
    store<T, COUNT>(y + at * COUNT, kept[part]);
  }
}

// A row is a group of channels: `width` of them, each of `spatial` elements.
template <class T>
DEVICE void group_norm(const T *x, T *y, i64 groups, i64 width, i64 spatial, f64 epsilon, const void *scale,
                       const void *bias, i32 scale_dtype, i32 bias_dtype, i32 per_channel) {
  using C = Compute<T>;
  i64 row = block(), length = width * spatial, group = row % groups;
  x += row * length, y += row * length;
  Moments<C> m = moments_of(x, length, (C)epsilon, true);
  for (i64 i = thread(); i < length; i += threads()) {
    i64 at = per_channel ? group * width + i / spatial : group;
    C value = (widen(x[i]) - m.mean - m.rest) * m.inverse;
    y[i] = narrow<T>(value * parameter_of<C>(scale, scale_dtype, at) + parameter_of<C>(bias, bias_dtype, at));
  }
}

} // namespace

#define DEFINE(WORD, T)                                                                                                \
  KERNEL(1024) layer_norm_##WORD(const T *x, T *y, i64 length, f64 epsilon, NormParameters p, i32 centred, void *mean,      \
                                 void *inverse, i32 mean_dtype) {                                                      \
    layer_norm<T>(x, y, length, epsilon, p, centred, mean, inverse, mean_dtype);                                       \
  }                                                                                                                    \
  KERNEL(1024) group_norm_##WORD(const T *x, T *y, i64 groups, i64 width, i64 spatial, f64 epsilon, const void *scale,  \
                                 const void *bias, i32 scale_dtype, i32 bias_dtype, i32 per_channel) {                 \
    group_norm<T>(x, y, groups, width, spatial, epsilon, scale, bias, scale_dtype, bias_dtype, per_channel);           \
  }
HIPC_ALL_FLOATS(DEFINE)
#undef DEFINE

#define DEFINE(WORD, T)                                                                                                \
  KERNEL(1024) rms_norm_##WORD(const T *x, const T *scale, T *y, i64 length, f32 epsilon) {                            \
    rms_norm<T>(x, scale, y, length, epsilon);                                                                         \
  }
HIPC_FLOATS(DEFINE)
