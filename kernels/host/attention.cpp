// hipc_attention: softmax(scale * q k' + bias) v by blocks of keys, with the softmax rescaled as larger scores turn up.
//
// A task is a tile of query rows that share a head of k and v: all the query heads of a group, position after position.
// Tall tiles run on the micro-kernels of the matrix product; short ones, as in decoding, read k and v where they lie.
// Sums are float32 whatever the element type; the scales of quantised caches go into the queries and the results. Tasks too few for the threads are split along the keys and merged.
#include "heads.h"

using namespace hipc;

namespace {

constexpr const char *OP = "attention";
constexpr int64_t KEYS = 128;       // of a block
constexpr int64_t TALL_ROWS = 56;   // rows of a tile on the product's kernels
constexpr int64_t SHORT_ROWS = 8;   // rows of a tile without them
constexpr int64_t SPLIT_KEYS = 256; // fewest keys that are worth a task
constexpr float NOTHING = -__builtin_inff();

// Added to the scores, or a mask (zero hides a key); extents of 1 broadcast.
struct Bias {
  const void *data = nullptr;
  int32_t dtype = F32;
  int64_t strides[4] = {}, keys = 0;
};

// One number for all batch entries, one for each, or a default.
struct Lengths {
  const int32_t *data = nullptr;
  int64_t count = 0, otherwise = 0;
  int64_t of(int64_t b) const { return data ? data[count == 1 ? 0 : b] : otherwise; }
};

struct Attention {
  Heads q, k, v, y;
  Bias bias;
  Lengths past, valid;
  const hipc_tensor *sink;
  // Of caches of integers of some bits: one scale, or one for every column of every head.
  int64_t bits;
  const hipc_tensor *k_scale, *v_scale;
  int64_t q_heads, kv_heads, group, size, v_size, window;
  float scale, softcap;
  bool causal, smooth;
};

// Keys [begin, end) of the query at a position.
struct Range {
  int64_t begin, end;
};

Range keys_of(const Attention &op, int64_t b, int64_t position) {
  int64_t last = op.past.of(b) + position + 1, valid = op.valid.of(b);
  int64_t end = max<int64_t>(op.causal ? min(valid, last) : valid, 0);
  int64_t begin = op.window > 0 ? max<int64_t>(0, last - op.window) : 0;
  return {min(begin, end), end};
}

// Rows [first, first + rows) of a head of k and v: row r is query head r % group of the group at position r / group.
struct Tile {
  int64_t b, kv_head, first, rows;
};

// Parts of a thread's scratch, in floats.
struct Work {
  float *q, *scores, *sum, *product, *keys, *values, *greatest, *total;
};

struct Sizes {
  int64_t rows, q_row, v_row, floats;
  bool tall, copies_k, copies_v;

  explicit Sizes(const Attention &op) {
    int64_t all = op.group * op.q.positions;
    tall = all >= 16;
    rows = min(all, tall ? TALL_ROWS : SHORT_ROWS);
    q_row = round_up(op.size, LANES);
    v_row = round_up(op.v_size, PANEL);
    copies_k = tall || op.k.dtype != F32 || op.size % LANES;
    copies_v = op.v.dtype != F32 || op.v_size % PANEL;
    floats = rows * (q_row + KEYS + 2 * v_row + 2 * LANES) + KEYS * (2 * q_row + v_row);
    floats = round_up(floats, 16);
  }
  Work work(float *at) const {
    Work w{};
    auto take = [&](int64_t count) { return at += count, at - count; };
    w.scores = take(rows * KEYS), w.sum = take(rows * v_row), w.product = take(rows * v_row);
    w.keys = take(2 * KEYS * q_row), w.values = take(KEYS * v_row), w.q = take(rows * q_row);
    w.greatest = take(rows * LANES), w.total = take(rows * LANES);
    return w;
  }
};


template <int... I> struct Indices {};
template <class, int... I> using IndicesOf = Indices<I...>;

// Lanes whose index has the bit `Step` hold sums of b's, the others sums of a's.
template <int Step, int... I> HIPC_INLINE vfloat add_neighbours(vfloat a, vfloat b, Indices<I...>) {
  return __builtin_shufflevector(a, b, (I & Step ? LANES + I - Step : I)...) +
         __builtin_shufflevector(a, b, (I & Step ? LANES + I : I + Step)...);
}

// Lane i is the sum of the lanes of x[i].
template <int Step = 1> HIPC_INLINE vfloat sums_of(vfloat *x) {
  using All = __make_integer_seq<IndicesOf, int, LANES>;
#pragma clang loop unroll(full)
  for (int i = 0; i < LANES / (2 * Step); i++) x[i] = add_neighbours<Step>(x[2 * i], x[2 * i + 1], All{});
  if constexpr (2 * Step < LANES) return sums_of<2 * Step>(x);
  return x[0];
}

void load_integers(const uint8_t *from, int64_t bits, int64_t size, float *to) {
  if (bits == 8)
    for (int64_t c = 0; c < size; c++) to[c] = (float)(int8_t)from[c];
  else
    for (int64_t c = 0; c < size / 2; c++) {
      to[2 * c] = (float)((from[c] & 15) - 8);
      to[2 * c + 1] = (float)((from[c] >> 4) - 8);
    }
}

// Rows of a head as floats, zero-padded to `row` columns; `bits` of integers, 0 for floats.
void copy_rows(const Heads &heads, int64_t bits, int64_t b, int64_t head, int64_t first, int64_t count, int64_t size,
               float *to, int64_t row) {
  for (int64_t i = 0; i < count; i++) {
    if (bits) load_integers(PackedHeads{heads, bits}.row(b, head, first + i), bits, size, to + i * row);
    else load_floats(heads.dtype, heads.data, heads.at(b, head, first + i), size, to + i * row);
    if (size < row) memset(to + i * row + size, 0, (size_t)(row - size) * sizeof(float));
  }
}

// Columns of one head of k or v times their scales.
void scale_columns(const hipc_tensor *scales, int64_t head, int64_t size, float *x) {
  const float *scale = data<float>(scales);
  bool single = elements(scales) == 1;
  for (int64_t c = 0; c < size; c++) x[c] *= scale[single ? 0 : head * size + c];
}

// scores[r][j] = q[r] . keys[j]
void short_scores(const Sizes &s, const Work &w, int64_t rows, const float *keys, int64_t stride, int64_t count) {
  for (int64_t j = 0; j < count; j += LANES) {
    const float *row[LANES];
    for (int i = 0; i < LANES; i++) row[i] = keys + min(j + i, count - 1) * stride;
    for (int64_t r = 0; r < rows; r++) {
      const float *q = w.q + r * s.q_row;
      vfloat sums[LANES] = {};
      for (int64_t c = 0; c < s.q_row; c += LANES) {
        vfloat x = load(q + c);
#pragma clang loop unroll(full)
        for (int i = 0; i < LANES; i++) sums[i] += x * load(row[i] + c);
      }
      store(w.scores + r * KEYS + j, sums_of(sums));
    }
  }
}

// sum[r] += scores[r] x values
void short_sums(const Sizes &s, const Work &w, int64_t rows, const float *values, int64_t stride, int64_t count) {
  constexpr int WIDTH = 4;
  int64_t vectors = s.v_row / LANES;
  for (int64_t first = 0; first < vectors; first += WIDTH) {
    int64_t width = min<int64_t>(WIDTH, vectors - first);
    for (int64_t r = 0; r < rows; r++) {
      float *sum = w.sum + r * s.v_row + first * LANES;
      const float *weight = w.scores + r * KEYS, *value = values + first * LANES;
      if (width == WIDTH) {
        vfloat total[WIDTH];
        for (int i = 0; i < WIDTH; i++) total[i] = load(sum + i * LANES);
        for (int64_t j = 0; j < count; j++)
          for (int i = 0; i < WIDTH; i++) total[i] += weight[j] * load(value + j * stride + i * LANES);
        for (int i = 0; i < WIDTH; i++) store(sum + i * LANES, total[i]);
        continue;
      }
      for (int64_t i = 0; i < width; i++) {
        vfloat total = load(sum + i * LANES);
        for (int64_t j = 0; j < count; j++) total += weight[j] * load(value + j * stride + i * LANES);
        store(sum + i * LANES, total);
      }
    }
  }
}

void multiply_tile(const float *a, int64_t lda, const float *b, int64_t panel_stride, int64_t ldb, float *y, int64_t m,
                   int64_t n, int64_t k) {
  Product p{};
  p.m = m, p.n = n, p.k = k, p.a = a, p.lda = lda, p.b = b, p.panel_stride = panel_stride, p.ldb = ldb;
  p.y = y, p.ldy = n;
  multiply_panels(p, 0, m, 0, n / PANEL);
}

void add_bias(const Bias &bias, int64_t offset, int64_t count, float *scores) {
  const int64_t step = bias.strides[3];
  for (int64_t j = 0; j < count; j++) {
    int64_t at = offset + j * step;
    if (bias.dtype == F32) scores[j] += ((const float *)bias.data)[at];
    else if (bias.dtype == F16) scores[j] += (float)((const f16 *)bias.data)[at];
    else if (bias.dtype == BF16) scores[j] += (float)((const bf16 *)bias.data)[at];
    else if (!((const uint8_t *)bias.data)[at]) scores[j] = NOTHING;
  }
}

// Scores of one row and block become weights relative to the greatest score so far; older sums are scaled to match.
void soften(const Attention &op, const Sizes &s, const Work &w, const Tile &tile, int64_t r, int64_t key, int64_t count) {
  int64_t row = tile.first + r, position = row / op.group, head = tile.kv_head * op.group + row % op.group;
  float *scores = w.scores + r * KEYS, *greatest = w.greatest + r * LANES, *total = w.total + r * LANES;
  Range range = keys_of(op, tile.b, position);
  int64_t begin = min(max<int64_t>(range.begin - key, 0), count), end = min(max(range.end - key, begin), count);
  if (op.softcap > 0)
    for (int64_t j = 0; j < count; j += LANES)
      store(scores + j, vtanh(load(scores + j) * (1 / op.softcap)) * op.softcap);
  if (op.bias.data) {
    const int64_t *strides = op.bias.strides;
    add_bias(op.bias, tile.b * strides[0] + head * strides[1] + position * strides[2] + (key + begin) * strides[3],
             end - begin, scores + begin);
  }
  int64_t padded = round_up(count, LANES);
  for (int64_t j = 0; j < begin; j++) scores[j] = NOTHING;
  for (int64_t j = end; j < padded; j++) scores[j] = NOTHING;
  vfloat most = splat(*greatest);
  for (int64_t j = 0; j < padded; j += LANES) {
    vfloat x = load(scores + j);
    most = x > most ? x : most;
  }
  float limit = reduce_max(most);
  if (limit == NOTHING) {
    // No key is visible so far. NaN scores, which no comparison finds, must still show.
    for (int64_t j = 0; j < padded; j++) scores[j] = scores[j] == NOTHING ? 0 : scores[j];
    for (int64_t j = begin; j < end; j++) *total += scores[j];
    return;
  }
  float before = *greatest == NOTHING ? 0 : vexp(splat(*greatest - limit))[0];
  vfloat added = {};
  for (int64_t j = 0; j < padded; j += LANES) {
    vfloat weight = vexp(load(scores + j) - limit);
    store(scores + j, weight);
    added += weight;
  }
  if (before != 1) {
    float *sum = w.sum + r * s.v_row;
    for (int64_t c = 0; c < s.v_row; c += LANES) store(sum + c, load(sum + c) * before);
  }
  *total = *total * before + reduce_add(added);
  *greatest = limit;
}

void load_queries(const Attention &op, const Sizes &s, const Work &w, const Tile &tile) {
  for (int64_t r = 0; r < tile.rows; r++) {
    int64_t row = tile.first + r, head = tile.kv_head * op.group + row % op.group;
    float *q = w.q + r * s.q_row;
    copy_rows(op.q, 0, tile.b, head, row / op.group, 1, op.size, q, s.q_row);
    for (int64_t c = 0; c < s.q_row; c += LANES) store(q + c, load(q + c) * op.scale);
    if (op.k_scale) scale_columns(op.k_scale, tile.kv_head, op.size, q);
    w.greatest[r * LANES] = NOTHING;
    w.total[r * LANES] = 0;
  }
  memset(w.sum, 0, (size_t)(tile.rows * s.v_row) * sizeof(float));
}

// Weighted sums, total weights and greatest scores of a tile over keys [begin, end).
void run_tile(const Attention &op, const Sizes &s, const Work &w, const Tile &tile, int64_t begin, int64_t end) {
  load_queries(op, s, w, tile);
  for (int64_t key = begin; key < end; key += KEYS) {
    int64_t count = min(KEYS, end - key);
    const float *keys = (const float *)op.k.data + op.k.at(tile.b, tile.kv_head, key);
    const float *values = (const float *)op.v.data + op.v.at(tile.b, tile.kv_head, key);
    int64_t key_stride = op.k.position_stride, value_stride = op.v.position_stride;
    if (s.copies_k && (!s.tall || op.k.dtype != F32)) {
      copy_rows(op.k, op.bits, tile.b, tile.kv_head, key, count, op.size, w.keys, s.q_row);
      keys = w.keys, key_stride = s.q_row;
    }
    if (s.copies_v) {
      copy_rows(op.v, op.bits, tile.b, tile.kv_head, key, count, op.v_size, w.values, s.v_row);
      values = w.values, value_stride = s.v_row;
    }
    if (s.tall) {
      float *panels = w.keys + KEYS * s.q_row;
      for (int64_t first = 0; first < count; first += PANEL) {
        float *panel = panels + first * op.size;
        int64_t columns = min<int64_t>(PANEL, count - first);
        transpose(keys + first * key_stride, key_stride, panel, PANEL, columns, op.size);
        if (columns < PANEL)
          for (int64_t c = 0; c < op.size; c++)
            memset(panel + c * PANEL + columns, 0, (size_t)(PANEL - columns) * sizeof(float));
      }
      int64_t columns = round_up(count, PANEL);
      Product p{};
      p.m = tile.rows, p.n = columns, p.k = op.size, p.a = w.q, p.lda = s.q_row;
      p.b = panels, p.panel_stride = op.size * PANEL, p.ldb = PANEL, p.y = w.scores, p.ldy = KEYS;
      multiply_panels(p, 0, p.m, 0, columns / PANEL);
    } else {
      short_scores(s, w, tile.rows, keys, key_stride, count);
    }
    for (int64_t r = 0; r < tile.rows; r++) soften(op, s, w, tile, r, key, count);
    if (s.tall) {
      multiply_tile(w.scores, KEYS, values, PANEL, value_stride, w.product, tile.rows, s.v_row, count);
      for (int64_t i = 0; i < tile.rows * s.v_row; i += LANES) store(w.sum + i, load(w.sum + i) + load(w.product + i));
    } else {
      short_sums(s, w, tile.rows, values, value_stride, count);
    }
  }
}

// The row of y from a weighted sum; a sink takes weight and gives nothing.
void finish_row(const Attention &op, const Tile &tile, int64_t r, float *sum, float greatest, float total) {
  int64_t row = tile.first + r, position = row / op.group, head = tile.kv_head * op.group + row % op.group;
  float factor = 1;
  if (op.sink || op.smooth) {
    float sink = 0;
    if (op.sink) load_floats(op.sink->dtype, op.sink->data, head, 1, &sink);
    float limit = max(sink, greatest);
    factor = greatest == NOTHING ? 0 : vexp(splat(greatest - limit))[0];
    total = total * factor + vexp(splat(sink - limit))[0];
  }
  // A row that sees no key is zero.
  factor = total == 0 ? 0 : factor / total;
  for (int64_t c = 0; c < op.v_size; c++) sum[c] *= factor;
  if (op.v_scale) scale_columns(op.v_scale, tile.kv_head, op.v_size, sum);
  store_floats(op.y.dtype, op.y.data, op.y.at(tile.b, head, position), op.v_size, sum);
}

// Keys that any row of a tile sees.
Range keys_of_tile(const Attention &op, const Tile &tile) {
  Range first = keys_of(op, tile.b, tile.first / op.group);
  Range last = keys_of(op, tile.b, (tile.first + tile.rows - 1) / op.group);
  return {min(first.begin, last.begin), max(first.end, last.end)};
}

// Sums of a part of the keys, kept until all parts are there: [rows][v_row], then greatest and total of every row.
void keep_part(const Sizes &s, const Work &w, int64_t rows, float *part) {
  memcpy(part, w.sum, (size_t)(rows * s.v_row) * sizeof(float));
  float *statistics = part + s.rows * s.v_row;
  for (int64_t r = 0; r < rows; r++) statistics[2 * r] = w.greatest[r * LANES], statistics[2 * r + 1] = w.total[r * LANES];
}

void merge_parts(const Attention &op, const Sizes &s, const Tile &tile, float *parts, int64_t part_floats, int64_t splits) {
  for (int64_t r = 0; r < tile.rows; r++) {
    float greatest = NOTHING, total = 0;
    for (int64_t i = 0; i < splits; i++) greatest = max(greatest, parts[i * part_floats + s.rows * s.v_row + 2 * r]);
    float *sum = parts + r * s.v_row;
    for (int64_t i = 0; i < splits; i++) {
      const float *part = parts + i * part_floats, *statistics = part + s.rows * s.v_row + 2 * r;
      float factor = statistics[0] == NOTHING ? 0 : vexp(splat(statistics[0] - greatest))[0];
      // A part without a visible key has nothing but, perhaps, a NaN to add.
      total += statistics[0] == NOTHING ? statistics[1] : statistics[1] * factor;
      for (int64_t c = 0; c < s.v_row; c += LANES) {
        vfloat scaled = load(part + r * s.v_row + c) * factor;
        store(sum + c, i ? load(sum + c) + scaled : scaled);
      }
    }
    finish_row(op, tile, r, sum, greatest, total);
  }
}

int32_t run(hipc_context *context, const Attention &op) {
  Sizes s(op);
  int64_t all = op.group * op.q.positions, tiles = ceil_div(all, s.rows), count = op.q.batch * op.kv_heads * tiles;
  int64_t threads = hipc_num_threads(context), longest = 0;
  for (int64_t b = 0; b < op.q.batch; b++) longest = max(longest, op.valid.of(b));
  int64_t splits = count >= 2 * threads || threads == 1 ? 1 : ceil_div(2 * threads, count);
  splits = max<int64_t>(1, min(splits, longest / SPLIT_KEYS));
  int64_t part = splits > 1 ? round_up(s.rows * (s.v_row + 2), 16) : 0;
  float *scratch = (float *)hipc_scratch(context, (threads * s.floats + count * splits * part) * (int64_t)sizeof(float));
  if (!scratch) return HIPC_ERROR_MEMORY;
  float *parts = scratch + threads * s.floats;
  auto tile_at = [&](int64_t number) {
    int64_t first = number % tiles * s.rows, head = number / tiles;
    return Tile{head / op.kv_heads, head % op.kv_heads, first, min(s.rows, all - first)};
  };
  int64_t cost = s.rows * (longest / splits + 1) * (op.size + op.v_size) / 16 + 1;
  parallel_for_threads(context, count * splits, cost, [&](int64_t begin, int64_t end, int32_t thread) {
    Work work = s.work(scratch + thread * s.floats);
    for (int64_t task = begin; task < end; task++) {
      Tile tile = tile_at(task / splits);
      Range keys = keys_of_tile(op, tile);
      int64_t split = task % splits, span = keys.end - keys.begin;
      run_tile(op, s, work, tile, keys.begin + span * split / splits, keys.begin + span * (split + 1) / splits);
      if (splits > 1) {
        keep_part(s, work, tile.rows, parts + task * part);
        continue;
      }
      for (int64_t r = 0; r < tile.rows; r++)
        finish_row(op, tile, r, work.sum + r * s.v_row, work.greatest[r * LANES], work.total[r * LANES]);
    }
  });
  if (splits > 1)
    for (int64_t i = 0; i < count; i++) merge_parts(op, s, tile_at(i), parts + i * splits * part, part, splits);
  return HIPC_OK;
}

int32_t read_lengths(hipc_context *context, const char *what, const hipc_tensor *tensor, int64_t batch, int64_t least,
                     int64_t most, Lengths *out) {
  if (!tensor) return HIPC_OK;
  if (tensor->dtype != I32 || (elements(tensor) != batch && elements(tensor) != 1))
    return hipc_error(context, HIPC_ERROR_SHAPE, "attention: %s must be %lld numbers of type int32", what, (long long)batch);
  *out = {data<int32_t>(tensor), elements(tensor), 0};
  for (int64_t i = 0; i < out->count; i++)
    if (out->data[i] < least || out->data[i] > most)
      return hipc_error(context, HIPC_ERROR_VALUE, "attention: %s of batch entry %lld is %d; the cache holds %lld", what,
                        (long long)i, out->data[i], (long long)most);
  return HIPC_OK;
}

int32_t read_bias(hipc_context *context, const hipc_tensor *tensor, const Attention &op, Bias *out) {
  if (!tensor) return HIPC_OK;
  const int64_t wanted[4] = {op.q.batch, op.q_heads, op.q.positions, 0};
  int64_t stride = 1, missing = 4 - tensor->rank, valid = 0;
  for (int64_t b = 0; b < op.q.batch; b++) valid = max(valid, op.valid.of(b));
  if (missing < 0) return hipc_error(context, HIPC_ERROR_SHAPE, "attention: the bias has rank %d", tensor->rank);
  for (int32_t i = tensor->rank - 1; i >= 0; i--) {
    int64_t axis = missing + i, extent = tensor->shape[i];
    bool fits = extent == 1 || (axis == 3 ? extent >= valid : extent == wanted[axis]);
    if (!fits)
      return hipc_error(context, HIPC_ERROR_SHAPE, "attention: the bias has extent %lld on axis %lld, expected %lld",
                        (long long)extent, (long long)axis, (long long)(axis == 3 ? valid : wanted[axis]));
    out->strides[axis] = extent == 1 ? 0 : stride;
    stride *= extent;
  }
  out->data = tensor->data, out->dtype = tensor->dtype;
  if (is_attention_type(out->dtype) || element_size(out->dtype) == 1) return HIPC_OK;
  return unsupported_dtype(context, "attention bias", out->dtype);
}

// Everything but k and v.
struct Others {
  const hipc_tensor *q, *bias, *past_lengths, *lengths, *sink;
  hipc_tensor *y;
  int64_t q_first;
};

// Reads and checks the others, then runs; heads, sizes, k and v are there.
int32_t attend(hipc_context *context, Attention &op, const Others &in) {
  if (op.kv_heads <= 0 || op.q_heads % op.kv_heads || op.size <= 0 || op.v_size <= 0)
    return hipc_error(context, HIPC_ERROR_SHAPE, "attention of %lld heads over %lld of size %lld", (long long)op.q_heads,
                      (long long)op.kv_heads, (long long)op.size);
  HIPC_TRY(read_heads(context, OP, "q", in.q, op.q_heads, op.size, in.q_first, &op.q));
  HIPC_TRY(read_heads(context, OP, "y", in.y, op.q_heads, op.v_size, 0, &op.y));
  if (!is_attention_type(in.q->dtype) || in.y->dtype != in.q->dtype) return unsupported_dtype(context, OP, in.q->dtype);
  if (op.k.batch != op.q.batch || op.v.batch != op.q.batch || op.y.batch != op.q.batch ||
      op.k.positions != op.v.positions || op.y.positions != op.q.positions)
    return hipc_error(context, HIPC_ERROR_SHAPE, "attention: q, k, v and y differ in batch or positions");
  if (in.sink && (elements(in.sink) != op.q_heads || !is_attention_type(in.sink->dtype)))
    return hipc_error(context, HIPC_ERROR_SHAPE, "attention: %lld sinks of %s", (long long)elements(in.sink),
                      dtype_name(in.sink->dtype));
  op.group = op.q_heads / op.kv_heads, op.sink = in.sink, op.valid.otherwise = op.k.positions;
  HIPC_TRY(read_lengths(context, "the past length", in.past_lengths, op.q.batch, INT32_MIN, INT32_MAX, &op.past));
  HIPC_TRY(read_lengths(context, "the number of keys", in.lengths, op.q.batch, 0, op.k.positions, &op.valid));
  HIPC_TRY(read_bias(context, in.bias, op, &op.bias));
  if (elements(in.y) == 0) return HIPC_OK;
  return run(context, op);
}

} // namespace

HIPC_EXPORT int32_t hipc_attention(hipc_context *context, const hipc_tensor *q, const hipc_tensor *k,
                                   const hipc_tensor *v, const hipc_tensor *bias, const hipc_tensor *past_lengths,
                                   const hipc_tensor *lengths, const hipc_tensor *sink, hipc_tensor *y, int64_t q_heads,
                                   int64_t kv_heads, int64_t size, int64_t v_size, int64_t q_first, int64_t k_first,
                                   int64_t v_first, double scale, int64_t causal, int64_t window, double softcap,
                                   int64_t smooth) {
  HIPC_TRY(check_contiguous(context, OP, q, k, v, bias, past_lengths, lengths, sink, y));
  if (k->dtype != q->dtype || v->dtype != q->dtype)
    return hipc_error(context, HIPC_ERROR_UNSUPPORTED, "attention of %s, %s and %s", dtype_name(q->dtype),
                      dtype_name(k->dtype), dtype_name(v->dtype));
  Attention op{};
  HIPC_TRY(read_heads(context, OP, "k", k, kv_heads, size, k_first, &op.k));
  HIPC_TRY(read_heads(context, OP, "v", v, kv_heads, v_size, v_first, &op.v));
  op.q_heads = q_heads, op.kv_heads = kv_heads, op.size = size, op.v_size = v_size;
  op.window = window, op.scale = (float)scale, op.softcap = (float)softcap, op.causal = causal, op.smooth = smooth;
  return attend(context, op, {q, bias, past_lengths, lengths, sink, y, q_first});
}

HIPC_EXPORT int32_t hipc_attention_quantized(hipc_context *context, const hipc_tensor *q, const hipc_tensor *k,
                                             const hipc_tensor *v, const hipc_tensor *k_scale, const hipc_tensor *v_scale,
                                             const hipc_tensor *bias, const hipc_tensor *past_lengths,
                                             const hipc_tensor *lengths, const hipc_tensor *sink, hipc_tensor *y,
                                             int64_t q_heads, int64_t kv_heads, int64_t size, int64_t q_first, double scale,
                                             int64_t window, double softcap, int64_t smooth, int64_t bits) {
  HIPC_TRY(check_contiguous(context, OP, q, k, v, k_scale, v_scale, bias, past_lengths, lengths, sink, y));
  Attention op{};
  PackedHeads keys{}, values{};
  HIPC_TRY(read_packed_heads(context, OP, "k", k, kv_heads, size, bits, &keys));
  HIPC_TRY(read_packed_heads(context, OP, "v", v, kv_heads, size, bits, &values));
  for (const hipc_tensor *scales : (const hipc_tensor *[]){k_scale, v_scale})
    if (scales->dtype != F32 || (elements(scales) != 1 && elements(scales) != kv_heads * size))
      return hipc_error(context, HIPC_ERROR_SHAPE, "attention: %lld scales of %s for %lld heads of size %lld",
                        (long long)elements(scales), dtype_name(scales->dtype), (long long)kv_heads, (long long)size);
  op.k = keys.heads, op.v = values.heads, op.bits = bits, op.k_scale = k_scale, op.v_scale = v_scale;
  op.q_heads = q_heads, op.kv_heads = kv_heads, op.size = op.v_size = size;
  op.window = window, op.scale = (float)scale, op.softcap = (float)softcap, op.causal = true, op.smooth = smooth;
  return attend(context, op, {q, bias, past_lengths, lengths, sink, y, q_first});
}
