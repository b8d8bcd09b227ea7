// Elements as unsigned numbers in the same order: NaNs are equal to each other and above everything, zeros are equal.
// Types are ONNX's.
#pragma once
#include "hipc_device.h"

namespace hipc {

DEVICE u32 ordered(f32 x) {
  if (x != x) return ~0u;
  u32 bits = x == 0 ? 0 : bit_cast<u32>(x);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}
DEVICE u64 ordered(f64 x) {
  if (x != x) return ~0ull;
  u64 bits = x == 0 ? 0 : bit_cast<u64>(x);
  return bits >> 63 ? ~bits : bits | 1ull << 63;
}

// Of an element of at most 32 bits.
DEVICE u32 narrow_key(const void *x, i32 dtype, i64 at) {
  switch (dtype) {
  case 1: return ordered(((const f32 *)x)[at]);
  case 10: return ordered((f32)((const f16 *)x)[at]);
  case 16: return ordered((f32)((const bf16 *)x)[at]);
  case 2: return ((const u8 *)x)[at];
  case 3: return (u32)((const i8 *)x)[at] ^ 0x80000000u;
  case 4: return ((const u16 *)x)[at];
  case 5: return (u32)((const i16 *)x)[at] ^ 0x80000000u;
  case 6: return ((const u32 *)x)[at] ^ 0x80000000u;
  default: return ((const u32 *)x)[at];
  }
}
// Of one of 64 bits.
DEVICE u64 wide_key(const void *x, i32 dtype, i64 at) {
  switch (dtype) {
  case 11: return ordered(((const f64 *)x)[at]);
  case 7: return ((const u64 *)x)[at] ^ 1ull << 63;
  default: return ((const u64 *)x)[at];
  }
}

} // namespace hipc
