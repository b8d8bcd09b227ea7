// One position of a decoder layer's attention in one launch: the new query and key are rotated, the new key and value
// go into their caches, and softmax(scale * q k') v over what the cache then holds. One query head a row of the grid.
//
// What limits it is not bytes but how many waits follow each other. Old keys are on their way while the new ones are
// rotated; the new ones are taken from LDS, not from the cache. Blocks share the keys of a long cache, those of a short
// one leave at once; the last block to end joins what the others found.
#include "hipc_attention.h"

using namespace hipc;

namespace {

constexpr i32 BLOCK = 256, V = 8;

// Combines the values of lanes whose numbers differ in the bits from FROM on.
template <u32 FROM, class Combine> DEVICE f32 across(f32 value, Combine combine) {
  if constexpr (FROM < WAVE) return across<FROM * 2>(combine(value, exchange<FROM>(value)), combine);
  else return value;
}
template <u32 FROM> DEVICE f32 sum_across(f32 value) {
  return across<FROM>(value, [](f32 a, f32 b) { return a + b; });
}
template <u32 FROM> DEVICE f32 max_across(f32 value) {
  return across<FROM>(value, [](f32 a, f32 b) { return a > b ? a : b; });
}

// 8 elements of a key or value.
template <class T> struct Eight { Vector<T, LANE_VECTOR<T>> at[V / LANE_VECTOR<T>]; };
template <class T> DEVICE Eight<T> eight_of(const T *from, bool there) {
  constexpr int STEP = LANE_VECTOR<T>;
  Eight<T> found = {};
  if (there) UNROLL for (int i = 0; i < V / STEP; i++) found.at[i] = load<T, STEP>(from + i * STEP);
  return found;
}
template <class T> DEVICE f32 element(const Eight<T> &part, int i) {
  return widen(part.at[i / LANE_VECTOR<T>][i % LANE_VECTOR<T>]);
}

// exp2(a - limit); scores here are in units of log2. None where nothing was seen.
DEVICE f32 weight_of(f32 score, f32 limit) { return score == NOTHING ? 0.0f : exp2_of(score - limit); }

// Grid: parts of the keys, query heads, batch. LANES lanes hold a key.
template <class T, int LANES, int AHEAD> DEVICE void attention_step(const AttentionStep &op) {
  constexpr i32 SIZE = LANES * V, WAVES = BLOCK / WAVE, GROUPS = BLOCK / LANES, CHUNK = GROUPS * AHEAD;
  SHARED f32 query[SIZE], new_key[SIZE], new_value[SIZE], sums[WAVES][SIZE], statistics[WAVES][2];
  SHARED u32 arrived;
  i32 part = block(), head = block_y(), b = block_z(), kv_head = head / op.group;
  i32 past = op.past[op.one_past ? 0 : b], valid = op.valid[op.one_valid ? 0 : b];
  // A place beyond the cache is a fault below.
  i32 end = max(min(min(past, valid), (i32)op.capacity), 0), begin = op.window > 0 ? min(max(past + 1 - op.window, 0), end) : 0;
  i32 chunks = (end - begin + CHUNK - 1) / CHUNK, used = max(min((chunks + op.few - 1) / op.few, op.parts), 1);
  if (part >= used) return;
  i64 cache = ((i64)b * op.kv_heads + kv_head) * op.capacity * SIZE;
  i32 group = (i32)thread() / LANES, at = (i32)thread() % LANES * V;
  const T *keys = (const T *)op.k_cache + cache + at, *values = (const T *)op.v_cache + cache + at;
  Eight<T> k[AHEAD], v[AHEAD];
  i32 chunk = part;
  auto fetch = [&]() {
    UNROLL for (int a = 0; a < AHEAD; a++) {
      i32 key = begin + chunk * CHUNK + a * GROUPS + group;
      k[a] = eight_of(keys + (i64)key * SIZE, key < end);
      v[a] = eight_of(values + (i64)key * SIZE, key < end);
    }
  };
  fetch();

  // The new position: pairs of q, pairs of k, elements of v.
  bool newest = part == 0, keeps = newest && head % op.group == 0;
  i64 angle = op.positions ? op.positions[b] : past;
  bool placed = past >= 0 && past < op.capacity;
  if (!placed || (op.half && (angle < 0 || angle >= op.rows))) {
    if (thread() == 0) *op.fault = 1;
    placed = false, angle = 0;
  }
  for (i32 item = (i32)thread(); item < (newest ? 2 * SIZE : SIZE / 2); item += BLOCK) {
    if (item >= SIZE) {
      i32 i = item - SIZE;
      T value = ((const T *)op.v)[b * op.v_stride + kv_head * SIZE + i];
      new_value[i] = widen(value);
      if (keeps && placed) ((T *)op.v_cache)[cache + (i64)past * SIZE + i] = value;
      continue;
    }
    bool is_key = item >= SIZE / 2;
    i32 pair = item % (SIZE / 2);
    // Behind the pairs that turn, neighbours make the others.
    bool turns = pair < op.half, apart = turns && !op.interleaved;
    i32 one = apart ? pair : 2 * pair, other = apart ? pair + op.half : one + 1;
    const T *from = is_key ? (const T *)op.k + b * op.k_stride + kv_head * SIZE : (const T *)op.q + b * op.q_stride + head * SIZE;
    T x = from[one], y = from[other];
    if (turns) {
      f32 c = mixed_at(op.cos, op.table_dtype, angle * op.half + pair), d = mixed_at(op.sin, op.table_dtype, angle * op.half + pair);
      f32 left = widen(x), right = widen(y);
      x = narrow<T>(left * c - right * d), y = narrow<T>(left * d + right * c);
    }
    if (!is_key) {
      query[one] = widen(x) * op.scale, query[other] = widen(y) * op.scale;
      continue;
    }
    new_key[one] = widen(x), new_key[other] = widen(y);
    if (keeps && placed) {
      T *to = (T *)op.k_cache + cache + (i64)past * SIZE;
      to[one] = x, to[other] = y;
    }
  }
  barrier();

  f32 q[V], greatest = NOTHING, total = 0, sum[V] = {};
  UNROLL for (int i = 0; i < V; i++) q[i] = query[at + i];
  if (newest && wave() == 0) {
    f32 score = 0;
    UNROLL for (int i = 0; i < V; i++) score = __builtin_fmaf(q[i], new_key[at + i], score);
    score = sum_lanes<LANES>(score);
    // Every group of the wave has the score, the first keeps the value.
    if (past < valid) {
      greatest = score;
      total = group == 0 ? 1.0f : 0.0f;
      UNROLL for (int i = 0; i < V; i++) sum[i] = group == 0 ? new_value[at + i] : 0.0f;
    }
  }
  while (chunk < chunks) {
    f32 scores[AHEAD], limit = greatest;
    UNROLL for (int a = 0; a < AHEAD; a++) {
      f32 score = 0;
      UNROLL for (int i = 0; i < V; i++) score = __builtin_fmaf(q[i], element(k[a], i), score);
      score = sum_lanes<LANES>(score);
      scores[a] = begin + chunk * CHUNK + a * GROUPS + group < end ? score : NOTHING;
      limit = scores[a] > limit ? scores[a] : limit;
    }
    limit = max_across<LANES>(limit);
    f32 before = weight_of(greatest, limit);
    greatest = limit;
    total *= before;
    UNROLL for (int i = 0; i < V; i++) sum[i] *= before;
    UNROLL for (int a = 0; a < AHEAD; a++) {
      f32 weight = weight_of(scores[a], limit);
      total += weight;
      UNROLL for (int i = 0; i < V; i++) sum[i] = __builtin_fmaf(weight, element(v[a], i), sum[i]);
    }
    chunk += used;
    if (chunk < chunks) fetch();
  }
  // Groups of a wave agree on the greatest score; then waves.
  total = sum_across<LANES>(total);
  UNROLL for (int i = 0; i < V; i++) sum[i] = sum_across<LANES>(sum[i]);
  if (lane() < LANES) UNROLL for (int i = 0; i < V; i++) sums[wave()][at + i] = sum[i];
  if (lane() == 0) statistics[wave()][0] = greatest, statistics[wave()][1] = total;
  barrier();
  i32 c = (i32)thread();
  i64 row = (i64)b * op.q_heads + head;
  f32 limit = NOTHING, all = 0, result = 0;
  if (c < SIZE) {
    UNROLL for (int w = 0; w < WAVES; w++) limit = statistics[w][0] > limit ? statistics[w][0] : limit;
    UNROLL for (int w = 0; w < WAVES; w++) {
      f32 factor = weight_of(statistics[w][0], limit);
      all = __builtin_fmaf(statistics[w][1], factor, all);
      result = __builtin_fmaf(sums[w][c], factor, result);
    }
  }
  if (used > 1) {
    // The sums of this part; whoever comes last joins them.
    f32 *parts = op.joined + row * op.parts * (SIZE + 2);
    if (c < SIZE) {
      parts[part * (SIZE + 2) + c] = result;
      if (c == 0) parts[part * (SIZE + 2) + SIZE] = limit, parts[part * (SIZE + 2) + SIZE + 1] = all;
    }
    release_device();
    barrier();
    if (thread() == 0) arrived = add_device(op.counters + row, 1);
    barrier();
    if (arrived != (u32)used - 1) return;
    acquire_device();
    if (thread() == 0) op.counters[row] = 0;
    if (c >= SIZE) return;
    limit = NOTHING, all = 0, result = 0;
    _Pragma("unroll 4") for (i32 p = 0; p < used; p++) {
      const f32 *from = parts + p * (SIZE + 2);
      f32 own = from[SIZE], weight = from[SIZE + 1], value = from[c];
      f32 higher = own > limit ? own : limit, mine = weight_of(limit, higher), theirs = weight_of(own, higher);
      all = all * mine + weight * theirs;
      result = result * mine + value * theirs;
      limit = higher;
    }
  }
  if (c >= SIZE) return;
  f32 factor = 1;
  if (op.sink || op.smooth) {
    f32 sink = op.sink ? mixed_at(op.sink, op.sink_dtype, head) * LOG2_E : 0.0f, higher = limit > sink ? limit : sink;
    factor = weight_of(limit, higher);
    all = all * factor + exp2_of(sink - higher);
  }
  // A row that sees no key is zero.
  ((T *)op.y)[row * SIZE + c] = narrow<T>(all == 0 ? 0.0f : result * factor / all);
}

} // namespace

#ifndef HIPC_NO_KERNELS
#define ATTENTION_STEP(WORD, T)                                                                                        \
  KERNEL(BLOCK) attention_step_s64_##WORD(AttentionStep op) { attention_step<T, 8, same<T, f32>::value ? 2 : 4>(op); } \
  KERNEL(BLOCK) attention_step_s128_##WORD(AttentionStep op) { attention_step<T, 16, same<T, f32>::value ? 2 : 4>(op); }
HIPC_FLOATS(ATTENTION_STEP)
#endif
