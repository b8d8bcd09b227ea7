// A table of few bits, [rows][columns], lowest bits first in every byte; scales and zero points are [rows][blocks].
#pragma once
#include "arguments.h"

namespace hipc {

struct QuantizedTable {
  const u8 *bytes, *zeros;
  i64 entries, inner, columns, block, blocks;
  i32 bits, default_zero, is_signed, wide;
};

} // namespace hipc
