// Attention softmax(scale * q k' + bias) v, keys in blocks with the softmax rescaled as larger scores turn up, and what
// goes with it: rotary positions, appending to a cache. Sums are float32.
//
// A block of threads works on rows that share a head of k and v: row r is query head r % group at position r / group.
// attention_decode has a wave per key and few rows; attention_prefill multiplies tiles on the matrix units. Both can be
// given a part of the keys each; attention_merge adds the parts.
#include "hipc_math.h"
#include "hipc_mma.h"

using namespace hipc;

namespace {

constexpr f32 NOTHING = -__builtin_inff();

// Vectors of a tensor of heads, in elements.
struct Heads {
  i64 first, batch_stride, head_stride, position_stride;
  __attribute__((device, always_inline)) i64 at(i64 b, i64 head, i64 position) const {
    return first + b * batch_stride + head * head_stride + position * position_stride;
  }
};

struct Attention {
  const void *q, *k, *v;
  const void *bias, *sink;
  const i32 *past, *lengths;
  void *y;
  f32 *parts;  // [rows of all][splits][v_size + 2], or NULL: y is written
  Heads q_at, k_at, v_at, y_at;
  i64 bias_strides[4];
  i64 positions, keys, batch, q_heads, kv_heads, window;
  i32 size, v_size, past_count, lengths_count, bias_dtype, sink_dtype;
  i32 causal, smooth, splits;
  f32 scale, softcap;
};

struct Range {
  i32 begin, end;
};

// A length beyond the cache cannot be read: such rows become NaN.
DEVICE i64 valid_keys(const Attention &op, i64 b) {
  return op.lengths ? (i64)op.lengths[op.lengths_count == 1 ? 0 : b] : op.keys;
}
DEVICE Range keys_of(const Attention &op, i64 b, i64 position) {
  i64 past = op.past ? (i64)op.past[op.past_count == 1 ? 0 : b] : 0, last = past + position + 1;
  i64 valid = min(valid_keys(op, b), op.keys);
  i64 end = max(op.causal ? min(valid, last) : valid, (i64)0);
  i64 begin = op.window > 0 ? max((i64)0, last - op.window) : 0;
  return {(i32)min(begin, end), (i32)end};
}
DEVICE f32 number_of(const void *from, i32 dtype, i64 at) {
  switch (dtype) {
  case 10: return (f32)((const f16 *)from)[at];
  case 16: return (f32)((const bf16 *)from)[at];
  default: return ((const f32 *)from)[at];
  }
}

// A score as the softmax sees it.
DEVICE f32 score_of(const Attention &op, f32 product, i64 b, i64 head, i64 position, i64 key) {
  f32 score = product * op.scale;
  if (op.softcap > 0) score = tanh_of(score / op.softcap) * op.softcap;
  if (op.bias) {
    i64 at = b * op.bias_strides[0] + head * op.bias_strides[1] + position * op.bias_strides[2] + key * op.bias_strides[3];
    if (op.bias_dtype == 9 || op.bias_dtype == 2) score = ((const u8 *)op.bias)[at] ? score : NOTHING;
    else score += number_of(op.bias, op.bias_dtype, at);
  }
  return score;
}

// What the sums of a row are multiplied with, from its greatest score and the sum of its weights.
DEVICE f32 factor_of(const Attention &op, i64 b, i64 head, f32 greatest, f32 total) {
  f32 factor = 1;
  if (op.sink || op.smooth) {
    f32 sink = op.sink ? number_of(op.sink, op.sink_dtype, head) : 0, limit = max(sink, greatest);
    factor = greatest == NOTHING ? 0 : exp_of(greatest - limit);
    total = total * factor + exp_of(sink - limit);
  }
  i64 valid = valid_keys(op, b);
  if (valid < 0 || valid > op.keys) return __builtin_nanf("");
  // A row that sees no key is zero.
  return total == 0 ? 0 : factor / total;
}

// Numbers of this row within `parts`: the weighted sums, then the greatest score and the total weight.
DEVICE f32 *part_of(const Attention &op, i64 b, i64 head, i64 position, i64 split) {
  i64 row = (b * op.q_heads + head) * op.positions + position;
  return op.parts + (row * op.splits + split) * (op.v_size + 2);
}

// ---- few rows ---------------------------------------------------------------------------------------------------

constexpr int DECODE_THREADS = 256, DECODE_WAVES = DECODE_THREADS / WAVE;

// One block: ROWS rows of a kv head, a part of the keys. Groups of LANES lanes take a key each; a lane holds SIZE / LANES
// elements of every vector. LANES x 16 bytes are a vector of the head's size.
template <class T, int ROWS, int LANES> DEVICE void decode(const Attention &op) {
  constexpr int COUNT = LANE_VECTOR<T>, GROUPS = DECODE_THREADS / LANES, SIZE = LANES * COUNT;
  constexpr int AHEAD = ROWS == 1 ? 4 : 2;  // keys that a group of lanes has under way
  SHARED f32 sums_of[DECODE_WAVES][ROWS][SIZE];
  SHARED f32 greatest_of[DECODE_WAVES][ROWS], total_of[DECODE_WAVES][ROWS];
  i64 group = op.q_heads / op.kv_heads, all = group * op.positions, tiles = ceil_div(all, (i64)ROWS);
  i64 tile = block() % tiles, kv_head = block() / tiles % op.kv_heads, b = block() / tiles / op.kv_heads;
  int column = (int)(lane() % LANES) * COUNT;
  const T *keys = (const T *)op.k + op.k_at.at(b, kv_head, 0), *values = (const T *)op.v + op.v_at.at(b, kv_head, 0);
  f32 q[ROWS][COUNT], sums[ROWS][COUNT] = {}, greatest[ROWS], total[ROWS] = {};
  i32 heads[ROWS], positions[ROWS];
  Range ranges[ROWS], span = {0x7fffffff, 0};
  UNROLL for (int r = 0; r < ROWS; r++) {
    i64 row = min(tile * ROWS + r, all - 1);
    heads[r] = (i32)(kv_head * group + row % group), positions[r] = (i32)(row / group);
    auto vector = load<T, COUNT>((const T *)op.q + op.q_at.at(b, heads[r], positions[r]) + column);
    UNROLL for (int i = 0; i < COUNT; i++) q[r][i] = widen(vector[i]);
    greatest[r] = NOTHING;
    ranges[r] = keys_of(op, b, positions[r]);
    span = {min(span.begin, ranges[r].begin), max(span.end, ranges[r].end)};
  }
  i64 length = max(span.end - span.begin, 0), split = block_y();
  i32 begin = (i32)(span.begin + length * split / op.splits), end = (i32)(span.begin + length * (split + 1) / op.splits);
  // All lanes of a wave go around together: exchanges need them.
  for (i32 base = begin; base < end; base += GROUPS * AHEAD) {
    Vector<T, COUNT> key[AHEAD], value[AHEAD];
    UNROLL for (int j = 0; j < AHEAD; j++) {
      i64 at = min(base + j * GROUPS + (i32)thread() / LANES, end - 1);
      key[j] = load<T, COUNT>(keys + at * op.k_at.position_stride + column);
      value[j] = load<T, COUNT>(values + at * op.v_at.position_stride + column);
    }
    UNROLL for (int r = 0; r < ROWS; r++) {
      f32 scores[AHEAD], limit = greatest[r];
      UNROLL for (int j = 0; j < AHEAD; j++) {
        i32 at = base + j * GROUPS + (i32)thread() / LANES;
        f32 product = 0;
        UNROLL for (int i = 0; i < COUNT; i++) product += q[r][i] * widen(key[j][i]);
        product = sum_lanes<LANES>(product);
        bool seen = at < end && at >= ranges[r].begin && at < ranges[r].end;
        scores[j] = seen ? score_of(op, product, b, heads[r], positions[r], at) : NOTHING;
        limit = scores[j] > limit ? scores[j] : limit;
      }
      // Without a visible key so far there is nothing to scale; NaN scores, which no comparison finds, must still show.
      f32 base_score = limit == NOTHING ? 0 : limit, before = greatest[r] == NOTHING ? 0 : exp_of(greatest[r] - base_score);
      total[r] *= before;
      UNROLL for (int i = 0; i < COUNT; i++) sums[r][i] *= before;
      UNROLL for (int j = 0; j < AHEAD; j++) {
        f32 weight = scores[j] == NOTHING ? 0 : exp_of(scores[j] - base_score);
        total[r] += weight;
        UNROLL for (int i = 0; i < COUNT; i++) sums[r][i] += weight * widen(value[j][i]);
      }
      greatest[r] = limit;
    }
  }
  // The groups of a wave, then the waves.
  UNROLL for (int r = 0; r < ROWS; r++) {
    f32 limit = max_lanes(greatest[r]), base_score = limit == NOTHING ? 0 : limit;
    f32 factor = greatest[r] == NOTHING ? 0 : exp_of(greatest[r] - base_score);
    total[r] = combine_lanes(lane() % LANES == 0 ? (greatest[r] == NOTHING ? total[r] : total[r] * factor) : 0.0f,
                             [](f32 x, f32 y) { return x + y; });
    greatest[r] = limit;
    UNROLL for (int i = 0; i < COUNT; i++) {
      f32 sum = sums[r][i] * factor;
      if constexpr (LANES <= 1) sum += exchange<1>(sum);
      if constexpr (LANES <= 2) sum += exchange<2>(sum);
      if constexpr (LANES <= 4) sum += exchange<4>(sum);
      if constexpr (LANES <= 8) sum += exchange<8>(sum);
      if constexpr (LANES <= 16) sum += exchange<16>(sum);
      if constexpr (LANES <= 32 && WAVE == 64) sum += exchange<32>(sum);
      if ((int)lane() < LANES) sums_of[wave()][r][column + i] = sum;
    }
    if (lane() == 0) greatest_of[wave()][r] = greatest[r], total_of[wave()][r] = total[r];
  }
  barrier();
  for (int item = (int)thread(); item < ROWS * SIZE; item += DECODE_THREADS) {
    int r = item / SIZE, c = item % SIZE;
    i64 row = tile * ROWS + r;
    if (row >= all || c >= op.v_size) continue;
    f32 limit = NOTHING, sum = 0, weight = 0;
    UNROLL for (int w = 0; w < DECODE_WAVES; w++) limit = max(limit, greatest_of[w][r]);
    UNROLL for (int w = 0; w < DECODE_WAVES; w++) {
      f32 factor = greatest_of[w][r] == NOTHING ? 0 : exp_of(greatest_of[w][r] - limit);
      sum += sums_of[w][r][c] * factor;
      weight += greatest_of[w][r] == NOTHING ? total_of[w][r] : total_of[w][r] * factor;
    }
    i64 head = kv_head * group + row % group, position = row / group;
    if (op.parts) {
      f32 *part = part_of(op, b, head, position, split);
      part[c] = sum;
      if (c == 0) part[op.v_size] = limit, part[op.v_size + 1] = weight;
    } else {
      f32 factor = factor_of(op, b, head, limit, weight);
      ((T *)op.y)[op.y_at.at(b, head, position) + c] = narrow<T>(sum * factor);
    }
  }
}

// Any size and alignment: a wave a row, keys one after the other.
template <class T> DEVICE void attention_any(const Attention &op) {
  constexpr int MOST = 1024 / WAVE;  // elements of a vector that a lane holds
  i64 rows = op.batch * op.q_heads * op.positions;
  for (i64 row = (i64)block() * waves() + wave(); row < rows; row += (i64)blocks() * waves()) {
    i64 position = row % op.positions, head = row / op.positions % op.q_heads, b = row / op.positions / op.q_heads;
    i64 kv_head = head / (op.q_heads / op.kv_heads);
    const T *q = (const T *)op.q + op.q_at.at(b, head, position);
    f32 sums[MOST] = {}, greatest = NOTHING, total = 0;
    Range range = keys_of(op, b, position);
    for (i64 key = range.begin; key < range.end; key++) {
      const T *k = (const T *)op.k + op.k_at.at(b, kv_head, key), *v = (const T *)op.v + op.v_at.at(b, kv_head, key);
      f32 product = 0;
      for (i32 c = (i32)lane(); c < op.size; c += WAVE) product += widen(q[c]) * widen(k[c]);
      f32 score = score_of(op, sum_lanes(product), b, head, position, key);
      f32 limit = score > greatest ? score : greatest, base = limit == NOTHING ? 0 : limit;
      f32 before = greatest == NOTHING ? 0 : exp_of(greatest - base), weight = score == NOTHING ? 0 : exp_of(score - base);
      total = total * before + weight;
      UNROLL for (int i = 0; i < MOST; i++) {
        i32 c = i * (i32)WAVE + (i32)lane();
        if (c < op.v_size) sums[i] = sums[i] * before + weight * widen(v[c]);
      }
      greatest = limit;
    }
    f32 factor = factor_of(op, b, head, greatest, total);
    T *y = (T *)op.y + op.y_at.at(b, head, position);
    UNROLL for (int i = 0; i < MOST; i++) {
      i32 c = i * (i32)WAVE + (i32)lane();
      if (c < op.v_size) y[c] = narrow<T>(sums[i] * factor);
    }
  }
}

// Parts of the keys to rows of y: one block a row.
template <class T> DEVICE void merge(const Attention &op) {
  i64 row = block(), position = row % op.positions, head = row / op.positions % op.q_heads;
  i64 b = row / op.positions / op.q_heads;
  const f32 *parts = part_of(op, b, head, position, 0);
  i64 stride = op.v_size + 2;
  f32 limit = NOTHING, total = 0;
  for (i32 s = 0; s < op.splits; s++) limit = max(limit, parts[s * stride + op.v_size]);
  for (i32 s = 0; s < op.splits; s++) {
    f32 own = parts[s * stride + op.v_size], weight = parts[s * stride + op.v_size + 1];
    total += own == NOTHING ? weight : weight * exp_of(own - limit);
  }
  f32 factor = factor_of(op, b, head, limit, total);
  for (i32 c = (i32)thread(); c < op.v_size; c += (i32)threads()) {
    f32 sum = 0;
    for (i32 s = 0; s < op.splits; s++) {
      f32 own = parts[s * stride + op.v_size];
      sum += own == NOTHING ? 0 : parts[s * stride + c] * exp_of(own - limit);
    }
    ((T *)op.y)[op.y_at.at(b, head, position) + c] = narrow<T>(sum * factor);
  }
}

// ---- many rows --------------------------------------------------------------------------------------------------

constexpr int ROWS = 64, KEYS = 32, PREFILL_THREADS = 128, PREFILL_WAVES = PREFILL_THREADS / WAVE;

// One block: 64 rows of a kv head against keys in blocks of 32; heads of SIZE elements. A wave has 16 rows (32 where it
// is 64 lanes wide): scores, softmax and sums of a row stay within its wave.
template <class T, int SIZE> DEVICE void prefill(const Attention &op) {
  constexpr int PAD = 8, STRIPS = ROWS / 16 / PREFILL_WAVES, COLUMNS = SIZE / 16, PART = LANE_VECTOR<T>;
  SHARED T queries[ROWS][SIZE + PAD], keys[KEYS][SIZE + PAD], values[SIZE][KEYS + PAD];
  // Weights take the place of the scores that they were made of.
  constexpr int SCORE_ROW = KEYS + 4, WEIGHT_ROW = SCORE_ROW * (int)(sizeof(f32) / sizeof(T));
  SHARED f32 scores[ROWS][SCORE_ROW], scale_of_row[ROWS], greatest_of[ROWS], total_of[ROWS];
  i64 group = op.q_heads / op.kv_heads, all = group * op.positions, tiles = ceil_div(all, (i64)ROWS);
  i64 tile = block() % tiles, kv_head = block() / tiles % op.kv_heads, b = block() / tiles / op.kv_heads;
  i64 first = tile * ROWS;
  const T *k = (const T *)op.k + op.k_at.at(b, kv_head, 0), *v = (const T *)op.v + op.v_at.at(b, kv_head, 0);
  for (int item = (int)thread(); item < ROWS * SIZE / PART; item += PREFILL_THREADS) {
    int r = item / (SIZE / PART), c = item % (SIZE / PART) * PART;
    i64 row = min(first + r, all - 1);
    store<T, PART>(&queries[r][c], load<T, PART>((const T *)op.q + op.q_at.at(b, kv_head * group + row % group, row / group) + c));
  }
  for (int r = (int)thread(); r < ROWS; r += PREFILL_THREADS) greatest_of[r] = NOTHING, total_of[r] = 0;
  Range one = keys_of(op, b, first / group), other = keys_of(op, b, min(first + ROWS - 1, all - 1) / group);
  i64 begin = min(one.begin, other.begin), end = max(one.end, other.end);
  Tile sums[STRIPS][COLUMNS];
  UNROLL for (int s = 0; s < STRIPS; s++) {
    UNROLL for (int c = 0; c < COLUMNS; c++) sums[s][c].clear();
  }
  for (i64 base = begin; base < end; base += KEYS) {
    barrier();
    for (int item = (int)thread(); item < KEYS * SIZE / PART; item += PREFILL_THREADS) {
      int j = item / (SIZE / PART), c = item % (SIZE / PART) * PART;
      i64 key = base + j;
      Vector<T, PART> zero = {};
      store<T, PART>(&keys[j][c], key < end ? load<T, PART>(k + key * op.k_at.position_stride + c) : zero);
    }
    // Neighbouring threads take neighbouring keys, so that they write side by side.
    for (int item = (int)thread(); item < KEYS * SIZE / PART; item += PREFILL_THREADS) {
      int j = item % KEYS, c = item / KEYS * PART;
      i64 key = base + j;
      Vector<T, PART> value = {};
      if (key < end) value = load<T, PART>(v + key * op.v_at.position_stride + c);
      UNROLL for (int i = 0; i < PART; i++) values[c + i][j] = value[i];
    }
    barrier();
    UNROLL for (int s = 0; s < STRIPS; s++) {
      int strip = ((int)wave() * STRIPS + s) * 16;
      Tile product[KEYS / 16];
      UNROLL for (int j = 0; j < KEYS / 16; j++) {
        product[j].clear();
        UNROLL for (int d = 0; d < SIZE; d += 16)
          multiply_tile<T>(product[j], &queries[strip][d], SIZE + PAD, &keys[j * 16][d], SIZE + PAD);
        UNROLL for (int i = 0; i < Tile::COUNT; i++)
          scores[strip + Tile::row(i)][j * 16 + Tile::column(i)] = product[j].at[i];
      }
    }
    barrier();
    // Two threads a row, 16 keys each; they are neighbours.
    {
      int r = (int)thread() / 2, half = (int)thread() % 2 * (KEYS / 2);
      i64 row = min(first + r, all - 1), position = row / group, head = kv_head * group + row % group;
      Range range = keys_of(op, b, position);
      f32 own[KEYS / 2], before_all = greatest_of[r], limit = before_all;
      UNROLL for (int j = 0; j < KEYS / 2; j++) {
        i64 key = base + half + j;
        bool seen = key >= range.begin && key < range.end;
        own[j] = seen ? score_of(op, scores[r][half + j], b, head, position, key) : NOTHING;
        limit = own[j] > limit ? own[j] : limit;
      }
      // Both threads of the row have read it when the exchange is done.
      f32 beside = exchange<1>(limit);
      limit = beside > limit ? beside : limit;
      f32 floor = limit == NOTHING ? 0 : limit, before = before_all == NOTHING ? 0 : exp_of(before_all - floor), added = 0;
      UNROLL for (int j = 0; j < KEYS / 2; j++) {
        f32 weight = own[j] == NOTHING ? 0 : exp_of(own[j] - floor);
        ((T *)scores[r])[half + j] = narrow<T>(weight);
        added += weight;
      }
      added += exchange<1>(added);
      if (half == 0) greatest_of[r] = limit, total_of[r] = total_of[r] * before + added, scale_of_row[r] = before;
    }
    barrier();
    UNROLL for (int s = 0; s < STRIPS; s++) {
      int strip = ((int)wave() * STRIPS + s) * 16;
      UNROLL for (int c = 0; c < COLUMNS; c++) {
        UNROLL for (int i = 0; i < Tile::COUNT; i++) sums[s][c].at[i] *= scale_of_row[strip + Tile::row(i)];
        UNROLL for (int j = 0; j < KEYS; j += 16)
          multiply_tile<T>(sums[s][c], (const T *)scores[strip] + j, WEIGHT_ROW, &values[c * 16][j], KEYS + PAD);
      }
    }
  }
  barrier();
  UNROLL for (int s = 0; s < STRIPS; s++) {
    UNROLL for (int i = 0; i < Tile::COUNT; i++) {
      int r = ((int)wave() * STRIPS + s) * 16 + Tile::row(i);
      i64 row = first + r, head = kv_head * group + row % group, position = row / group;
      if (row >= all) continue;
      f32 factor = factor_of(op, b, head, greatest_of[r], total_of[r]);
      T *y = (T *)op.y + op.y_at.at(b, head, position);
      UNROLL for (int c = 0; c < COLUMNS; c++) y[c * 16 + Tile::column(i)] = narrow<T>(sums[s][c].at[i] * factor);
    }
  }
}

// ---- positions and caches ---------------------------------------------------------------------------------------

struct Rotary {
  const void *x, *cos, *sin;
  const i64 *positions;
  void *y;
  Heads x_at, y_at;
  i64 batch, length, rows;
  i32 heads, size, half, interleaved, positions_count, angle_dtype;
};

// A thread turns one pair, or moves two of the elements that are not turned.
template <class T> DEVICE void rotary(const Rotary &op) {
  i64 pairs = ceil_div(op.size, 2), count = op.batch * op.length * op.heads * pairs;
  for (i64 at = global_thread(); at < count; at += global_threads()) {
    i64 pair = at % pairs, head = at / pairs % op.heads, position = at / pairs / op.heads % op.length;
    i64 b = at / pairs / op.heads / op.length;
    const T *x = (const T *)op.x + op.x_at.at(b, head, position);
    T *y = (T *)op.y + op.y_at.at(b, head, position);
    if (pair >= op.half) {
      for (i64 c = 2 * pair; c < min(2 * pair + 2, (i64)op.size); c++) y[c] = x[c];
      continue;
    }
    i64 row = b * op.length + position;
    if (op.positions) row = op.positions_count == 1 ? op.positions[0] + position : op.positions[row];
    i64 first = op.interleaved ? 2 * pair : pair, second = op.interleaved ? 2 * pair + 1 : pair + op.half;
    f32 a = widen(x[first]), c = widen(x[second]), cosine = __builtin_nanf(""), sine = cosine;
    // A position outside the tables has no angle: it shows as NaN.
    if (row >= 0 && row < op.rows) {
      cosine = number_of(op.cos, op.angle_dtype, row * op.half + pair);
      sine = number_of(op.sin, op.angle_dtype, row * op.half + pair);
    }
    y[first] = narrow<T>(a * cosine - c * sine);
    y[second] = narrow<T>(a * sine + c * cosine);
  }
}

struct Append {
  const void *update, *past;
  const i32 *lengths;
  void *present;
  Heads update_at, past_at, present_at;
  i64 batch, heads, size, added, capacity, room;
  i32 lengths_count, in_place;
};

// Elements of the cache: the old ones up to the valid length, then the new ones, then zeros. A thread an element of T.
template <class T> DEVICE void append(const Append &op) {
  i64 positions = op.in_place ? op.added : op.room, count = op.batch * op.heads * positions * op.size;
  for (i64 at = global_thread(); at < count; at += global_threads()) {
    i64 c = at % op.size, p = at / op.size % positions, head = at / op.size / positions % op.heads;
    i64 b = at / op.size / positions / op.heads;
    i64 valid = op.lengths ? (i64)op.lengths[op.lengths_count == 1 ? 0 : b] : op.capacity;
    // A cache that cannot take the new positions is left alone: attention makes NaN of lengths beyond it.
    if (valid < 0 || valid > op.capacity || valid + op.added > op.room) continue;
    i64 position = op.in_place ? valid + p : p;
    T value = {};
    if (position >= valid && position < valid + op.added)
      value = ((const T *)op.update)[op.update_at.at(b, head, position - valid) + c];
    else if (position < valid) value = ((const T *)op.past)[op.past_at.at(b, head, position) + c];
    ((T *)op.present)[op.present_at.at(b, head, position) + c] = value;
  }
}

} // namespace

#define DECODE(WORD, T, ROWS, LANES)                                                                                   \
  KERNEL(256) attention_decode_r##ROWS##_l##LANES##_##WORD(Attention op) { decode<T, ROWS, LANES>(op); }
#define DEFINE(WORD, T)                                                                                                \
  DECODE(WORD, T, 1, 8) DECODE(WORD, T, 4, 8) DECODE(WORD, T, 1, 16) DECODE(WORD, T, 4, 16)                            \
  KERNEL(256) attention_any_##WORD(Attention op) { attention_any<T>(op); }                                             \
  KERNEL(256) attention_merge_##WORD(Attention op) { merge<T>(op); }                                                   \
  KERNEL(256) rotary_##WORD(Rotary op) { rotary<T>(op); }
HIPC_FLOATS(DEFINE)
DECODE(f32, f32, 1, 32) DECODE(f32, f32, 4, 32) DECODE(f16, f16, 1, 32) DECODE(f16, f16, 4, 32)
DECODE(bf16, bf16, 1, 32) DECODE(bf16, bf16, 4, 32)
#undef DEFINE

#define DEFINE(WORD, T)                                                                                                \
  KERNEL(128) attention_prefill_s64_##WORD(Attention op) { prefill<T, 64>(op); }                                       \
  KERNEL(128) attention_prefill_s128_##WORD(Attention op) { prefill<T, 128>(op); }
DEFINE(f16, f16) DEFINE(bf16, bf16)
#undef DEFINE

#define DEFINE(WORD, T)                                                                                                \
  KERNEL(256) kv_append_##WORD(Append op) { append<T>(op); }
DEFINE(b1, u8) DEFINE(b2, u16) DEFINE(b4, u32) DEFINE(b8, u64) DEFINE(b16, bytes16)
