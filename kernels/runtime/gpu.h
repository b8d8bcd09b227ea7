// What operator implementations of the GPU targets share: launches, scratch, and the few facts of the device.
// Tensors hold device memory: host code sees contents through hipc_read (which waits) or host_constant alone.
#pragma once
#include <stdio.h>

#include "hipc_ops.h"

namespace hipc {

// Extents of a launch, in blocks and in threads, and bytes of dynamic LDS.
struct Launch {
  uint32_t grid[3] = {1, 1, 1};
  uint32_t block[3] = {1, 1, 1};
  uint32_t shared = 0;
};

// ---- facts of the device ----------------------------------------------------------------------------------------
int32_t wave_size(hipc_context *context);      // lanes of a wave: 32 or 64
int32_t compute_units(hipc_context *context);
int32_t lds_bytes(hipc_context *context);      // LDS that one block may have

// ---- memory -----------------------------------------------------------------------------------------------------
// Device memory that lives until the operator returns, 256-byte aligned: one block per call of the operator, kept between
// runs. NULL when memory ran out (the error is kept). Kernels of this operator that were launched may still use it.
void *device_scratch(hipc_context *context, int64_t bytes);
// As device_scratch, another block: weights of an operator that computes with them unpacked.
void *device_unpacked(hipc_context *context, int64_t bytes);
// Host address of what lies at an address of constants.bin on the device; NULL: it is no constant.
const void *host_constant(hipc_context *context, const void *device);
// Host view of `bytes` at a device address: the constant's, or else a copy in `buffer` after a wait. NULL: it failed.
inline const void *host_view(hipc_context *context, const void *device, void *buffer, int64_t bytes) {
  if (const void *constant = host_constant(context, device)) return constant;
  return hipc_read(context, buffer, device, bytes) == HIPC_OK ? buffer : nullptr;
}
// One whole number that an operand holds; it may be a constant, else it is waited for.
inline int32_t read_number(hipc_context *context, const char *op, const char *what, const hipc_tensor *tensor, int64_t *number) {
  if (elements(tensor) != 1 || (tensor->dtype != I32 && tensor->dtype != I64))
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: %s is not one whole number", op, what);
  int64_t buffer = 0;
  const void *value = host_view(context, tensor->data, &buffer, element_size(tensor->dtype));
  if (!value) return HIPC_ERROR_INTERNAL;
  *number = tensor->dtype == I64 ? *(const int64_t *)value : (int64_t)*(const int32_t *)value;
  return HIPC_OK;
}
// A word that kernels set when a number among their inputs points outside of a tensor; they leave memory alone then. The
// host looks at it when the run has ended, and the run fails. NULL: there is no memory (the error is kept).
enum Fault : int32_t { FAULT_NONE = 0, FAULT_POSITION = 1, FAULT_INDEX = 2 };
int32_t *device_fault(hipc_context *context);
// Numbers on the device by which blocks of a launch tell who comes last: zeros, which kernels leave zeros. NULL: there is
// no memory (the error is kept).
constexpr int64_t MOST_COUNTERS = 16384;
uint32_t *device_counters(hipc_context *context);
// In the order of the stream: every byte becomes `byte`.
int32_t device_fill(hipc_context *context, void *device, uint8_t byte, int64_t bytes);

// ---- names ------------------------------------------------------------------------------------------------------
// The word that names of kernels end with; "" for a type that no kernel holds.
inline const char *dtype_word(int32_t dtype) {
  switch (dtype) {
  case F32: return "f32";
  case F16: return "f16";
  case BF16: return "bf16";
  case F64: return "f64";
  case I8: return "i8";
  case U8: return "u8";
  case I16: return "i16";
  case U16: return "u16";
  case I32: return "i32";
  case U32: return "u32";
  case I64: return "i64";
  case U64: return "u64";
  case BOOL: return "b1";
  default: return "";
  }
}
inline bool is_number(int32_t dtype) { return dtype != BOOL && *dtype_word(dtype); }

// Name of a kernel, put together from words: every launch of a run makes one.
struct KernelName {
  char text[96];
  int32_t length = 0;
  KernelName(const char *family = "") { text[0] = 0, append(family); }
  KernelName &append(const char *word) {
    while (*word && length + 1 < (int32_t)sizeof text) text[length++] = *word++;
    text[length] = 0;
    return *this;
  }
  KernelName &append(int64_t number) {
    char digits[24];
    int32_t at = sizeof digits - 1;
    digits[at] = 0;
    for (uint64_t rest = (uint64_t)number; at > 0 && (rest || !digits[at]); rest /= 10) digits[--at] = (char)('0' + rest % 10);
    return append(digits + at);
  }
  operator const char *() const { return text; }
};
// kernel_name("softmax", F16) is "softmax_f16".
inline KernelName kernel_name(KernelName family, int32_t dtype) { return family.append("_").append(dtype_word(dtype)); }
// For kernels that move elements of `bytes` bytes: kernel_name_of_size("gather", 4) is "gather_b4".
inline KernelName kernel_name_of_size(const char *family, int64_t bytes) {
  return KernelName(family).append("_b").append(bytes);
}

// ---- launches ---------------------------------------------------------------------------------------------------
// A launch of `threads`-wide blocks for kernels that walk `count` elements with the stride of their grid: no more blocks
// than keep the device busy.
inline Launch over(hipc_context *context, int64_t count, uint32_t threads = 256) {
  int64_t blocks = min(ceil_div(count, (int64_t)threads), (int64_t)compute_units(context) * 32);
  Launch launch;
  launch.grid[0] = (uint32_t)max<int64_t>(blocks, 1);
  launch.block[0] = threads;
  return launch;
}
// Of blocks that walk tasks with the stride of their grid.
constexpr int64_t MOST_BLOCKS = 1 << 20;
// One block per row.
inline Launch rows(int64_t count, uint32_t threads = 256) {
  Launch launch;
  launch.grid[0] = (uint32_t)min<int64_t>(count, 0x7fffffff);
  launch.block[0] = threads;
  return launch;
}

// Launches a kernel of the library code object with `bytes` of arguments, laid out as the kernel's parameters are.
int32_t launch_packed(hipc_context *context, const char *kernel, const Launch &launch, const void *arguments,
                      int64_t bytes);

// Whether the library code object of the device has the kernel.
bool has_kernel(hipc_context *context, const char *kernel);

template <class T> HIPC_INLINE void pack_argument(char *arguments, int64_t *at, T value) {
  static_assert(__is_trivially_copyable(T), "arguments cross by value");
  *at = round_up(*at, (int64_t)alignof(T));
  memcpy(arguments + *at, &value, sizeof value);
  *at += (int64_t)sizeof value;
}

// Launches a kernel of the library code object, found by name, on the stream of the run. The arguments' types must be the
// kernel's parameter types: pointers, and numbers of the same width. A launch without blocks does nothing.
template <class... A>
int32_t launch(hipc_context *context, const char *kernel, const Launch &launch, A... arguments) {
  alignas(16) char packed[(0 + ... + (sizeof(A) + alignof(A))) + 1] = {};
  int64_t bytes = 0;
  (pack_argument(packed, &bytes, arguments), ...);
  return launch_packed(context, kernel, launch, packed, bytes);
}

} // namespace hipc
