// Number types of structures that the runtime hands to kernels as they are. Both sides include one declaration; pointers
// are device memory.
#pragma once

#if defined(__AMDGCN__) || defined(__NVPTX__)
#include "hipc_device.h"
#define HIPC_METHOD __attribute__((device, always_inline))
#else
#include <stdint.h>
#define HIPC_METHOD inline

namespace hipc {
typedef int8_t i8;
typedef uint8_t u8;
typedef int32_t i32;
typedef uint32_t u32;
typedef int64_t i64;
typedef uint64_t u64;
typedef float f32;
typedef double f64;
} // namespace hipc
#endif
