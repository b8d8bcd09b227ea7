// Elements of floating-point types that are known when a kernel runs; `dtype` is ONNX's number. The choice is the same for
// all threads, so it costs one branch.
#pragma once
#include "hipc_device.h"

namespace hipc {

enum FloatType : i32 { TYPE_F32 = 1, TYPE_F16 = 10, TYPE_F64 = 11, TYPE_BF16 = 16 };

DEVICE f32 mixed_at(const void *from, i32 dtype, i64 at) {
  switch (dtype) {
  case TYPE_F16: return (f32)((const f16 *)from)[at];
  case TYPE_BF16: return (f32)((const bf16 *)from)[at];
  default: return ((const f32 *)from)[at];
  }
}
// COUNT of them, where vectors of them are aligned.
template <class T, int COUNT> DEVICE Vector<f32, COUNT> widened_vector(const void *from, i64 at) {
  constexpr int PART = COUNT < LANE_VECTOR<T> ? COUNT : LANE_VECTOR<T>;
  Vector<f32, COUNT> all;
  UNROLL for (int i = 0; i < COUNT; i += PART) {
    auto part = load<T, PART>((const T *)from + at + i);
    UNROLL for (int j = 0; j < PART; j++) all[i + j] = widen(part[j]);
  }
  return all;
}
template <int COUNT> DEVICE Vector<f32, COUNT> mixed_vector(const void *from, i32 dtype, i64 at) {
  switch (dtype) {
  case TYPE_F16: return widened_vector<f16, COUNT>(from, at);
  case TYPE_BF16: return widened_vector<bf16, COUNT>(from, at);
  default: return widened_vector<f32, COUNT>(from, at);
  }
}
// One, float64 too, as a number of the type that arithmetic uses.
template <class C> DEVICE C number_as(const void *from, i32 dtype, i64 at) {
  return dtype == TYPE_F64 ? (C)((const f64 *)from)[at] : (C)mixed_at(from, dtype, at);
}
DEVICE void put_mixed(void *to, i32 dtype, i64 at, f32 value) {
  switch (dtype) {
  case TYPE_F16: ((f16 *)to)[at] = (f16)value; break;
  case TYPE_BF16: ((bf16 *)to)[at] = narrow<bf16>(value); break;
  default: ((f32 *)to)[at] = value;
  }
}

} // namespace hipc
