// Arguments of the kernels of matrix products.
#pragma once
#include "arguments.h"

namespace hipc {

// What a product ends with: y = activation(alpha * product + bias) + residual. `first` and `second` are the slope of
// leaky_relu, slope and offset of hard_sigmoid, bounds of clip.
struct ProductEnd {
  const void *bias;      // one number per column, or NULL
  const void *residual;  // like y, or NULL
  f32 alpha, first, second;
  i32 activation;
};

// norm(x) w' and, where `up` is there, its gated form; w and up are [n, k] of x's type.
struct LinearArguments {
  const void *x, *norm, *weight, *up;
  void *y;
  ProductEnd end;
  i32 n, k, chunk;  // chunk: elements of K in LDS at a time, all of K or a multiple of 4 * WAVE * V
  f32 epsilon;
};
// The same for one row of f16 and weights of 4 bits, [n, blocks, 16 bytes] with a scale for each block of 32.
struct QuantizedLinearArguments {
  const void *x, *norm, *weight, *up, *scales, *up_scales;
  void *y;
  ProductEnd end;
  i32 n, blocks;
  f32 epsilon;
};

// Weights of few bits as the model stores them. Types are ONNX's; that of zero points is u8 (2) when they are packed.
struct QuantizedWeights {
  const u8 *bytes;
  const void *scales, *zeros;
  i64 n, k, block, blocks;
  i32 scale_dtype, zero_dtype;
};

} // namespace hipc
