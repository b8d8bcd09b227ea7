// A window that slides over up to three spatial axes (depth, height, width; missing ones have extent 1), and convolutions.
#pragma once
#include "arguments.h"

namespace hipc {

struct Window {
  i32 in[3], out[3], kernel[3], strides[3], dilations[3], before[3], after[3];

  // Position in the input of output `o` under tap `k`; it may lie outside.
  HIPC_METHOD i32 source(int axis, i32 o, i32 k) const { return o * strides[axis] + k * dilations[axis] - before[axis]; }
};

struct WindowedProduct {
  Window window;
  i32 groups, channels, filters;  // channels and filters of one group
  i32 images, in_size, out_size, taps;
};

} // namespace hipc
