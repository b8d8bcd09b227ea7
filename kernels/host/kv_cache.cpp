// hipc_rotary: rotates pairs of columns of every head by an angle that depends on the position.
// hipc_kv_append: a cache of keys or values with new positions after the valid ones; hipc_kv_append_quantized rounds them.
// hipc_kv_window: the last positions of a cache, for one that keeps no more.
#include "heads.h"

using namespace hipc;

namespace {

// Angles of one position: cos and sin of `half` pairs.
struct Angles {
  const hipc_tensor *cos, *sin;
  int64_t half;
  void load(int64_t row, float *c, float *s) const {
    load_floats(cos->dtype, cos->data, row * half, half, c);
    load_floats(sin->dtype, sin->data, row * half, half, s);
  }
};

template <bool interleaved>
void rotate(const float *x, float *y, const float *c, const float *s, int64_t half) {
  for (int64_t i = 0; i < half; i++) {
    int64_t first = interleaved ? 2 * i : i, second = interleaved ? 2 * i + 1 : i + half;
    float a = x[first], b = x[second];
    y[first] = a * c[i] - b * s[i];
    y[second] = a * s[i] + b * c[i];
  }
}

// Row of the tables for every (batch entry, position); positions are checked against the tables' length.
struct Places {
  const hipc_tensor *positions;
  int64_t length;
  int64_t row(int64_t b, int64_t s) const {
    if (!positions) return b * length + s;
    const int64_t *p = data<int64_t>(positions);
    return elements(positions) == 1 ? p[0] + s : p[b * length + s];
  }
};

constexpr int64_t MAX_SIZE = 1024;

// Positions of a cache that count, per batch entry.
struct ValidLengths {
  const hipc_tensor *lengths;
  int64_t capacity;
  int64_t of(int64_t b) const {
    return lengths ? (int64_t)data<int32_t>(lengths)[elements(lengths) == 1 ? 0 : b] : capacity;
  }
};

// `old` is empty where there is no past.
int32_t check_append(hipc_context *context, const char *op, const Heads &in, const Heads &old, const Heads &out,
                     const ValidLengths &valid) {
  const hipc_tensor *lengths = valid.lengths;
  if (in.batch != out.batch || (old.data && old.batch != out.batch))
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: batches of %lld and %lld", op, (long long)in.batch,
                      (long long)out.batch);
  if (lengths && (lengths->dtype != I32 || (elements(lengths) != 1 && elements(lengths) != in.batch)))
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: %lld lengths for a batch of %lld", op,
                      (long long)elements(lengths), (long long)in.batch);
  for (int64_t b = 0; b < in.batch; b++) {
    if (valid.of(b) < 0 || valid.of(b) > old.positions)
      return hipc_error(context, HIPC_ERROR_VALUE, "%s: batch entry %lld says that %lld positions of the past are "
                        "valid; it holds %lld", op, (long long)b, (long long)valid.of(b), (long long)old.positions);
    if (valid.of(b) + in.positions > out.positions)
      return hipc_error(context, HIPC_ERROR_VALUE, "%s: the cache holds %lld positions; batch entry %lld needs %lld", op,
                        (long long)out.positions, (long long)b, (long long)(valid.of(b) + in.positions));
  }
  return HIPC_OK;
}

// The cache after an append, head by head: write(b, head, s, to) stores new position s, of `row` bytes.
template <class Write>
void append_rows(hipc_context *context, const Heads &in, const Heads &old, const Heads &out, const ValidLengths &valid,
                 int64_t heads, int64_t row, int64_t cost, Write &&write) {
  // A cache that is appended to in place: what it holds stays, and nothing is copied.
  bool in_place = old.data && old.data == out.data && old.positions == out.positions;
  parallel_for(context, in.batch * heads, (in_place ? 0 : out.positions) * row / 32 + in.positions * cost + 1,
               [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      int64_t b = i / heads, kept = valid.of(b), filled = kept + in.positions;
      char *to = (char *)out.data + i * out.positions * row;
      if (!in_place && kept) memcpy(to, (const char *)old.data + i * old.positions * row, (size_t)(kept * row));
      for (int64_t s = 0; s < in.positions; s++) write(b, i % heads, s, to + (kept + s) * row);
      if (!in_place) memset(to + filled * row, 0, (size_t)((out.positions - filled) * row));
    }
  });
}

// Scales of a cache: one, or one for every column of every head.
struct Scales {
  const float *data;
  bool single;
  float of(int64_t column) const { return data[single ? 0 : column]; }
};

// One head of one position: the nearest integers to x / scale, within the range of their bits.
void quantise(const float *x, const Scales &scales, int64_t first, int64_t size, int64_t bits, uint8_t *to) {
  float least = bits == 8 ? -128 : -8, most = bits == 8 ? 127 : 7;
  int8_t levels[MAX_SIZE];
  for (int64_t c = 0; c < size; c++) {
    float level = x[c] / scales.of(first + c);
    // A NaN has no level: it becomes the least.
    levels[c] = (int8_t)(level > least ? __builtin_rintf(level < most ? level : most) : least);
  }
  if (bits == 8) memcpy(to, levels, (size_t)size);
  else
    for (int64_t c = 0; c < size; c += 2) to[c / 2] = (uint8_t)((levels[c] + 8) | (levels[c + 1] + 8) << 4);
}

} // namespace

HIPC_EXPORT int32_t hipc_rotary(hipc_context *context, const hipc_tensor *x, const hipc_tensor *cos,
                                const hipc_tensor *sin, const hipc_tensor *positions, hipc_tensor *y, int64_t heads,
                                int64_t size, int64_t first, int64_t interleaved) {
  const char *op = "rotary";
  HIPC_TRY(check_contiguous(context, op, x, cos, sin, positions, y));
  Heads in{}, out{};
  HIPC_TRY(read_heads(context, op, "x", x, heads, size, first, &in));
  HIPC_TRY(read_heads(context, op, "y", y, heads, size, 0, &out));
  if (!is_attention_type(x->dtype) || y->dtype != x->dtype) return unsupported_dtype(context, op, x->dtype);
  if (!is_attention_type(cos->dtype) || sin->dtype != cos->dtype) return unsupported_dtype(context, op, cos->dtype);
  if (in.batch != out.batch || in.positions != out.positions || !same_shape(cos, sin) || cos->rank != (positions ? 2 : 3))
    return hipc_error(context, HIPC_ERROR_SHAPE, "rotary: the shapes of x, y, cos and sin do not agree");
  int64_t half = cos->shape[cos->rank - 1], length = in.positions, rows = extent(cos, 0, cos->rank - 1);
  if (2 * half > size || size > MAX_SIZE)
    return hipc_error(context, HIPC_ERROR_SHAPE, "rotary: %lld pairs of heads of size %lld (at most %lld)",
                      (long long)half, (long long)size, (long long)MAX_SIZE);
  if (positions && (positions->dtype != I64 || (elements(positions) != 1 && elements(positions) != in.batch * length)))
    return hipc_error(context, HIPC_ERROR_SHAPE, "rotary: %lld positions for %lld of x", (long long)elements(positions),
                      (long long)(in.batch * length));
  Places places{positions, length};
  for (int64_t i = 0; i < in.batch * length; i++) {
    int64_t row = places.row(i / length, i % length);
    if (row < 0 || row >= rows)
      return hipc_error(context, HIPC_ERROR_INDEX, "rotary: position %lld is outside the tables of %lld rows",
                        (long long)row, (long long)rows);
  }
  Angles angles{cos, sin, half};
  parallel_for(context, in.batch * length, heads * size + half, [&](int64_t begin, int64_t end) {
    float c[MAX_SIZE / 2], s[MAX_SIZE / 2], from[MAX_SIZE], to[MAX_SIZE];
    for (int64_t i = begin; i < end; i++) {
      int64_t b = i / length, position = i % length;
      angles.load(places.row(b, position), c, s);
      for (int64_t head = 0; head < heads; head++) {
        load_floats(in.dtype, in.data, in.at(b, head, position), size, from);
        memcpy(to + 2 * half, from + 2 * half, (size_t)(size - 2 * half) * sizeof(float));
        if (interleaved) rotate<true>(from, to, c, s, half);
        else rotate<false>(from, to, c, s, half);
        store_floats(out.dtype, out.data, out.at(b, head, position), size, to);
      }
    }
  });
  return HIPC_OK;
}

HIPC_EXPORT int32_t hipc_kv_append(hipc_context *context, const hipc_tensor *update, const hipc_tensor *past,
                                   const hipc_tensor *lengths, hipc_tensor *present, int64_t heads, int64_t size,
                                   int64_t first) {
  const char *op = "kv_append";
  HIPC_TRY(check_contiguous(context, op, update, past, lengths, present));
  Heads in{}, old{}, out{};
  HIPC_TRY(read_heads(context, op, "update", update, heads, size, first, &in));
  HIPC_TRY(read_heads(context, op, "present", present, heads, size, 0, &out));
  if (past) HIPC_TRY(read_heads(context, op, "past", past, heads, size, 0, &old));
  if (update->dtype != present->dtype || (past && past->dtype != present->dtype))
    return hipc_error(context, HIPC_ERROR_UNSUPPORTED, "kv_append of %s to a cache of %s", dtype_name(update->dtype),
                      dtype_name(present->dtype));
  ValidLengths valid{lengths, old.positions};
  HIPC_TRY(check_append(context, op, in, old, out, valid));
  int64_t bytes = element_size(present->dtype), row = size * bytes;
  append_rows(context, in, old, out, valid, heads, row, size / 8, [&](int64_t b, int64_t head, int64_t s, char *to) {
    memcpy(to, (const char *)in.data + in.at(b, head, s) * bytes, (size_t)row);
  });
  return HIPC_OK;
}

HIPC_EXPORT int32_t hipc_kv_append_quantized(hipc_context *context, const hipc_tensor *update, const hipc_tensor *scale,
                                             const hipc_tensor *past, const hipc_tensor *lengths, hipc_tensor *present,
                                             int64_t heads, int64_t size, int64_t first, int64_t bits) {
  const char *op = "kv_append_quantized";
  HIPC_TRY(check_contiguous(context, op, update, scale, past, lengths, present));
  Heads in{};
  PackedHeads old{}, out{};
  HIPC_TRY(read_heads(context, op, "update", update, heads, size, first, &in));
  HIPC_TRY(read_packed_heads(context, op, "present", present, heads, size, bits, &out));
  if (past) HIPC_TRY(read_packed_heads(context, op, "past", past, heads, size, bits, &old));
  if (!is_attention_type(update->dtype)) return unsupported_dtype(context, op, update->dtype);
  if (scale->dtype != F32 || (elements(scale) != 1 && elements(scale) != heads * size) || size > MAX_SIZE)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: %lld scales of %s for %lld heads of size %lld (at most %lld)", op,
                      (long long)elements(scale), dtype_name(scale->dtype), (long long)heads, (long long)size,
                      (long long)MAX_SIZE);
  ValidLengths valid{lengths, old.heads.positions};
  HIPC_TRY(check_append(context, op, in, old.heads, out.heads, valid));
  Scales scales{data<float>(scale), elements(scale) == 1};
  append_rows(context, in, old.heads, out.heads, valid, heads, size * bits / 8, size * 2,
              [&](int64_t b, int64_t head, int64_t s, char *to) {
    float row[MAX_SIZE];
    load_floats(in.dtype, in.data, in.at(b, head, s), size, row);
    quantise(row, scales, head * size, size, bits, (uint8_t *)to);
  });
  return HIPC_OK;
}

HIPC_EXPORT int32_t hipc_kv_window(hipc_context *context, const hipc_tensor *staged, const hipc_tensor *filled,
                                   const hipc_tensor *kept, hipc_tensor *present, int64_t window) {
  const char *op = "kv_window";
  HIPC_TRY(check_contiguous(context, op, staged, filled, kept, present));
  const int64_t *shape = present->shape, batch = shape[0], heads = shape[1], capacity = shape[2];
  if (staged->dtype != present->dtype || filled->dtype != I32 || kept->dtype != I32)
    return unsupported_dtype(context, op, staged->dtype);
  if (staged->rank != 4 || present->rank != 4 || staged->shape[0] != batch || staged->shape[1] != heads ||
      staged->shape[3] != shape[3] || elements(filled) != batch || elements(kept) != batch)
    return hipc_error(context, HIPC_ERROR_SHAPE, "kv_window: the shapes of the caches do not agree");
  if (capacity < window)
    return hipc_error(context, HIPC_ERROR_VALUE, "kv_window: the cache holds %lld positions; the window needs %lld",
                      (long long)capacity, (long long)window);
  for (int64_t b = 0; b < batch; b++) {
    int32_t all = data<int32_t>(filled)[b], last = data<int32_t>(kept)[b];
    if (last < 0 || last > capacity || last > all || all > staged->shape[2])
      return hipc_error(context, HIPC_ERROR_VALUE, "kv_window: batch entry %lld keeps %d of %d positions; the cache holds %lld",
                        (long long)b, last, all, (long long)capacity);
  }
  int64_t row = shape[3] * element_size(present->dtype);
  parallel_for(context, batch * heads, capacity * row / 64 + 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      int64_t all = data<int32_t>(filled)[i / heads], last = data<int32_t>(kept)[i / heads];
      char *to = (char *)present->data + i * capacity * row;
      memcpy(to, (const char *)staged->data + (i * staged->shape[2] + all - last) * row, (size_t)(last * row));
      memset(to + last * row, 0, (size_t)((capacity - last) * row));
    }
  });
  return HIPC_OK;
}
