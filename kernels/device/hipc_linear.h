// What the kernels of linear share: elements of 16 bytes of weights.
#pragma once
#include "hipc_math.h"

namespace hipc {

typedef f16 f16x2 __attribute__((ext_vector_type(2)));

// Element i of 16 bytes.
template <class T> DEVICE f32 element_of(u32x4 raw, int i) {
  if constexpr (same<T, f32>::value) return bit_cast<f32>(raw[i]);
  else if constexpr (same<T, bf16>::value) return bit_cast<f32>(i % 2 ? raw[i / 2] & 0xffff0000u : raw[i / 2] << 16);
  else return (f32)bit_cast<f16x2>(raw[i / 2])[i % 2];
}

} // namespace hipc
