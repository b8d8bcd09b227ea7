// A convolution in normal form, shared by its implementations.
#pragma once
#include "gemm.h"

namespace hipc {

// Spatial extents are padded in front to three: depth, height, width.
struct Conv {
  const hipc_tensor *x, *w, *bias, *residual;
  hipc_tensor *y;
  int64_t images, groups, channels, filters;  // channels and filters of one group
  int64_t in[3], out[3], kernel[3], strides[3], dilations[3], pads[3];  // pads: those before the first element
  int64_t in_size, out_size, taps;  // elements of a plane of x and of y, and of a kernel
  Activation activation;
  double activation_alpha, activation_beta;

  // Position in the input of output `o` under tap `k` of spatial axis `axis`; may lie outside.
  int64_t source(int axis, int64_t o, int64_t k) const {
    return o * strides[axis] + k * dilations[axis] - pads[axis];
  }
};

// The product that gives the planes of one group of one image, without its operands.
Product conv_product(const Conv &conv, int64_t image, int64_t group);

// One channel per group.
int32_t conv_depthwise(hipc_context *context, const Conv &conv);
// float32, kernels of 3 x 3 that are given as their points, [36, filters, channels and padding].
int32_t conv_winograd(hipc_context *context, const Conv &conv);
// float64, by plain loops.
int32_t conv_plain(hipc_context *context, const Conv &conv);

} // namespace hipc
