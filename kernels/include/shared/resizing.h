// Arguments of the kernels of resizing.
#pragma once
#include "resize.h"

namespace hipc {

// Taps of every output position of an axis, in device memory: [out][count].
struct ResizeTable {
  i64 *source;
  f64 *weight;
  u8 *outside;
  i64 count;
};

// [outer][in][inner] to [outer][out][inner], in numbers of an ONNX element type.
struct ResizePass {
  const void *from;
  void *to;
  i64 outer, in, out, inner;
  f64 extrapolation;
  i32 from_dtype, to_dtype;
};

// Nearest: every axis of y with the table of its positions; axes that stay have none.
struct ResizeAxes {
  const i64 *source[8];
  const u8 *outside[8];
  i64 in[8], out[8];
  i32 rank;
};

} // namespace hipc
