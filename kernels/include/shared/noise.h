// Random numbers: the bits of an element are a mix of the seed and its position, so a result depends neither on the
// number of threads nor on the target.
#pragma once
#include "vocabulary.h"

namespace hipc {

// The finaliser of the splitmix64 generator (Steele, Lea, Flood 2014) over a Weyl sequence.
HIPC_SHARED u64 mixed(u64 value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
  return value ^ (value >> 31);
}

HIPC_SHARED u64 bits_at(i64 seed, i64 position) {
  return mixed(mixed((u64)seed + 0x9e3779b97f4a7c15ull) + (u64)(position + 1) * 0x9e3779b97f4a7c15ull);
}

// In [0, 1), with 53 random bits.
HIPC_SHARED f64 uniform_at(i64 seed, i64 position) { return (f64)(bits_at(seed, position) >> 11) * 0x1p-53; }

// The cosine of 2 pi `turns`, for turns in [0, 1): folded into an eighth of a turn, then a Taylor series.
HIPC_SHARED f64 cosine_of_turns(f64 turns) {
  // Symmetric about a half; then the angle from the nearest multiple of a quarter, exact in every step.
  f64 t = turns > 0.5 ? 1 - turns : turns;
  bool sine = t > 0.125 && t < 0.375;
  f64 rest = t <= 0.125 ? t : sine ? 0.25 - t : 0.5 - t;
  f64 x = rest * 6.28318530717958647692, square = x * x, sum = 0;
  if (sine) {
    const f64 series[] = {-1.0 / 1307674368000, 1.0 / 6227020800, -1.0 / 39916800, 1.0 / 362880, -1.0 / 5040, 1.0 / 120, -1.0 / 6};
    for (f64 c : series) sum = sum * square + c;
    return x + x * square * sum;
  }
  const f64 series[] = {1.0 / 20922789888000, -1.0 / 87178291200, 1.0 / 479001600, -1.0 / 3628800, 1.0 / 40320, -1.0 / 720,
                        1.0 / 24, -0.5};
  for (f64 c : series) sum = sum * square + c;
  f64 cosine = 1 + square * sum;
  return t >= 0.375 ? -cosine : cosine;
}

// Box-Muller: the radius needs a number above zero.
HIPC_SHARED f64 normal_at(i64 seed, i64 position) {
  f64 u = 1 - uniform_at(seed, 2 * position), v = uniform_at(seed, 2 * position + 1);
  return sqrt_of(-2 * log_of(u)) * cosine_of_turns(v);
}

// The first class whose running sum exceeds the number; the last one, should rounding leave none.
HIPC_SHARED i64 drawn_class(const f64 *running, i64 classes, f64 wanted) {
  i64 low = 0, high = classes - 1;
  while (low < high) {
    i64 middle = (low + high) / 2;
    if (running[middle] > wanted) high = middle;
    else low = middle + 1;
  }
  return low;
}

} // namespace hipc
