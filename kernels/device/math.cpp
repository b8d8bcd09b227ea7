// Functions of the C library that generated kernels call and GPUs do not have. Everything is computed in double: what an
// f32 function returns is correctly rounded but for rare ties, whatever the device's approximate instructions do.
// Freestanding, without headers: the same source is compiled for every kind of device.
typedef long long int64_t;
typedef unsigned long long uint64_t;

#define HIPC_DEVICE_MATH extern "C" __attribute__((const, nothrow))

namespace {

constexpr double LN2 = 0x1.62e42fefa39efp-1, LN2_HIGH = 0x1.62e42fee00000p-1, LN2_LOW = 0x1.a39ef35793c76p-33;
constexpr double PI = 0x1.921fb54442d18p+1;
constexpr double INFINITE = __builtin_inf();
// Below it the first two terms of a series are all that double can tell.
constexpr double TINY = 1e-5;

inline uint64_t bits(double x) { return __builtin_bit_cast(uint64_t, x); }
inline double from_bits(uint64_t x) { return __builtin_bit_cast(double, x); }
inline double magnitude(double x) { return __builtin_fabs(x); }
inline double with_sign(double x, double sign) { return __builtin_copysign(x, sign); }
inline bool is_negative(double x) { return bits(x) >> 63; }
inline bool is_nan(double x) { return x != x; }

// Coefficients from the highest power down.
template <int N> inline double polynomial(double x, const double (&coefficients)[N]) {
  double sum = coefficients[0];
#pragma unroll
  for (int i = 1; i < N; i++) sum = __builtin_fma(sum, x, coefficients[i]);
  return sum;
}

double exponential(double x) {
  if (is_nan(x)) return x;
  if (x > 709.8) return INFINITE;
  if (x < -745.2) return 0;
  double count = __builtin_rint(x / LN2);
  double rest = __builtin_fma(-count, LN2_LOW, __builtin_fma(-count, LN2_HIGH, x));
  const double series[] = {1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320,
                           1.0 / 5040,       1.0 / 720,       1.0 / 120,      1.0 / 24,      1.0 / 6,      0.5,
                           1.0,              1.0};
  double result = polynomial(rest, series);
  // In two steps: the power of two alone may be outside the normal numbers.
  int64_t power = (int64_t)count, half = power / 2;
  return result * from_bits((uint64_t)(half + 1023) << 52) * from_bits((uint64_t)(power - half + 1023) << 52);
}

double logarithm(double x) {
  if (is_nan(x) || x == INFINITE) return x;
  if (x == 0) return -INFINITE;
  if (x < 0) return __builtin_nan("");
  int64_t power = 0;
  if (x < 0x1p-1022) {
    x *= 0x1p54;
    power = -54;
  }
  // The mantissa in [sqrt(1/2), sqrt(2)): its logarithm has the sign that keeps the sum exact near 1.
  constexpr uint64_t ROOT = 0x3fe6a09e667f3bcdull;
  uint64_t from_root = bits(x) - ROOT;
  power += (int64_t)from_root >> 52;
  double mantissa = from_bits((from_root & 0x000fffffffffffffull) + ROOT);
  double s = (mantissa - 1) / (mantissa + 1), square = s * s;
  const double series[] = {2.0 / 23, 2.0 / 21, 2.0 / 19, 2.0 / 17, 2.0 / 15, 2.0 / 13,
                           2.0 / 11, 2.0 / 9,  2.0 / 7,  2.0 / 5,  2.0 / 3};
  double count = (double)power;
  double tail = __builtin_fma(s * square, polynomial(square, series), count * LN2_LOW);
  return __builtin_fma(count, LN2_HIGH, __builtin_fma(2.0, s, tail));
}

double arc_tangent(double x) {
  if (is_nan(x)) return x;
  double t = magnitude(x), base = 0, sign = 1;
  if (t > 1) {
    t = 1 / t;
    base = PI / 2;
    sign = -1;
  }
  constexpr double EIGHTH = 0x1.a827999fcef32p-2, SIXTEENTH = 0x1.975f5e0553158p-3; // tan(pi/8), tan(pi/16)
  if (t > EIGHTH) {
    t = (t - 1) / (t + 1);
    base += sign * (PI / 4);
  }
  if (t > SIXTEENTH || t < -SIXTEENTH) {
    double side = t < 0 ? -1 : 1;
    t = (t - side * EIGHTH) / (1 + side * t * EIGHTH);
    base += sign * side * (PI / 8);
  }
  double square = t * t;
  const double series[] = {-1.0 / 23, 1.0 / 21, -1.0 / 19, 1.0 / 17, -1.0 / 15, 1.0 / 13,
                           -1.0 / 11, 1.0 / 9,  -1.0 / 7,  1.0 / 5,  -1.0 / 3};
  double angle = __builtin_fma(t * square, polynomial(square, series), t);
  return with_sign(base + sign * angle, x);
}

double arc_tangent(double y, double x) {
  if (is_nan(x) || is_nan(y)) return __builtin_nan("");
  double angle;
  if (magnitude(x) == INFINITE && magnitude(y) == INFINITE)
    angle = PI / 4;
  else if (y == 0)
    angle = 0;
  else if (x == 0)
    angle = PI / 2;
  else
    angle = arc_tangent(magnitude(y / x));
  return with_sign(is_negative(x) ? PI - angle : angle, y);
}

double power(double x, double y) {
  if (x == 1 || y == 0) return 1;
  if (is_nan(x) || is_nan(y)) return __builtin_nan("");
  bool whole = __builtin_rint(y) == y, odd = whole && magnitude(y) < 0x1p53 && ((int64_t)y & 1);
  double base = magnitude(x), sign = is_negative(x) && odd ? -1 : 1;
  if (magnitude(y) == INFINITE) {
    if (base == 1) return 1;
    return (base > 1) == (y > 0) ? INFINITE : 0;
  }
  if (base == 0) return y < 0 ? sign * INFINITE : sign * 0.0;
  if (base == INFINITE) return y < 0 ? sign * 0.0 : sign * INFINITE;
  if (x < 0 && !whole) return __builtin_nan("");
  return sign * exponential(y * logarithm(base));
}

double hyperbolic_sine(double x) {
  if (magnitude(x) < TINY) return x * (1 + x * x / 6);
  return (exponential(x) - exponential(-x)) / 2;
}

double area_sine(double x) {
  double t = magnitude(x);
  if (t < TINY) return x * (1 - x * x / 6);
  if (t > 1e150) return with_sign(logarithm(t) + LN2, x);
  return with_sign(logarithm(t + __builtin_sqrt(t * t + 1)), x);
}

double area_tangent(double x) {
  if (magnitude(x) < TINY) return x * (1 + x * x / 3);
  return logarithm((1 + x) / (1 - x)) / 2;
}

double area_cosine(double x) {
  if (x < 1) return __builtin_nan("");
  return x > 1e150 ? logarithm(x) + LN2 : logarithm(x + __builtin_sqrt((x - 1) * (x + 1)));
}

double exponential_less_one(double x) {
  return magnitude(x) < TINY ? x * (1 + x / 2 + x * x / 6) : exponential(x) - 1;
}

double logarithm_of_one_more(double x) {
  return magnitude(x) < TINY ? x * (1 - x / 2 + x * x / 3) : logarithm(1 + x);
}

} // namespace

HIPC_DEVICE_MATH float acosf(float x) { return (float)arc_tangent(__builtin_sqrt((1.0 - x) * (1.0 + x)), x); }
HIPC_DEVICE_MATH float asinf(float x) { return (float)arc_tangent((double)x, __builtin_sqrt((1.0 - x) * (1.0 + x))); }
HIPC_DEVICE_MATH float atanf(float x) { return (float)arc_tangent((double)x); }
HIPC_DEVICE_MATH float atan2f(float y, float x) { return (float)arc_tangent((double)y, (double)x); }
HIPC_DEVICE_MATH float acoshf(float x) { return (float)area_cosine(x); }
HIPC_DEVICE_MATH float asinhf(float x) { return (float)area_sine(x); }
HIPC_DEVICE_MATH float atanhf(float x) { return (float)area_tangent(x); }
HIPC_DEVICE_MATH float coshf(float x) { return (float)((exponential(x) + exponential(-(double)x)) / 2); }
HIPC_DEVICE_MATH float sinhf(float x) { return (float)hyperbolic_sine(x); }
HIPC_DEVICE_MATH float expf(float x) { return (float)exponential(x); }
HIPC_DEVICE_MATH float exp2f(float x) { return (float)exponential(x * LN2); }
HIPC_DEVICE_MATH float expm1f(float x) { return (float)exponential_less_one(x); }
HIPC_DEVICE_MATH float logf(float x) { return (float)logarithm(x); }
HIPC_DEVICE_MATH float log1pf(float x) { return (float)logarithm_of_one_more(x); }
HIPC_DEVICE_MATH float log2f(float x) { return (float)(logarithm(x) / LN2); }
HIPC_DEVICE_MATH float log10f(float x) { return (float)(logarithm(x) / 0x1.26bb1bbb55516p+1); }
HIPC_DEVICE_MATH float powf(float x, float y) { return (float)power(x, y); }
HIPC_DEVICE_MATH float cbrtf(float x) {
  double t = magnitude(x);
  return t == 0 || t == INFINITE || is_nan(t) ? x : (float)with_sign(exponential(logarithm(t) / 3), x);
}

// In double: at most a few units in the last place.
HIPC_DEVICE_MATH double exp(double x) { return exponential(x); }
HIPC_DEVICE_MATH double log(double x) { return logarithm(x); }
HIPC_DEVICE_MATH double atan(double x) { return arc_tangent(x); }

// The value of the lane whose number differs in the bits of `mask`, within groups of 32. All of them take part.
extern "C" __attribute__((convergent, nothrow, always_inline)) int hipc_lane_beside(int value, int mask) {
#if defined(__AMDGCN__)
  int lane = (int)__builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u));
  return __builtin_amdgcn_ds_bpermute((lane ^ mask) << 2, value);
#else
  int found;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(found) : "r"(value), "r"(mask));
  return found;
#endif
}
