// How kernels count, number and keep elements that are set, in their order: shared by nonzero, compress and unique.
#pragma once
#include "arguments.h"

namespace hipc {

// Elements that one block looks at: its threads each look at neighbours.
constexpr i64 CHUNK_THREADS = 256, CHUNK_EACH = 16, CHUNK = CHUNK_THREADS * CHUNK_EACH;

// Elements that a block of 256 sorts, and merges, at once.
constexpr i64 SORT_RUN = 1024;

// Keys of elements and where the elements are; there, sorted by both.
struct SortedKeys {
  u64 *keys;
  u32 *positions;
};

// A tensor as [outer][length][inner] whose slices along the middle are compared.
struct SliceRows {
  i64 outer, length, inner;
};

} // namespace hipc
