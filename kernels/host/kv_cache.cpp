// hipc_rotary: rotates pairs of columns of every head by an angle that depends on the position.
// hipc_kv_append: a cache of keys or values with new positions after the valid ones.
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
  if (in.batch != out.batch || (past && old.batch != out.batch))
    return hipc_error(context, HIPC_ERROR_SHAPE, "kv_append: batches of %lld and %lld", (long long)in.batch,
                      (long long)out.batch);
  if (lengths && (lengths->dtype != I32 || (elements(lengths) != 1 && elements(lengths) != in.batch)))
    return hipc_error(context, HIPC_ERROR_SHAPE, "kv_append: %lld lengths for a batch of %lld",
                      (long long)elements(lengths), (long long)in.batch);
  int64_t capacity = past ? old.positions : 0;
  auto valid = [&](int64_t b) {
    return lengths ? (int64_t)data<int32_t>(lengths)[elements(lengths) == 1 ? 0 : b] : capacity;
  };
  for (int64_t b = 0; b < in.batch; b++) {
    if (valid(b) < 0 || valid(b) > capacity)
      return hipc_error(context, HIPC_ERROR_VALUE, "kv_append: batch entry %lld says that %lld positions of the past are "
                        "valid; it holds %lld", (long long)b, (long long)valid(b), (long long)capacity);
    if (valid(b) + in.positions > out.positions)
      return hipc_error(context, HIPC_ERROR_VALUE, "kv_append: the cache holds %lld positions; batch entry %lld needs %lld",
                        (long long)out.positions, (long long)b, (long long)(valid(b) + in.positions));
  }
  // A cache that is appended to in place: what it holds stays, and nothing is copied.
  bool in_place = past && past->data == present->data && old.positions == out.positions;
  int64_t bytes = element_size(present->dtype), row = size * bytes;
  parallel_for(context, in.batch * heads, (in_place ? in.positions : out.positions) * size / 8 + 1,
               [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      int64_t b = i / heads, head = i % heads, kept = valid(b), filled = kept + in.positions;
      char *to = (char *)out.data + out.at(b, head, 0) * bytes;
      if (!in_place && kept) memcpy(to, (char *)old.data + old.at(b, head, 0) * bytes, (size_t)(kept * row));
      for (int64_t s = 0; s < in.positions; s++)
        memcpy(to + (kept + s) * row, (char *)in.data + in.at(b, head, s) * bytes, (size_t)row);
      if (!in_place) memset(to + filled * row, 0, (size_t)((out.positions - filled) * row));
    }
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
