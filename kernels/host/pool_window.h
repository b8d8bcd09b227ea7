// A pooling window in normal form, shared by the pooling operators.
#pragma once
#include "hipc_host.h"

namespace hipc {

enum PoolMode : int64_t { POOL_MAX, POOL_AVERAGE, POOL_LP };

// Spatial extents are padded in front to three: depth, height, width.
struct Window {
  int64_t planes;
  int64_t in[3], out[3], kernel[3], strides[3], dilations[3], before[3], after[3];
  int64_t in_size;

  // Taps [first, last) of axis whose position for output `o` lies in [low, high).
  struct Range {
    int64_t first, last;
  };
  Range taps(int axis, int64_t o, int64_t low, int64_t high) const {
    int64_t start = o * strides[axis] - before[axis], step = dilations[axis];
    int64_t first = max<int64_t>(ceil_div(low - start, step), 0), last = min(ceil_div(high - start, step), kernel[axis]);
    return {first, max(first, last)};
  }
  // Outputs [first, last) along the width whose tap `k` lies inside the input.
  Range outputs(int64_t k) const {
    int64_t shift = k * dilations[2] - before[2];
    int64_t first = max<int64_t>(ceil_div(-shift, strides[2]), 0), last = min(ceil_div(in[2] - shift, strides[2]), out[2]);
    return {first, max(first, last)};
  }
};

// Attributes of a window as they cross the ABI.
struct WindowAttributes {
  const int64_t *kernel, *strides, *pads, *dilations;
  int64_t num_kernel, num_strides, num_pads, num_dilations;
  bool ceil_mode;
};

int32_t read_window(hipc_context *context, const char *op, const hipc_tensor *x, const hipc_tensor *y,
                    const WindowAttributes &attributes, Window &window);

// Element type that a storage type stands for: compiled code does not tell signed integers from unsigned.
inline int32_t with_sign(int32_t dtype, bool is_unsigned) {
  if (!is_unsigned) return dtype;
  switch (dtype) {
  case I8: return U8;
  case I16: return U16;
  case I32: return U32;
  case I64: return U64;
  default: return dtype;
  }
}

// Whether a value replaces the largest one so far; NaN does, and stays.
template <class T> HIPC_INLINE bool exceeds(T value, T best) { return value > best || value != value; }

} // namespace hipc
