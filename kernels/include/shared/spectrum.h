// Arguments of the kernels of discrete Fourier transforms.
#pragma once
#include "arguments.h"

namespace hipc {

// [outer][in][inner][in_parts] to [outer][out][inner][out_parts]: transforms of `length`; inputs beyond `in` are zero.
struct Dft {
  i64 outer, in, out, inner, length;
  i32 in_parts, out_parts, inverse, onesided;
};

} // namespace hipc
