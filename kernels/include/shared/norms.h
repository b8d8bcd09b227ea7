// Scale and bias of rows that are normalised.
#pragma once
#include "arguments.h"

namespace hipc {

// Where there are any: `length` numbers each, or those of a broadcast: element i is at i / inner % extent.
struct NormParameters {
  const void *scale, *bias;
  i32 scale_dtype, bias_dtype;
  i64 scale_inner, scale_extent, bias_inner, bias_extent;
};

} // namespace hipc
