// Conversions to and from the 16-bit floats, which the code generator calls by these names where the CPU has no
// instruction for them. Elsewhere they come with the compiler's own library, which no process is sure to have loaded.
// They work on bits alone: a conversion written as a cast would call itself.
#include "hipc_host.h"

#ifdef __x86_64__
namespace {

// Rounds the bits of a wide binary float to a narrow one, to nearest, ties to even (IEEE 754-2019, 4.3.1). A NaN stays
// one, quiet, with the leading bits of its payload.
template <class Wide, int WIDE_EXPONENT, int WIDE_MANTISSA, int EXPONENT, int MANTISSA> uint16_t narrow(Wide bits) {
  constexpr int WIDE_MAX = (1 << WIDE_EXPONENT) - 1, MAX = (1 << EXPONENT) - 1;
  constexpr int REBIAS = (1 << (WIDE_EXPONENT - 1)) - (1 << (EXPONENT - 1));
  constexpr int DROPPED = WIDE_MANTISSA - MANTISSA;
  constexpr Wide ONE = (Wide)1 << WIDE_MANTISSA;
  uint32_t sign = (uint32_t)(bits >> (WIDE_EXPONENT + WIDE_MANTISSA)) << (EXPONENT + MANTISSA);
  int wide_exponent = (int)(bits >> WIDE_MANTISSA) & WIDE_MAX;
  Wide mantissa = bits & (ONE - 1);
  if (wide_exponent == WIDE_MAX) {
    uint32_t payload = mantissa ? (uint32_t)(mantissa >> DROPPED) | 1u << (MANTISSA - 1) : 0u;
    return (uint16_t)(sign | (uint32_t)MAX << MANTISSA | payload);
  }
  // Denormals of the wide format have the exponent of its smallest normals, and no leading one.
  int exponent = (wide_exponent ? wide_exponent : 1) - REBIAS;
  if (wide_exponent) mantissa |= ONE;
  if (exponent >= MAX) return (uint16_t)(sign | (uint32_t)MAX << MANTISSA);
  // Below the smallest normal of the narrow format, bits move out to the right instead.
  int shift = exponent < 1 ? DROPPED + 1 - exponent : DROPPED;
  if (shift > WIDE_MANTISSA + 1) return (uint16_t)sign;
  uint32_t base = exponent < 1 ? 0 : (uint32_t)(exponent - 1) << MANTISSA;
  Wide half = (Wide)1 << (shift - 1), rest = mantissa & ((half << 1) - 1);
  uint32_t kept = (uint32_t)(mantissa >> shift);
  kept += rest > half || (rest == half && (kept & 1));
  // The leading one, and a carry out of the mantissa, add to the exponent, up to infinity.
  return (uint16_t)(sign | (base + kept));
}

uint32_t widen(uint16_t half) {
  uint32_t sign = (uint32_t)(half >> 15) << 31, exponent = half >> 10 & 31, mantissa = half & 1023;
  if (exponent == 31) return sign | 255u << 23 | mantissa << 13 | (mantissa ? 1u << 22 : 0u);
  if (exponent) return sign | (exponent + 112) << 23 | mantissa << 13;
  return sign | __builtin_bit_cast(uint32_t, (float)mantissa * 0x1p-24f);
}

} // namespace

HIPC_EXPORT _Float16 __truncsfhf2(float value) {
  return __builtin_bit_cast(_Float16, narrow<uint32_t, 8, 23, 5, 10>(__builtin_bit_cast(uint32_t, value)));
}

HIPC_EXPORT _Float16 __truncdfhf2(double value) {
  return __builtin_bit_cast(_Float16, narrow<uint64_t, 11, 52, 5, 10>(__builtin_bit_cast(uint64_t, value)));
}

HIPC_EXPORT __bf16 __truncsfbf2(float value) {
  return __builtin_bit_cast(__bf16, narrow<uint32_t, 8, 23, 8, 7>(__builtin_bit_cast(uint32_t, value)));
}

HIPC_EXPORT __bf16 __truncdfbf2(double value) {
  return __builtin_bit_cast(__bf16, narrow<uint64_t, 11, 52, 8, 7>(__builtin_bit_cast(uint64_t, value)));
}

HIPC_EXPORT float __extendhfsf2(_Float16 value) {
  return __builtin_bit_cast(float, widen(__builtin_bit_cast(uint16_t, value)));
}
#endif
