// Arguments of the kernels that reduce, rank and scan. Element types are ONNX's numbers.
#pragma once
#include "arguments.h"
#include "space.h"

namespace hipc {

// How many blocks share an element of the result, each with a part of what it is made of; the last one to end joins them.
struct Sharing {
  void *parts;    // `blocks` for every element
  u32 *counters;  // one for every element
  i32 blocks;
};

// y[at] from the `size` elements of x at the offset `kept` has for it.
struct Reduction {
  const void *x;
  void *y;
  Space kept, axes;
  i64 count, size;
  Sharing sharing;
  i32 kind;
};

// Positions of the greatest (or least) along the middle of [outer][length][inner].
struct ArgReduction {
  const void *x;
  i64 *y;
  i64 columns, length, inner;
  Sharing sharing;
  i32 greatest, last;
};

// Running sums or products along the middle of [outer][length][inner], by pieces: one that is not the first begins with what
// `before` has for it.
struct Scan {
  const void *x;
  void *y;
  const void *before;
  i64 columns, length, inner, pieces, piece;
  i32 product, exclusive, reverse;
};

// The k first of the middle of [outer][length][inner]. Elements become entries that are greater the earlier they come; runs of
// entries, in order, of `taken` each, lie in `from` and are merged to runs of `kept` in `to`. Without `to` it is the result.
struct TopK {
  const void *x;
  void *values;
  i64 *indices;
  const void *from;
  void *to;
  i64 columns, length, inner, k, runs, taken, kept;
  i32 dtype, size, largest, width;
};
constexpr i64 RUN = 1024, MERGED_RUNS = 16;  // elements of a first run at most, and runs that one pass makes one of

} // namespace hipc
