// Arguments of the kernels of attention and of what fills its caches.
#pragma once
#include "arguments.h"

namespace hipc {

// Vectors of one head by batch entry, head and position; strides count elements.
struct HeadsArgument {
  void *data;
  i64 first, batch_stride, head_stride, position_stride;
};
// Added to the scores, or, of single bytes, a mask whose zeros hide keys.
struct BiasArgument {
  const void *data;
  i32 dtype;
  i64 strides[4];
};
struct LengthsArgument {
  const i32 *data;
  i32 one;
  i64 otherwise;
};
struct AttentionArguments {
  HeadsArgument q, k, v, y;
  BiasArgument bias;
  LengthsArgument past, valid;
  const void *sink;
  i32 sink_dtype, q_heads, kv_heads, group, positions, size, v_size, window, causal, smooth;
  f32 scale, softcap;
  i32 lanes, splits;    // lanes of a key; parts that the keys are split into
  i32 rows, q_aligned, k_aligned, v_aligned, y_aligned;
  i64 capacity;
  f32 *parts;           // sums [row][v_size] of each part, then greatest and total [row][2]
  i32 *fault;
};

// All of a decoder layer's attention for one new position of every batch entry.
struct AttentionStep {
  const void *q, *k, *v;           // of the new position, [batch][heads * size] in rows that lie strides apart
  i64 q_stride, k_stride, v_stride;
  const void *cos, *sin;           // [rows][half]
  const i64 *positions;            // per batch entry; NULL: the place in the cache
  void *k_cache, *v_cache, *y;     // [batch][kv_heads][capacity][size]; y: [batch][q_heads * size]
  const i32 *past, *valid;         // places of the new position, and numbers of keys that count
  const void *sink;
  i32 *fault;
  f32 *joined;                     // [batch * q_heads][parts][size + 2]: sums, greatest score, sum of weights
  u32 *counters;                   // [batch * q_heads], zeros
  i64 rows, capacity;
  i32 table_dtype, half, interleaved, one_past, one_valid, sink_dtype, smooth;
  i32 q_heads, kv_heads, group, window;
  i32 parts, few;                  // most blocks that share the keys of a row; chunks that one takes before it shares
  f32 scale;                       // of scores, times log2(e)
};

// New queries, keys or values: rows of [batch, position] begin `stride` elements apart, the heads `first` elements into them.
struct PackedArgument {
  const void *data;
  i64 stride, first;
};
struct Rotation {
  const void *cos, *sin;
  const i64 *positions;  // per batch entry and position, or NULL: they follow what the cache holds
  i32 table_dtype, half, interleaved;
  i64 rows;
};
struct CacheArgument {
  void *k, *v;
  const i32 *lengths;
  i32 one_length;
  i64 capacity;
};

} // namespace hipc
