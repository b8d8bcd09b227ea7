// softmax(scale * q k' + bias) v for rows that share a head of k and v, as decoding has few of: the query heads of a group,
// position after position. What limits it is reading the cache once, so a block reads it for all rows of a tile.
//
// Lanes form groups that hold one key at a time, 8 elements each. A group keeps its own greatest score and sums; groups,
// waves, and blocks that split the keys, are merged afterwards.
#include "hipc_attention.h"

using namespace hipc;

namespace {

constexpr i32 BLOCK = 128, V = 8;

// Elements [at, at + 8) of a vector of `size`, zeros behind it.
template <class T> DEVICE void load_part(const T *from, i32 at, i32 size, bool whole, f32 (&to)[V]) {
  if (whole) {
    constexpr int STEP = LANE_VECTOR<T>;
    UNROLL for (int i = 0; i < V; i += STEP) {
      Vector<T, STEP> loaded = load<T, STEP>(from + at + i);
      UNROLL for (int j = 0; j < STEP; j++) to[i + j] = widen(loaded[j]);
    }
    return;
  }
  UNROLL for (int i = 0; i < V; i++) to[i] = at + i < size ? widen(from[at + i]) : 0.0f;
}

// Grid: splits, tiles of R rows, batch * kv heads.
template <class T, int R> DEVICE void attention(const Attention &op) {
  SHARED f32 sums[BLOCK * V * R];
  SHARED f32 statistics[BLOCK][R][2];
  i32 split = block(), first = block_y() * R, b = block_z() / op.kv_heads, kv_head = block_z() % op.kv_heads;
  i32 lanes = op.lanes, group = thread() / lanes, groups = BLOCK / lanes, at = (thread() % lanes) * V;
  i32 all = op.group * op.positions;
  bool whole = op.k_aligned && at < op.size, v_whole = op.v_aligned && at < op.v_size;
  Row rows[R];
  f32 q[R][V];
  i64 begin = op.capacity, end = 0;
  UNROLL for (int r = 0; r < R; r++) {
    rows[r] = row_of(op, b, kv_head, min(first + r, all - 1));
    begin = min(begin, rows[r].begin), end = max(end, rows[r].end);
    const T *from = (const T *)op.q.data + op.q.first + b * op.q.batch_stride + rows[r].head * op.q.head_stride +
                    rows[r].position * op.q.position_stride;
    load_part(from, at, op.size, false, q[r]);
    UNROLL for (int i = 0; i < V; i++) q[r][i] *= op.scale;
  }
  i64 span = end > begin ? end - begin : 0;
  end = begin + span * (split + 1) / op.splits;
  begin += span * split / op.splits;
  const T *keys = (const T *)op.k.data + op.k.first + b * op.k.batch_stride + kv_head * op.k.head_stride;
  const T *values = (const T *)op.v.data + op.v.first + b * op.v.batch_stride + kv_head * op.v.head_stride;
  f32 greatest[R], total[R], sum[R][V] = {};
  UNROLL for (int r = 0; r < R; r++) greatest[r] = NOTHING, total[r] = 0;
  // Groups of a wave stay together, since they exchange lanes.
  constexpr int AHEAD = R > 4 ? 1 : 2;
  for (i64 base = begin; base < end; base += groups * AHEAD) {
    f32 k[AHEAD][V], v[AHEAD][V];
    UNROLL for (int a = 0; a < AHEAD; a++) {
      i64 key = min(base + a * groups + group, op.capacity - 1);
      load_part(keys + key * op.k.position_stride, at, op.size, whole, k[a]);
      load_part(values + key * op.v.position_stride, at, op.v_size, v_whole, v[a]);
    }
    UNROLL for (int a = 0; a < AHEAD; a++) {
      i64 key = base + a * groups + group;
      UNROLL for (int r = 0; r < R; r++) {
        f32 score = 0;
        UNROLL for (int i = 0; i < V; i++) score = __builtin_fmaf(q[r][i], k[a][i], score);
        for (i32 mask = 1; mask < lanes; mask <<= 1) score += from_lane(score, lane() ^ mask);
        bool visible = key >= rows[r].begin && key < rows[r].end && key < end;
        score = visible ? score_of(op, score, b, rows[r], key) : NOTHING;
        f32 limit = score > greatest[r] ? score : greatest[r];
        f32 before = factor_of(greatest[r], limit), weight = score == NOTHING ? 0.0f : exp_of(score - limit);
        greatest[r] = limit;
        total[r] = total[r] * before + weight;
        UNROLL for (int i = 0; i < V; i++) sum[r][i] = sum[r][i] * before + (weight == 0 ? 0.0f : weight * v[a][i]);
      }
    }
  }
  // Groups of the block.
  if (thread() % lanes == 0)
    UNROLL for (int r = 0; r < R; r++) statistics[group][r][0] = greatest[r], statistics[group][r][1] = total[r];
  barrier();
  i32 width = lanes * V;
  UNROLL for (int r = 0; r < R; r++) {
    f32 limit = NOTHING;
    for (i32 g = 0; g < groups; g++) limit = max(limit, statistics[g][r][0]);
    f32 factor = factor_of(greatest[r], limit);
    UNROLL for (int i = 0; i < V; i++) sums[(group * R + r) * width + at + i] = sum[r][i] * factor;
  }
  barrier();
  for (i32 i = thread(); i < R * width; i += BLOCK) {
    i32 r = i / width, c = i % width;
    if (c >= op.v_size || first + r >= all) continue;
    f32 limit = NOTHING, weights = 0, result = 0;
    for (i32 g = 0; g < groups; g++) limit = max(limit, statistics[g][r][0]);
    for (i32 g = 0; g < groups; g++) {
      // A group without a visible key has nothing but, perhaps, a NaN to add.
      weights += statistics[g][r][0] == NOTHING ? statistics[g][r][1] : statistics[g][r][1] * exp_of(statistics[g][r][0] - limit);
      result += sums[(g * R + r) * width + c];
    }
    if (op.splits == 1) {
      finish<T>(op, row_of(op, b, kv_head, first + r), b, c, result, limit, weights);
      continue;
    }
    i64 row = (i64)block_z() * all + first + r, count = (i64)op.splits * op.rows;
    i64 part = row * op.splits + split;
    op.parts[part * op.v_size + c] = result;
    if (c == 0) op.parts[count * op.v_size + 2 * part] = limit, op.parts[count * op.v_size + 2 * part + 1] = weights;
  }
}

// One block per row, a thread per column.
template <class T> DEVICE void merge(const Attention &op) {
  i32 all = op.group * op.positions, number = block() % all, b = block() / all / op.kv_heads,
      kv_head = block() / all % op.kv_heads;
  const f32 *statistics = op.parts + (i64)op.rows * op.splits * op.v_size + 2 * (i64)block() * op.splits;
  const f32 *sums = op.parts + (i64)block() * op.splits * op.v_size;
  f32 limit = NOTHING;
  for (i32 s = 0; s < op.splits; s++) limit = max(limit, statistics[2 * s]);
  for (i32 c = thread(); c < op.v_size; c += threads()) {
    f32 total = 0, sum = 0;
    for (i32 s = 0; s < op.splits; s++) {
      f32 factor = factor_of(statistics[2 * s], limit);
      total += statistics[2 * s] == NOTHING ? statistics[2 * s + 1] : statistics[2 * s + 1] * factor;
      sum += sums[s * op.v_size + c] * factor;
    }
    finish<T>(op, row_of(op, b, kv_head, number), b, c, sum, limit, total);
  }
}

} // namespace

#define ATTENTION(WORD, T)                                                                                             \
  KERNEL(BLOCK) attention_r1_##WORD(Attention op) { attention<T, 1>(op); }                                             \
  KERNEL(BLOCK) attention_r2_##WORD(Attention op) { attention<T, 2>(op); }                                             \
  KERNEL(BLOCK) attention_r4_##WORD(Attention op) { attention<T, 4>(op); }                                             \
  KERNEL(BLOCK) attention_r8_##WORD(Attention op) { attention<T, 8>(op); }                                             \
  KERNEL(BLOCK) attention_merge_##WORD(Attention op) { merge<T>(op); }                                                
HIPC_FLOATS(ATTENTION)
