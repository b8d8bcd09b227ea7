// Attention of many rows: tiles of queries times tiles of keys on the matrix units, the softmax rescaled as larger scores
// turn up. A block has 64 rows that share a head of k and v: query heads of a group, position after position.
#include "hipc_attention.h"
#include "hipc_mma.h"

using namespace hipc;

namespace {

constexpr int ROWS = 64, KEYS = 32, PREFILL_THREADS = 128, PREFILL_WAVES = PREFILL_THREADS / WAVE;

// One block: 64 rows of a kv head against keys in blocks of 32; heads of SIZE elements. A wave has 16 rows (32 where it
// is 64 lanes wide): scores, softmax and sums of a row stay within its wave.
template <class T, int SIZE> DEVICE void prefill(const Attention &op) {
  constexpr int PAD = 8, STRIPS = ROWS / 16 / PREFILL_WAVES, COLUMNS = SIZE / 16, PART = LANE_VECTOR<T>;
  SHARED T queries[ROWS][SIZE + PAD], keys[KEYS][SIZE + PAD], values[SIZE][KEYS + PAD];
  // Weights take the place of the scores that they were made of.
  constexpr int SCORE_ROW = KEYS + 4, WEIGHT_ROW = SCORE_ROW * (int)(sizeof(f32) / sizeof(T));
  SHARED f32 scores[ROWS][SCORE_ROW], scale_of_row[ROWS], greatest_of[ROWS], total_of[ROWS];
  i32 all = op.group * op.positions, first = (i32)block_y() * ROWS;
  i32 b = (i32)block_z() / op.kv_heads, kv_head = (i32)block_z() % op.kv_heads;
  check_length(op, b);
  const T *k = (const T *)op.k.data + op.k.first + b * op.k.batch_stride + kv_head * op.k.head_stride;
  const T *v = (const T *)op.v.data + op.v.first + b * op.v.batch_stride + kv_head * op.v.head_stride;
  for (int item = (int)thread(); item < ROWS * SIZE / PART; item += PREFILL_THREADS) {
    int r = item / (SIZE / PART), c = item % (SIZE / PART) * PART;
    i32 row = min(first + r, all - 1);
    const T *q = (const T *)op.q.data + op.q.first + b * op.q.batch_stride +
                 (kv_head * op.group + row % op.group) * op.q.head_stride + row / op.group * op.q.position_stride;
    store<T, PART>(&queries[r][c], load<T, PART>(q + c));
  }
  for (int r = (int)thread(); r < ROWS; r += PREFILL_THREADS) greatest_of[r] = NOTHING, total_of[r] = 0;
  Row one = row_of(op, b, kv_head, first), other = row_of(op, b, kv_head, min(first + ROWS - 1, all - 1));
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
      store<T, PART>(&keys[j][c], key < end ? load<T, PART>(k + key * op.k.position_stride + c) : zero);
    }
    // Neighbouring threads take neighbouring keys, so that they write side by side.
    for (int item = (int)thread(); item < KEYS * SIZE / PART; item += PREFILL_THREADS) {
      int j = item % KEYS, c = item / KEYS * PART;
      i64 key = base + j;
      Vector<T, PART> value = {};
      if (key < end) value = load<T, PART>(v + key * op.v.position_stride + c);
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
      Row row = row_of(op, b, kv_head, min(first + r, all - 1));
      f32 own[KEYS / 2], before_all = greatest_of[r], limit = before_all;
      UNROLL for (int j = 0; j < KEYS / 2; j++) {
        i64 key = base + half + j;
        bool seen = key >= row.begin && key < row.end;
        own[j] = seen ? score_of(op, scores[r][half + j] * op.scale, b, row, key) : NOTHING;
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
      if (first + r >= all) continue;
      Row row = row_of(op, b, kv_head, first + r);
      UNROLL for (int c = 0; c < COLUMNS; c++)
        finish<T>(op, row, b, c * 16 + Tile::column(i), sums[s][c].at[i], greatest_of[r], total_of[r]);
    }
  }
}

} // namespace

// Grid: 1, tiles of 64 rows, batch * kv heads.
#define DEFINE(WORD, T)                                                                                                \
  KERNEL(128) attention_prefill_s64_##WORD(Attention op) { prefill<T, 64>(op); }                                       \
  KERNEL(128) attention_prefill_s128_##WORD(Attention op) { prefill<T, 128>(op); }
DEFINE(f16, f16) DEFINE(bf16, bf16)
