// Extents and strides of a tensor by value, as kernels take them.
#pragma once
#include "arguments.h"

namespace hipc {

struct Space {
  i64 shape[8];
  i64 strides[8];
  i32 rank;
};

} // namespace hipc
