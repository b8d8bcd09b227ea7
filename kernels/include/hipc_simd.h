// Vectors of float as wide as the CPU level's registers, and the elementary functions on them.
//
// The functions keep NaN and the sign of infinities. Coefficients are minimax fits made for this project; errors are
// relative to the exact value unless said otherwise.
#pragma once
#include "hipc_host.h"

namespace hipc {

#if defined(__AVX512F__)
constexpr int LANES = 16;
#elif defined(__AVX2__)
constexpr int LANES = 8;
#else
constexpr int LANES = 4;
#endif

typedef float vfloat __attribute__((vector_size(4 * LANES)));
typedef int32_t vint __attribute__((vector_size(4 * LANES)));
typedef float vfloat_unaligned __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

HIPC_INLINE vfloat load(const float *from) { return *(const vfloat_unaligned *)from; }
HIPC_INLINE void store(float *to, vfloat value) { *(vfloat_unaligned *)to = value; }
HIPC_INLINE vfloat splat(float value) { return value - vfloat{}; }

// The first `count` < LANES elements; zeros after them.
HIPC_INLINE vfloat load_first(const float *from, int64_t count) {
  alignas(4 * LANES) float lanes[LANES] = {};
  for (int64_t i = 0; i < count; i++) lanes[i] = from[i];
  return load(lanes);
}
HIPC_INLINE void store_first(float *to, vfloat value, int64_t count) {
  for (int64_t i = 0; i < count; i++) to[i] = value[i];
}

// NaN in `x` stays; `limit` must be a number.
HIPC_INLINE vfloat at_least(vfloat x, vfloat limit) { return x < limit ? limit : x; }
HIPC_INLINE vfloat at_most(vfloat x, vfloat limit) { return x > limit ? limit : x; }

HIPC_INLINE float reduce_add(vfloat x) {
  float lanes[LANES];
  store(lanes, x);
  for (int width = LANES / 2; width; width /= 2)
    for (int i = 0; i < width; i++) lanes[i] += lanes[i + width];
  return lanes[0];
}
// NaN in any lane may be lost: look for it elsewhere where it matters.
HIPC_INLINE float reduce_max(vfloat x) {
  float lanes[LANES];
  store(lanes, x);
  for (int width = LANES / 2; width; width /= 2)
    for (int i = 0; i < width; i++) lanes[i] = lanes[i] < lanes[i + width] ? lanes[i + width] : lanes[i];
  return lanes[0];
}

// Error 1e-7; results below about the smallest normal number become 0, and above the largest number infinity.
HIPC_INLINE vfloat vexp(vfloat x) {
  vfloat clamped = at_most(at_least(x, splat(-87.3f)), splat(88.8f));
  // Adding 1.5 * 2^23 leaves the nearest integer to x / log(2) in the low bits.
  const vfloat magic = splat(0x1.8p23f);
  vfloat shifted = clamped * 0x1.715476p0f + magic;
  vfloat n = shifted - magic;
  // log(2) in two parts: the first product is exact.
  vfloat r = clamped - n * 0x1.62e4p-1f;
  r = r - n * 0x1.7f7d1cp-20f;
  vfloat p = r * 0.00139504775f + 0.00836888454f;
  p = p * r + 0.041666206f;
  p = p * r + 0.166665189f;
  p = p * r + 0.5f;
  p = p * r * r + r + 1.0f;
  // 2^n as 2 * 2^(n-1): n reaches 128.
  vint exponent = ((vint)shifted - (vint)magic + 126) << 23;
  vfloat result = p * (vfloat)exponent * 2.0f;
  result = x < -87.3f ? vfloat{} : result;
  return x > 88.72283f ? splat(__builtin_inff()) : result;
}

// Exactly -1 and 1 outside [-limit, limit], so that 1 + f(x) is exactly 0 there; within [-1, 1] inside.
HIPC_INLINE vfloat saturate(vfloat argument, float limit, vfloat value) {
  value = at_most(at_least(value, splat(-1)), splat(1));
  value = argument < -limit ? splat(-1) : value;
  return argument > limit ? splat(1) : value;
}

// Absolute error 4e-7.
HIPC_INLINE vfloat verf(vfloat argument) {
  vfloat x = at_most(at_least(argument, splat(-3.92f)), splat(3.92f));
  vfloat z = x * x;
  vfloat p = z * 2.05008587e-6f + 0.000284882682f;
  p = p * z + 0.00376561948f;
  p = p * z + 0.0527487339f;
  p = p * z + 0.190406537f;
  p = p * z + 1.12837915f;
  vfloat q = z * 3.80916973e-5f + 0.00116253587f;
  q = q * z + 0.014969223f;
  q = q * z + 0.114109142f;
  q = q * z + 0.502076141f;
  q = q * z + 1.0f;
  return saturate(argument, 3.92f, x * p / q);
}

// Error 3e-7.
HIPC_INLINE vfloat vtanh(vfloat argument) {
  vfloat x = at_most(at_least(argument, splat(-9)), splat(9));
  vfloat z = x * x;
  vfloat p = z * 5.08567083e-8f + 3.16158466e-5f;
  p = p * z + 0.00400973773f;
  p = p * z + 0.137863274f;
  p = p * z + 1.0f;
  vfloat q = z * 7.39350127e-10f + 1.6195657e-6f;
  q = q * z + 0.00042096314f;
  q = q * z + 0.0277419521f;
  q = q * z + 0.471196599f;
  q = q * z + 1.0f;
  return saturate(argument, 9, x * p / q);
}

HIPC_INLINE vfloat vsigmoid(vfloat x) { return 1.0f / (1.0f + vexp(-x)); }

} // namespace hipc
