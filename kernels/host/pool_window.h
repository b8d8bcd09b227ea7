// A pooling window in normal form, shared by the pooling operators of the host and of GPUs.
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

inline int32_t window_extent(hipc_context *context, const char *op, const char *what, int64_t found, int64_t expected) {
  return hipc_error(context, HIPC_ERROR_SHAPE, "%s: %s is %lld, expected %lld", op, what, (long long)found,
                    (long long)expected);
}

inline int32_t read_window(hipc_context *context, const char *op, const hipc_tensor *x, const hipc_tensor *y,
                          const WindowAttributes &a, Window &window) {
  int32_t spatial = x->rank - 2;
  if (spatial < 1 || spatial > 3)
    return hipc_error(context, HIPC_ERROR_UNSUPPORTED, "%s with %d spatial dimensions; 1 to 3 are supported", op, spatial);
  if (y->rank != x->rank || a.num_kernel != spatial || a.num_strides != spatial || a.num_dilations != spatial ||
      a.num_pads != 2 * spatial)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: the rank of y and the attributes do not fit x of rank %d", op, x->rank);
  if (y->dtype != x->dtype)
    return hipc_error(context, HIPC_ERROR_UNSUPPORTED, "%s of %s to %s", op, dtype_name(x->dtype), dtype_name(y->dtype));
  for (int32_t i = 0; i < 2; i++)
    if (y->shape[i] != x->shape[i]) return window_extent(context, op, "an outer extent of y", y->shape[i], x->shape[i]);
  for (int axis = 0; axis < 3; axis++) {
    window.in[axis] = window.out[axis] = window.kernel[axis] = window.strides[axis] = window.dilations[axis] = 1;
    window.before[axis] = window.after[axis] = 0;
  }
  for (int32_t i = 0; i < spatial; i++) {
    int axis = 3 - spatial + i;
    window.in[axis] = x->shape[2 + i], window.out[axis] = y->shape[2 + i];
    window.kernel[axis] = a.kernel[i], window.strides[axis] = a.strides[i], window.dilations[axis] = a.dilations[i];
    window.before[axis] = a.pads[i], window.after[axis] = a.pads[spatial + i];
    if (a.kernel[i] < 1 || a.strides[i] < 1 || a.dilations[i] < 1)
      return hipc_error(context, HIPC_ERROR_VALUE, "%s: kernel, strides and dilations must be positive", op);
    int64_t padded = window.in[axis] + a.pads[i] + a.pads[spatial + i];
    int64_t room = padded - (a.kernel[i] - 1) * a.dilations[i] - 1;
    // With ceil_mode the last window must still start inside the input or the padding before it.
    int64_t expected = room < 0 ? 0
                       : a.ceil_mode ? min(ceil_div(room, a.strides[i]) + 1, ceil_div(window.in[axis] + a.pads[i], a.strides[i]))
                                     : room / a.strides[i] + 1;
    if (window.out[axis] != expected) return window_extent(context, op, "a spatial extent of y", window.out[axis], expected);
  }
  window.planes = extent(x, 0, 2), window.in_size = extent(x, 2, x->rank);
  return HIPC_OK;
}

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
