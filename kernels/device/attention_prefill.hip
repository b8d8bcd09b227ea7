// Attention of many rows: tiles of queries times tiles of keys on the matrix units, the softmax rescaled as larger scores
// turn up. A block has rows that share a head of k and v: query heads of a group, position after position. A wave has 16 of
// them, or 32; their queries, scores, weights and sums stay in its registers. Keys and values pass through LDS, the next
// ones on their way while these are used.
#include "hipc_attention.h"
#include "hipc_row_tile.h"

using namespace hipc;

namespace {

constexpr int WAVES = 4, THREADS = WAVES * WAVE, PAD = 8, PART = 8;
#if defined(HIPC_NVIDIA)
constexpr bool HAS_ROOM = true;
#else
constexpr bool HAS_ROOM = WAVE == 64;
#endif

// KEYS keys and values of SIZE elements, fetched from the cache by the whole block; values behind the last one are zeros.
template <class T, int KEYS, int SIZE> struct Pair {
  // A thread takes the same part of every STEP-th row.
  static constexpr int KEY_ROW = SIZE + PAD, EACH = KEYS * SIZE / PART / THREADS, STEP = KEYS / EACH;
#if defined(HIPC_NVIDIA)
  // Copies into LDS run by themselves, values are transposed when they become operands.
  static constexpr int COPIES = 2, VALUE_ROW = SIZE + PAD, VALUES = KEYS * VALUE_ROW;
#else
  // Of values it takes neighbouring rows, EVERY elements apart, and writes them side by side.
  static constexpr int COPIES = 1, VALUE_ROW = KEYS + PAD, VALUES = SIZE * VALUE_ROW;
  static constexpr int PAIRS = KEYS / 2, EVERY = THREADS / PAIRS * PART;
  Vector<T, PART> next_keys[EACH], next_values[EACH];
  i32 left;  // of the keys on their way, those before the end
#endif
  static constexpr int COPY = KEYS * KEY_ROW + VALUES;
  const T *k, *v;
  i32 k_stride, v_stride, end;
  T *lds;  // COPIES of COPY elements
  int copy;

  __attribute__((device, always_inline)) const T *keys() const { return lds + copy * COPY; }
  __attribute__((device, always_inline)) const T *values() const { return lds + copy * COPY + KEYS * KEY_ROW; }
  // Elements [16 d, +16) of keys [16 j, +16), along the depth.
  __attribute__((device, always_inline)) Fragment<T> key_fragment(int j, int d) const {
    return load_right(keys() + j * 16 * KEY_ROW + d * 16, KEY_ROW);
  }

#if defined(HIPC_NVIDIA)
  __attribute__((device, always_inline)) void fetch(i32 base) {
    copy = (copy + 1) % COPIES;
    int row = (int)thread() / (SIZE / PART), c = (int)thread() % (SIZE / PART) * PART;
    T *to = lds + copy * COPY + c;
    const T *keys_at = k + (i64)(base + row) * k_stride + c, *values_at = v + (i64)(base + row) * v_stride + c;
    UNROLL for (int i = 0; i < EACH; i++, row += STEP, keys_at += (i64)STEP * k_stride, values_at += (i64)STEP * v_stride) {
      // Nothing is read from behind the end.
      bool whole = base + row < end;
      copy_to_lds(to + row * KEY_ROW, keys_at, whole);
      copy_to_lds(to + KEYS * KEY_ROW + row * VALUE_ROW, values_at, whole);
    }
  }
  __attribute__((device, always_inline)) void arrive() {
    wait_copies();
    barrier();
  }
  // Elements [16 c, +16) of the values of keys [16 j, +16), with the keys along the depth.
  __attribute__((device, always_inline)) Fragment<T> value_fragment(int c, int j) const {
    int l = (int)lane(), row = j * 16 + l % 16, column = c * 16 + l / 16 * 8;
    return bit_cast<Fragment<T>>(load_matrices<true>(values() + row * VALUE_ROW + column));
  }
#else
  __attribute__((device, always_inline)) void fetch(i32 base) {
    left = end - base;
    const T *keys_at = k + (i64)base * k_stride, *values_at = v + (i64)base * v_stride;
    int row = (int)thread() / (SIZE / PART), c = (int)thread() % (SIZE / PART) * PART;
    UNROLL for (int i = 0; i < EACH; i++, row += STEP)
      next_keys[i] = load<T, PART>(keys_at + (min(row, left - 1) * k_stride + c));
    int pair = (int)thread() % PAIRS * 2, column = (int)thread() / PAIRS * PART;
    UNROLL for (int i = 0; i < EACH; i++)
      next_values[i] = load<T, PART>(values_at + (min(pair + i % 2, left - 1) * v_stride + column + i / 2 * EVERY));
  }
  __attribute__((device, always_inline)) void arrive() {
    barrier();
    int row = (int)thread() / (SIZE / PART), c = (int)thread() % (SIZE / PART) * PART;
    UNROLL for (int i = 0; i < EACH; i++, row += STEP) store<T, PART>(lds + row * KEY_ROW + c, next_keys[i]);
    int pair = (int)thread() % PAIRS * 2;
    T *to = lds + KEYS * KEY_ROW + (int)thread() / PAIRS * PART * VALUE_ROW + pair;
    UNROLL for (int i = 0; i < EACH; i += 2) {
      UNROLL for (int e = 0; e < PART; e++) {
        T first = pair < left ? next_values[i][e] : (T)0.0f, second = pair + 1 < left ? next_values[i + 1][e] : (T)0.0f;
        store<T, 2>(to + (i / 2 * EVERY + e) * VALUE_ROW, Vector<T, 2>{{first, second}});
      }
    }
    barrier();
  }
  __attribute__((device, always_inline)) Fragment<T> value_fragment(int c, int j) const {
    return load_fragment(values() + c * 16 * VALUE_ROW + j * 16, VALUE_ROW);
  }
#endif
};

// Scores as the softmax sees them, where more than a scale makes them. `own` is where a thread puts elements down, so that
// one copy of the code does for all.
DEVICE void finish_scores(const Attention &op, RowTile &scores, f32 (*own)[THREADS], i32 b, i32 kv_head, i32 first_row,
                          i32 first_key) {
  UNROLL for (int i = 0; i < Tile::COUNT; i++) own[i][thread()] = scores.at[i];
  _Pragma("unroll 1") for (int i = 0; i < Tile::COUNT; i++) {
    Row row = row_of(op, b, kv_head, min(first_row + RowTile::row(RowTile::slot(i)), op.group * op.positions - 1));
    i32 key = first_key + RowTile::column(i);
    if (key < row.end) own[i][thread()] = score_of(op, own[i][thread()] * op.scale, b, row, key);
  }
  UNROLL for (int i = 0; i < Tile::COUNT; i++) scores.at[i] = own[i][thread()];
}

// Of a tile of rows: which keys they see, and what the softmax has found of them so far.
struct Found {
  i32 begin[RowTile::ROWS], end[RowTile::ROWS];
  f32 greatest[RowTile::ROWS], total[RowTile::ROWS];
};

// What hides keys behind the rows' ends; `first_key` is that of the first tile.
template <int TILES> DEVICE void hide(RowTile (&scores)[TILES], const Found &found, i32 first_key) {
  UNROLL for (int s = 0; s < RowTile::ROWS; s++) {
    i32 before = first_key + RowTile::column(0), from = found.begin[s] - before, to = found.end[s] - before;
    UNROLL for (int j = 0; j < TILES; j++)
      UNROLL for (int i = 0; i < Tile::COUNT; i++) {
        i32 key = j * 16 + RowTile::column(i) - RowTile::column(0);
        if (RowTile::slot(i) == s && (key < from || key >= to)) scores[j].at[i] = NOTHING;
      }
  }
}

// Scores become weights, and the sums so far are put in relation to the greatest score now.
template <int TILES, int COLUMNS>
DEVICE void weigh(RowTile (&scores)[TILES], RowTile (&sums)[COLUMNS], Found &found, f32 unit) {
  f32 limit[RowTile::ROWS], added[RowTile::ROWS] = {}, before[RowTile::ROWS];
  UNROLL for (int s = 0; s < RowTile::ROWS; s++) limit[s] = found.greatest[s];
  UNROLL for (int j = 0; j < TILES; j++)
    UNROLL for (int i = 0; i < Tile::COUNT; i++) limit[RowTile::slot(i)] = greater(limit[RowTile::slot(i)], scores[j].at[i]);
  bool grew = false;
  UNROLL for (int s = 0; s < RowTile::ROWS; s++) {
    limit[s] = combine_row(limit[s], [](f32 a, f32 b) { return greater(a, b); });
    f32 floor = limit[s] == NOTHING ? 0.0f : limit[s];
    grew |= limit[s] != found.greatest[s];
    before[s] = exp2_of((found.greatest[s] - floor) * unit);
    found.greatest[s] = limit[s];
    limit[s] = floor * unit;
  }
  UNROLL for (int j = 0; j < TILES; j++)
    UNROLL for (int i = 0; i < Tile::COUNT; i++) {
      f32 weight = exp2_of(__builtin_fmaf(scores[j].at[i], unit, -limit[RowTile::slot(i)]));
      scores[j].at[i] = weight;
      added[RowTile::slot(i)] += weight;
    }
  UNROLL for (int s = 0; s < RowTile::ROWS; s++) found.total[s] = found.total[s] * before[s] + added[s];
  // Most keys of a long row exceed nothing.
  if (any_lane(grew))
    UNROLL for (int c = 0; c < COLUMNS; c++)
      UNROLL for (int i = 0; i < Tile::COUNT; i++) sums[c].at[i] *= before[RowTile::slot(i)];
}

// A wave has TALL tiles of 16 rows: what it reads from LDS serves as often.
template <class T, int SIZE, int TALL> DEVICE void prefill(const Attention &op) {
  constexpr int WAVE_ROWS = 16 * TALL, ROWS = WAVE_ROWS * WAVES;
  // As many keys as registers and LDS hold.
  constexpr int KEYS = SIZE == 64 && HAS_ROOM ? 64 : 32, TILES = KEYS / 16, COLUMNS = SIZE / 16, WEIGHT_ROW = KEYS + PAD;
  using Cache = Pair<T, KEYS, SIZE>;
  // Queries leave LDS before the first keys come, where they can.
  constexpr int QUERIES = ROWS * (SIZE + PAD), CACHES = Cache::COPIES * Cache::COPY, BEHIND = has_mma<T> ? 0 : CACHES,
                WEIGHTS = has_mma<T> ? 0 : ROWS * WEIGHT_ROW;
  static_assert(QUERIES <= CACHES, "queries have the room of keys and values");
  SHARED T lds[BEHIND + (has_mma<T> ? CACHES : QUERIES) + WEIGHTS];
  SHARED f32 shown[Tile::COUNT][THREADS];
  i32 all = op.group * op.positions;
  // The last rows see most keys under a causal mask: they begin first.
  i32 first = (ceil_div(all, ROWS) - 1 - (i32)block_z()) * ROWS;
  i32 b = (i32)block_y() / op.kv_heads, kv_head = (i32)block_y() % op.kv_heads;
  check_length(op, b);
  for (int item = (int)thread(); item < ROWS * SIZE / PART; item += THREADS) {
    int r = item / (SIZE / PART), c = item % (SIZE / PART) * PART;
    i32 row = min(first + r, all - 1);
    const T *q = (const T *)op.q.data + op.q.first + b * op.q.batch_stride +
                 (kv_head * op.group + row % op.group) * op.q.head_stride + row / op.group * op.q.position_stride;
    store<T, PART>(lds + BEHIND + r * (SIZE + PAD) + c, load<T, PART>(q + c));
  }
  barrier();
  i32 strip = (i32)wave() * WAVE_ROWS, last = all - 1;
  Fragment<T> queries[TALL][COLUMNS];
  UNROLL for (int t = 0; t < TALL; t++)
    UNROLL for (int d = 0; d < COLUMNS; d++)
      queries[t][d] = load_fragment(lds + BEHIND + (strip + t * 16) * (SIZE + PAD) + d * 16, SIZE + PAD);
  [[maybe_unused]] T *weights = lds + BEHIND + QUERIES + strip * WEIGHT_ROW;
  barrier();

  Row low = row_of(op, b, kv_head, min(first, last)), high = row_of(op, b, kv_head, min(first + ROWS - 1, last));
  i32 begin = (i32)min(low.begin, high.begin), end = (i32)max(low.end, high.end);
  low = row_of(op, b, kv_head, min(first + strip, last)), high = row_of(op, b, kv_head, min(first + strip + WAVE_ROWS - 1, last));
  i32 all_begin = (i32)max(low.begin, high.begin), all_end = (i32)min(low.end, high.end);  // keys that all rows of the wave see
  Found found[TALL];
  UNROLL for (int t = 0; t < TALL; t++)
    UNROLL for (int s = 0; s < RowTile::ROWS; s++) {
      Row row = row_of(op, b, kv_head, min(first + strip + t * 16 + RowTile::row(s), last));
      found[t].begin[s] = (i32)row.begin, found[t].end[s] = (i32)row.end;
      found[t].greatest[s] = NOTHING, found[t].total[s] = 0;
    }
  // Where nothing but the scale comes between a product and the softmax, that is part of the exponent.
  bool plain = !op.bias.data && op.softcap == 0 && op.scale > 0;
  f32 unit = plain ? op.scale * LOG2_E : LOG2_E;
  RowTile sums[TALL][COLUMNS];
  UNROLL for (int t = 0; t < TALL; t++)
    UNROLL for (int c = 0; c < COLUMNS; c++) sums[t][c].clear();

  Cache cache;
  cache.k = (const T *)op.k.data + op.k.first + b * op.k.batch_stride + kv_head * op.k.head_stride;
  cache.v = (const T *)op.v.data + op.v.first + b * op.v.batch_stride + kv_head * op.v.head_stride;
  cache.k_stride = (i32)op.k.position_stride, cache.v_stride = (i32)op.v.position_stride, cache.end = end, cache.lds = lds, cache.copy = 0;
  if (begin < end) cache.fetch(begin);
  for (i32 base = begin; base < end; base += KEYS) {
    cache.arrive();
    Cache now = cache;
    if (base + KEYS < end) cache.fetch(base + KEYS);

    RowTile scores[TALL][TILES];
    UNROLL for (int t = 0; t < TALL; t++)
      UNROLL for (int j = 0; j < TILES; j++) scores[t][j].clear();
    Fragment<T> part[2][TILES];
    UNROLL for (int j = 0; j < TILES; j++) part[0][j] = now.key_fragment(j, 0);
    UNROLL for (int d = 0; d < COLUMNS; d++) {
      if (d + 1 < COLUMNS)
        UNROLL for (int j = 0; j < TILES; j++) part[(d + 1) % 2][j] = now.key_fragment(j, d + 1);
      UNROLL for (int j = 0; j < TILES; j++)
        UNROLL for (int t = 0; t < TALL; t++) multiply_rows<T>(scores[t][j], queries[t][d], part[d % 2][j]);
      keep_order();
    }
    if (!plain)
      UNROLL for (int t = 0; t < TALL; t++)
        UNROLL for (int j = 0; j < TILES; j++)
          finish_scores(op, scores[t][j], shown, b, kv_head, first + strip + t * 16, base + j * 16);
    if (base < all_begin || base + KEYS > all_end)
      UNROLL for (int t = 0; t < TALL; t++) hide(scores[t], found[t], base);
    keep_order();
    UNROLL for (int t = 0; t < TALL; t++) weigh(scores[t], sums[t], found[t], unit);
    UNROLL for (int j = 0; j < TILES; j++) {
      keep_order();
      Fragment<T> own[TALL];
      UNROLL for (int t = 0; t < TALL; t++) own[t] = as_fragment(scores[t][j], weights + j * 16, WEIGHT_ROW);
      Fragment<T> part[2] = {now.value_fragment(0, j)};
      UNROLL for (int c = 0; c < COLUMNS; c++) {
        if (c + 1 < COLUMNS) part[(c + 1) % 2] = now.value_fragment(c + 1, j);
        UNROLL for (int t = 0; t < TALL; t++) multiply_rows<T>(sums[t][c], own[t], part[c % 2]);
        keep_order();
      }
    }
  }

  keep_order();
  UNROLL for (int t = 0; t < TALL; t++)
    UNROLL for (int s = 0; s < RowTile::ROWS; s++) {
      f32 all_weights = combine_row(found[t].total[s], [](f32 a, f32 b) { return a + b; }), greatest = found[t].greatest[s];
      i32 number = first + strip + t * 16 + RowTile::row(s);
      if (number >= all) continue;
      Row row = row_of(op, b, kv_head, number);
      T *y = result_of<T>(op, row, b);
      f32 scale = scale_of(op, row, greatest == NOTHING ? NOTHING : greatest * (unit / LOG2_E), all_weights);
      constexpr int STEP = RowTile::NEIGHBOURS;
      UNROLL for (int c = 0; c < COLUMNS; c++)
        UNROLL for (int i = 0; i < Tile::COUNT; i += STEP) {
          if (RowTile::slot(i) != s) continue;
          Vector<T, STEP> out;
          UNROLL for (int e = 0; e < STEP; e++) out[e] = narrow<T>(sums[t][c].at[i + e] * scale);
          store<T, STEP>(y + c * 16 + RowTile::column(i), out);
        }
    }
}

} // namespace

// Grid: 1, batch * kv heads, tiles of ROWS rows; blocks of four waves.
#define DEFINE(WORD, T)                                                                                                \
  KERNEL_OF_BLOCKS(THREADS, 3) attention_prefill_s64_##WORD(Attention op) { prefill<T, 64, 1>(op); }                   \
  KERNEL_OF_BLOCKS(THREADS, 3) attention_prefill_s128_##WORD(Attention op) { prefill<T, 128, 1>(op); }
DEFINE(f16, f16) DEFINE(bf16, bf16)
#undef DEFINE
// For more tiles than there are places for blocks. AMD's registers do not hold so many rows.
#if defined(HIPC_NVIDIA)
#define DEFINE(WORD, T)                                                                                                \
  KERNEL_OF_BLOCKS(THREADS, 2) attention_prefill_tall_s64_##WORD(Attention op) { prefill<T, 64, 2>(op); }              \
  KERNEL_OF_BLOCKS(THREADS, 2) attention_prefill_tall_s128_##WORD(Attention op) { prefill<T, 128, 2>(op); }
DEFINE(f16, f16) DEFINE(bf16, bf16)
#endif
