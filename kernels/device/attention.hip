// softmax(scale * q k' + bias) v for rows that share a head of k and v, as decoding has few of: the query heads of a group,
// position after position. What limits it is reading the cache once, so a block reads it for all rows of a tile.
//
// Lanes form groups that hold a few keys at a time, 8 elements each. A group keeps its own greatest score and sums; groups,
// waves, and blocks that split the keys, are merged afterwards.
#include "hipc_attention.h"

using namespace hipc;

namespace {

constexpr i32 BLOCK = 128, V = 8;

// Elements [at, at + 8) of a vector of `size`, zeros behind it.
template <class T> struct Part {
  Vector<T, LANE_VECTOR<T>> at[V / LANE_VECTOR<T>];
  __attribute__((device, always_inline)) f32 operator[](int i) const { return widen(at[i / LANE_VECTOR<T>][i % LANE_VECTOR<T>]); }
};
template <class T> DEVICE Part<T> load_part(const T *from, i32 at, i32 size, bool whole) {
  constexpr int STEP = LANE_VECTOR<T>;
  Part<T> part;
  if (whole) {
    UNROLL for (int i = 0; i < V / STEP; i++) part.at[i] = load<T, STEP>(from + at + i * STEP);
    return part;
  }
  UNROLL for (int i = 0; i < V; i++) part.at[i / STEP][i % STEP] = at + i < size ? from[at + i] : T(0);
  return part;
}

// Sums of weighted values of one row, relative to the greatest score.
struct Sums {
  f32 greatest, total, sum[V];
};
// The sums of two sets of keys. One without a visible key has nothing but, perhaps, a NaN to add.
DEVICE void join(Sums &a, f32 greatest, f32 total, const f32 (&sum)[V]) {
  f32 limit = max(a.greatest, greatest), mine = factor_of(a.greatest, limit), other = factor_of(greatest, limit);
  a.total = (a.greatest == NOTHING ? a.total : a.total * mine) + (greatest == NOTHING ? total : total * other);
  UNROLL for (int i = 0; i < V; i++) a.sum[i] = a.sum[i] * mine + sum[i] * other;
  a.greatest = limit;
}

// The sum of the lanes of a group.
template <int LANES> DEVICE f32 sum_group(f32 value, i32 lanes) {
  if constexpr (LANES) return sum_lanes<LANES>(value);
  for (i32 mask = 1; mask < lanes; mask <<= 1) value += from_lane(value, lane() ^ mask);
  return value;
}
// Joins the groups of a wave.
DEVICE void join_with(Sums &a, u32 other) {
  f32 sum[V];
  UNROLL for (int i = 0; i < V; i++) sum[i] = from_lane(a.sum[i], other);
  join(a, from_lane(a.greatest, other), from_lane(a.total, other), sum);
}
template <int LANES> DEVICE void join_groups(Sums &a, i32 lanes) {
  if constexpr (LANES) {
    UNROLL for (u32 mask = LANES; mask < WAVE; mask <<= 1) join_with(a, lane() ^ mask);
  } else {
    for (u32 mask = lanes; mask < WAVE; mask <<= 1) join_with(a, lane() ^ mask);
  }
}

// Grid: splits, tiles of R rows, batch * kv heads. LANES: lanes of a key, for scores without bias and cap; 0: op.lanes.
template <class T, int R, int LANES> DEVICE void attention(const Attention &op) {
  constexpr int WAVES = BLOCK / WAVE, AHEAD = (R > 1 || same<T, f32>::value) ? 2 : 4;
  SHARED f32 sums[WAVES][R][WAVE * V];
  SHARED f32 statistics[WAVES][R][2];
  i32 split = block(), first = block_y() * R, b = block_z() / op.kv_heads, kv_head = block_z() % op.kv_heads;
  const i32 lanes = LANES ? LANES : op.lanes;
  i32 group = thread() / lanes, groups = BLOCK / lanes, at = (thread() % lanes) * V;
  i32 all = op.group * op.positions;
  check_length(op, b);
  bool whole = op.k_aligned && at < op.size, v_whole = op.v_aligned && at < op.v_size;
  Row rows[R];
  f32 q[R][V];
  i32 begin = op.capacity, end = 0;
  UNROLL for (int r = 0; r < R; r++) {
    rows[r] = row_of(op, b, kv_head, min(first + r, all - 1));
    begin = min(begin, (i32)rows[r].begin), end = max(end, (i32)rows[r].end);
    const T *from = (const T *)op.q.data + op.q.first + b * op.q.batch_stride + rows[r].head * op.q.head_stride +
                    rows[r].position * op.q.position_stride;
    Part<T> part = load_part(from, at, op.size, op.q_aligned && at < op.size);
    UNROLL for (int i = 0; i < V; i++) q[r][i] = part[i] * op.scale;
  }
  // Parts of equal length but for the last.
  i32 part_keys = end > begin ? (end - begin + op.splits - 1) / op.splits : 0;
  begin += part_keys * split;
  end = min(end, begin + part_keys);
  const T *keys = (const T *)op.k.data + op.k.first + b * op.k.batch_stride + kv_head * op.k.head_stride;
  const T *values = (const T *)op.v.data + op.v.first + b * op.v.batch_stride + kv_head * op.v.head_stride;
  Sums found[R];
  UNROLL for (int r = 0; r < R; r++) {
    found[r].greatest = NOTHING, found[r].total = 0;
    UNROLL for (int i = 0; i < V; i++) found[r].sum[i] = 0;
  }
  // Groups of a wave stay together, since they exchange lanes.
  for (i32 base = begin; base < end; base += groups * AHEAD) {
    Part<T> k[AHEAD], v[AHEAD];
    UNROLL for (int a = 0; a < AHEAD; a++) {
      i64 key = min(base + a * groups + group, end - 1);
      k[a] = load_part(keys + key * op.k.position_stride, at, op.size, whole);
      v[a] = load_part(values + key * op.v.position_stride, at, op.v_size, v_whole);
    }
    f32 products[R][AHEAD];
    UNROLL for (int r = 0; r < R; r++)
      UNROLL for (int a = 0; a < AHEAD; a++) {
        f32 score = 0;
        UNROLL for (int i = 0; i < V; i++) score = __builtin_fmaf(q[r][i], k[a][i], score);
        products[r][a] = sum_group<LANES>(score, lanes);
      }
    UNROLL for (int r = 0; r < R; r++) {
      f32 scores[AHEAD], limit = found[r].greatest;
      UNROLL for (int a = 0; a < AHEAD; a++) {
        i32 key = base + a * groups + group;
        bool visible = key >= rows[r].begin && key < rows[r].end && key < end;
        f32 score = products[r][a];
        if constexpr (LANES == 0)
          if (visible) score = score_of(op, score, b, rows[r], key);
        scores[a] = visible ? score : NOTHING;
        limit = scores[a] > limit ? scores[a] : limit;
      }
      f32 before = factor_of(found[r].greatest, limit);
      found[r].greatest = limit;
      found[r].total *= before;
      UNROLL for (int i = 0; i < V; i++) found[r].sum[i] *= before;
      UNROLL for (int a = 0; a < AHEAD; a++) {
        // Hidden keys may hold anything, infinities too.
        bool hidden = scores[a] == NOTHING;
        f32 weight = hidden ? 0.0f : exp_of(scores[a] - limit);
        found[r].total += weight;
        UNROLL for (int i = 0; i < V; i++)
          found[r].sum[i] = __builtin_fmaf(weight, hidden ? 0.0f : v[a][i], found[r].sum[i]);
      }
    }
  }
  // Groups of a wave, then waves.
  UNROLL for (int r = 0; r < R; r++) {
    join_groups<LANES>(found[r], lanes);
    if ((i32)lane() < lanes)
      UNROLL for (int i = 0; i < V; i++) sums[wave()][r][at + i] = found[r].sum[i];
    if (lane() == 0) statistics[wave()][r][0] = found[r].greatest, statistics[wave()][r][1] = found[r].total;
  }
  barrier();
  i32 width = lanes * V;
  for (i32 i = thread(); i < R * width; i += BLOCK) {
    i32 r = i / width, c = i % width;
    if (c >= op.v_size || first + r >= all) continue;
    f32 limit = NOTHING, weights = 0, result = 0;
    UNROLL for (int w = 0; w < WAVES; w++) limit = max(limit, statistics[w][r][0]);
    UNROLL for (int w = 0; w < WAVES; w++) {
      f32 factor = factor_of(statistics[w][r][0], limit);
      weights += statistics[w][r][0] == NOTHING ? statistics[w][r][1] : statistics[w][r][1] * factor;
      result += sums[w][r][c] * factor;
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

constexpr i32 MERGED = 64;  // parts whose factors a block of `merge` holds at a time

// One block per row, a thread per column.
template <class T> DEVICE void merge(const Attention &op) {
  SHARED f32 factors[MERGED], shared[MOST_WAVES];
  i32 all = op.group * op.positions, number = block() % all, b = block() / all / op.kv_heads,
      kv_head = block() / all % op.kv_heads;
  const f32 *statistics = op.parts + (i64)op.rows * op.splits * op.v_size + 2 * (i64)block() * op.splits;
  const f32 *sums = op.parts + (i64)block() * op.splits * op.v_size;
  f32 greatest = NOTHING, total = 0, sum[4] = {};
  for (i32 s = thread(); s < op.splits; s += threads()) greatest = max(greatest, statistics[2 * s]);
  f32 limit = max_block(greatest, shared);
  for (i32 base = 0; base < op.splits; base += MERGED) {
    i32 count = min(MERGED, op.splits - base);
    if (base) barrier();
    if ((i32)thread() < count) {
      f32 own = statistics[2 * (base + thread())], weight = statistics[2 * (base + thread()) + 1];
      factors[thread()] = factor_of(own, limit);
      total += own == NOTHING ? weight : weight * factors[thread()];
    }
    barrier();
    UNROLL for (int i = 0; i < 4; i++) {
      i32 c = thread() + i * threads();
      if (c >= op.v_size) continue;
      _Pragma("unroll 16") for (i32 s = 0; s < count; s++) sum[i] = __builtin_fmaf(sums[(i64)(base + s) * op.v_size + c], factors[s], sum[i]);
    }
  }
  total = sum_block(total, shared);
  UNROLL for (int i = 0; i < 4; i++) {
    i32 c = thread() + i * threads();
    if (c < op.v_size) finish<T>(op, row_of(op, b, kv_head, number), b, c, sum[i], limit, total);
  }
}

} // namespace

#define ATTENTION_ROWS(WORD, T, R)                                                                                     \
  KERNEL(BLOCK) attention_r##R##_##WORD(Attention op) { attention<T, R, 0>(op); }                                      \
  KERNEL(BLOCK) attention_r##R##_l8_##WORD(Attention op) { attention<T, R, 8>(op); }                                   \
  KERNEL(BLOCK) attention_r##R##_l16_##WORD(Attention op) { attention<T, R, 16>(op); }
#define ATTENTION(WORD, T)                                                                                             \
  ATTENTION_ROWS(WORD, T, 1)                                                                                           \
  ATTENTION_ROWS(WORD, T, 4)                                                                                           \
  KERNEL(BLOCK) attention_merge_##WORD(Attention op) { merge<T>(op); }
HIPC_FLOATS(ATTENTION)
