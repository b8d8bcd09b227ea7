// The argument of attention_step.hip, as the runtime fills it in.
#pragma once

namespace hipc {

struct AttentionStep {
  const void *q, *k, *v;           // of the new position, [batch][heads * size] in rows that lie strides apart
  long long q_stride, k_stride, v_stride;
  const void *cos, *sin;           // [rows][half]
  const long long *positions;      // per batch entry; NULL: the place in the cache
  void *k_cache, *v_cache, *y;     // [batch][kv_heads][capacity][size]; y: [batch][q_heads * size]
  const int *past, *valid;         // places of the new position, and numbers of keys that count
  const void *sink;
  int *fault;
  float *joined;                   // [batch * q_heads][parts][size + 2]: sums, greatest score, sum of weights
  unsigned *counters;              // [batch * q_heads], zeros
  long long rows, capacity;
  int table_dtype, half, interleaved, one_past, one_valid, sink_dtype, smooth;
  int q_heads, kv_heads, group, window;
  int parts, few;                  // most blocks that share the keys of a row; chunks that one takes before it shares
  float scale;                     // of scores, times log2(e)
};

} // namespace hipc
