// Functions of numbers on devices: float32 to a few units in the last place, and the activations that products end with.
#pragma once
#include "hipc_device.h"
#include "shared/products.h"

namespace hipc {

#if defined(HIPC_AMD)
DEVICE f32 exp2_of(f32 x) { return __builtin_amdgcn_exp2f(x); }
DEVICE f32 log2_of(f32 x) { return __builtin_amdgcn_logf(x); }
DEVICE f32 rsqrt_of(f32 x) { return __builtin_amdgcn_rsqf(x); }
DEVICE f32 reciprocal(f32 x) { return __builtin_amdgcn_rcpf(x); }
#else
// As AMD's, without subnormal results: those would cost three more instructions.
DEVICE f32 exp2_of(f32 x) { return __nvvm_ex2_approx_ftz_f(x); }
DEVICE f32 log2_of(f32 x) { return __nvvm_lg2_approx_f(x); }
DEVICE f32 rsqrt_of(f32 x) { return __nvvm_rsqrt_approx_f(x); }
DEVICE f32 reciprocal(f32 x) {
  f32 y;
  asm("rcp.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
#endif
DEVICE f32 sqrt_of(f32 x) { return __builtin_sqrtf(x); }
DEVICE f64 sqrt_of(f64 x) { return __builtin_sqrt(x); }
DEVICE f32 abs_of(f32 x) { return __builtin_fabsf(x); }
DEVICE f64 abs_of(f64 x) { return __builtin_fabs(x); }
DEVICE f32 floor_of(f32 x) { return __builtin_floorf(x); }
DEVICE f64 floor_of(f64 x) { return __builtin_floor(x); }

constexpr f32 LOG2_E = 1.44269504088896340736f, LN_2 = 0.69314718055994530942f;

// e^x: the product with log2(e) keeps its rounding error, which matters for large |x|.
DEVICE f32 exp_of(f32 x) {
  f32 high = x * LOG2_E;
  f32 low = __builtin_fmaf(x, LOG2_E, -high);
  // Infinite products have no error to keep.
  return abs_of(high) < 256.0f ? exp2_of(high) * __builtin_fmaf(low, LN_2, 1.0f) : exp2_of(high);
}
DEVICE f32 log_of(f32 x) { return log2_of(x) * LN_2; }

// Natural logarithm and exponential in double: argument reduction and Taylor series, a few units in the last place.
DEVICE f64 exp_of(f64 x) {
  if (!(x > -745.2)) return x != x ? x : 0.0;
  if (x > 709.79) return __builtin_inf();
  f64 n = __builtin_rint(x * 1.4426950408889634);
  f64 r = __builtin_fma(n, -6.93147180369123816490e-01, x);
  r = __builtin_fma(n, -1.90821492927058770002e-10, r);
  f64 sum = 1.0;
  for (int i = 14; i >= 1; i--) sum = __builtin_fma(sum, r / (f64)i, 1.0);
  i64 half = (i64)n / 2, rest = (i64)n - half;
  return sum * bit_cast<f64>((u64)(half + 1023) << 52) * bit_cast<f64>((u64)(rest + 1023) << 52);
}
DEVICE f64 log_of(f64 x) {
  if (!(x > 0)) return x == 0 ? -__builtin_inf() : __builtin_nan("");
  if (x == __builtin_inf()) return x;
  f64 scale = 0;
  if (x < 2.2250738585072014e-308) x *= 18014398509481984.0, scale = -54;
  u64 bits = bit_cast<u64>(x);
  i64 exponent = (i64)(bits >> 52) - 1023;
  f64 m = bit_cast<f64>((bits & 0xfffffffffffffull) | 0x3ff0000000000000ull);
  if (m > 1.4142135623730951) m *= 0.5, exponent++;
  f64 s = (m - 1) / (m + 1), t = s * s, sum = 0;
  for (int i = 23; i >= 3; i -= 2) sum = (sum + 1.0 / (f64)i) * t;
  return ((f64)exponent + scale) * 0.6931471805599453 + 2 * s * (1 + sum);
}

// Polynomials fitted to the functions by Chebyshev interpolation; errors below 1.5e-7.
template <int COUNT> DEVICE f32 polynomial(const f32 (&c)[COUNT], f32 x) {
  f32 sum = c[COUNT - 1];
  UNROLL for (int i = COUNT - 2; i >= 0; i--) sum = sum * x + c[i];
  return sum;
}
DEVICE f32 erf_of(f32 x) {
  constexpr f32 small[] = {1.128379225730896f,    -0.37612637877464294f,  0.11283782869577408f,   -0.026865437626838684f,
                           0.005221053492277861f, -0.0008484396385028958f, 0.00011268253729213029f, -9.673590284364764e-06f};
  constexpr f32 large[] = {0.00030321296071633697f, -1.1301666498184204f, -0.6319370865821838f,   -0.10997824370861053f,
                           0.02636471763253212f,    -0.004740222357213497f, 0.0005927695310674608f, -4.559062290354632e-05f,
                           1.6140616025950294e-06f};
  f32 a = abs_of(x);
  if (a < 1.0f) return x * polynomial(small, x * x);
  f32 rest = a < 4.0f ? exp_of(polynomial(large, a)) : 0.0f;
  return x != x ? x : x < 0 ? rest - 1.0f : 1.0f - rest;
}
DEVICE f32 tanh_of(f32 x) {
  constexpr f32 small[] = {1.0f, -0.3333328366279602f, 0.13331705331802368f, -0.05376992002129555f, 0.02075747586786747f,
                           -0.005856427829712629f};
  f32 a = abs_of(x);
  if (a < 0.6f) return x * polynomial(small, x * x);
  f32 e = exp_of(-2.0f * a), value = (1.0f - e) / (1.0f + e);
  return x < 0 ? -value : value;
}
// In double: Taylor's series near zero, where the quotient would lose digits.
DEVICE f64 tanh_of(f64 x) {
  f64 a = abs_of(x), square = x * x;
  if (a < 0.1) {
    const f64 series[] = {21844.0 / 6081075, -1382.0 / 155925, 62.0 / 2835, -17.0 / 315, 2.0 / 15, -1.0 / 3};
    f64 sum = 0;
    for (f64 c : series) sum = sum * square + c;
    return x + x * square * sum;
  }
  f64 e = exp_of(-2 * a), value = (1 - e) / (1 + e);
  return x < 0 ? -value : value;
}
// A series of positive terms: sums of 2^n x^(2n + 1) / (2n + 1)!!, times e^(-x^2).
DEVICE f64 erf_of(f64 x) {
  if (!(abs_of(x) < 6)) return x != x ? x : x < 0 ? -1.0 : 1.0;
  f64 term = x, sum = x;
  for (int n = 1; n < 160 && abs_of(term) > 1e-17 * abs_of(sum); n++) {
    term *= 2 * x * x / (2 * n + 1);
    sum += term;
  }
  return 1.12837916709551257390 * exp_of(-x * x) * sum;
}
DEVICE f32 sigmoid_of(f32 x) { return reciprocal(1.0f + exp_of(-x)); }
DEVICE f32 silu_of(f32 x) { return x * sigmoid_of(x); }

// In the order of ACTIVATIONS in hip_compiler/core/dialects/hip/matmul.py.
enum Activation : i32 {
  ACT_NONE,
  ACT_RELU,
  ACT_GELU,
  ACT_GELU_TANH,
  ACT_SILU,
  ACT_SIGMOID,
  ACT_TANH,
  ACT_HARD_SWISH,
  ACT_HARD_SIGMOID,
  ACT_LEAKY_RELU,
  ACT_CLIP,
};

using Epilogue = ProductEnd;

DEVICE f32 clamp_of(f32 x, f32 low, f32 high) {
  // Written so that a NaN is kept.
  x = x < low ? low : x;
  return x > high ? high : x;
}
DEVICE f32 activate(f32 x, const Epilogue &e) {
  switch (e.activation) {
  case ACT_RELU: return x < 0 ? 0 : x;
  case ACT_GELU: return 0.5f * x * (1.0f + erf_of(x * 0.70710678118654752440f));
  case ACT_GELU_TANH: return 0.5f * x * (1.0f + tanh_of(0.79788456080286535588f * (x + 0.044715f * x * x * x)));
  case ACT_SILU: return silu_of(x);
  case ACT_SIGMOID: return sigmoid_of(x);
  case ACT_TANH: return tanh_of(x);
  case ACT_HARD_SWISH: return x * clamp_of(x * (1.0f / 6.0f) + 0.5f, 0.0f, 1.0f);
  case ACT_HARD_SIGMOID: return clamp_of(x * e.first + e.second, 0.0f, 1.0f);
  case ACT_LEAKY_RELU: return x < 0 ? x * e.first : x;
  case ACT_CLIP: return clamp_of(x, e.first, e.second);
  default: return x;
  }
}
// The same in double, with the numbers of the activation as they are.
DEVICE f64 activate(f64 x, i32 activation, f64 first, f64 second) {
  auto clamp = [](f64 value, f64 low, f64 high) {
    value = value < low ? low : value;
    return value > high ? high : value;
  };
  switch (activation) {
  case ACT_RELU: return x < 0 ? 0 : x;
  case ACT_GELU: return 0.5 * x * (1.0 + erf_of(x * 0.70710678118654752440));
  case ACT_GELU_TANH: return 0.5 * x * (1.0 + tanh_of(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
  case ACT_SILU: return x / (1 + exp_of(-x));
  case ACT_SIGMOID: return 1 / (1 + exp_of(-x));
  case ACT_TANH: return tanh_of(x);
  case ACT_HARD_SWISH: return x * clamp(x * (1.0 / 6.0) + 0.5, 0.0, 1.0);
  case ACT_HARD_SIGMOID: return clamp(x * first + second, 0.0, 1.0);
  case ACT_LEAKY_RELU: return x < 0 ? x * first : x;
  case ACT_CLIP: return clamp(x, first, second);
  default: return x;
  }
}
// Element `at` of y from its product; `column` is its place in the bias.
template <class T> DEVICE T finish(const Epilogue &e, f32 product, i64 at, i64 column) {
  f32 value = product * e.alpha;
  if (e.bias) value += widen(((const T *)e.bias)[column]);
  value = activate(value, e);
  if (e.residual) value += widen(((const T *)e.residual)[at]);
  return narrow<T>(value);
}

} // namespace hipc
