// The words in which code is written that is compiled for hosts and for devices alike: numbers, and functions of them.
// What is computed per element lies in this folder once; how elements are walked is each side's own.
#pragma once

#if defined(__AMDGCN__) || defined(__NVPTX__)
#include "hipc_math.h"
#define HIPC_SHARED inline __attribute__((device, always_inline))
#else
#include "arguments.h"
#include "hipc_ops.h"
#define HIPC_SHARED HIPC_INLINE

namespace hipc {

template <class T> constexpr bool is_float = TypeInfo<T>::is_float;
HIPC_INLINE float abs_of(float x) { return __builtin_fabsf(x); }
HIPC_INLINE double abs_of(double x) { return __builtin_fabs(x); }
HIPC_INLINE float floor_of(float x) { return __builtin_floorf(x); }
HIPC_INLINE double floor_of(double x) { return __builtin_floor(x); }

} // namespace hipc
#endif

namespace hipc {

HIPC_SHARED f32 ceil_of(f32 x) { return __builtin_ceilf(x); }
HIPC_SHARED f64 ceil_of(f64 x) { return __builtin_ceil(x); }
HIPC_SHARED f32 trunc_of(f32 x) { return __builtin_truncf(x); }
HIPC_SHARED f64 trunc_of(f64 x) { return __builtin_trunc(x); }
// To the nearest whole number, halves to the even one.
HIPC_SHARED f32 nearest_of(f32 x) { return __builtin_rintf(x); }
HIPC_SHARED f64 nearest_of(f64 x) { return __builtin_rint(x); }

} // namespace hipc
