// One decoder layer's new queries, keys and values: q and k are rotated by the angles of their positions, k and v go into
// their caches. A wave has a few heads of one position, which share the angles. Where all of a head turns and lies in
// vectors, a lane has one of each half.
#include "hipc_attention.h"

using namespace hipc;

namespace {

constexpr int BLOCK = 128, HEADS = 4;

// A head on its way; one that is not turned is only copied.
template <class T> struct Head {
  const T *from;
  T *to;
  bool turns;
};

struct Place {
  i64 row, at, angle;  // of the position among all, in its cache, and in the tables
  i32 b;
};

template <class T> struct Layer {
  PackedArgument q, k, v;
  CacheArgument cache;
  T *rotated;
  i32 q_heads, kv_heads, size;

  // q's heads, then those of k, then those of v.
  __attribute__((device, always_inline)) Head<T> head(const Place &place, i32 number) const {
    i32 shared = number - q_heads;
    bool is_q = shared < 0, is_k = !is_q && shared < kv_heads;
    i32 own = is_q ? number : is_k ? shared : shared - kv_heads;
    const void *data = is_q ? q.data : is_k ? k.data : v.data;
    i64 stride = is_q ? q.stride : is_k ? k.stride : v.stride, first = is_q ? q.first : is_k ? k.first : v.first;
    Head<T> head;
    head.from = (const T *)data + place.row * stride + first + (i64)own * size;
    head.to = is_q ? rotated + (place.row * q_heads + own) * size
                   : (T *)(is_k ? cache.k : cache.v) + (((i64)place.b * kv_heads + own) * cache.capacity + place.at) * size;
    head.turns = is_q || is_k;
    return head;
  }
};

// Of `lanes` lanes a head.
template <class T> DEVICE void turn_vectors(const Layer<T> &layer, const Rotation &r, const Place &place, i32 lanes) {
  constexpr int V = LANE_VECTOR<T>;
  i32 of_wave = (i32)WAVE / lanes, own = (i32)lane() / lanes, at = (i32)lane() % lanes * V;
  i32 number = (block_y() * (BLOCK / WAVE) + wave()) * of_wave + own;
  if (own >= of_wave || number >= layer.q_heads + 2 * layer.kv_heads) return;
  Head<T> head = layer.head(place, number);
  auto x = load<T, V>(head.from + at), y = load<T, V>(head.from + r.half + at);
  if (head.turns) {
    i64 angles = place.angle * r.half + at;
    auto c = mixed_vector<V>(r.cos, r.table_dtype, angles), d = mixed_vector<V>(r.sin, r.table_dtype, angles);
    UNROLL for (int i = 0; i < V; i++) {
      f32 left = widen(x[i]), right = widen(y[i]);
      x[i] = narrow<T>(left * c[i] - right * d[i]), y[i] = narrow<T>(left * d[i] + right * c[i]);
    }
  }
  store<T, V>(head.to + at, x);
  store<T, V>(head.to + r.half + at, y);
}

template <class T> DEVICE void turn_each(const Layer<T> &layer, const Rotation &r, const Place &place) {
  i32 first = (block_y() * (BLOCK / WAVE) + wave()) * HEADS, heads = layer.q_heads + 2 * layer.kv_heads;
  if (first >= heads) return;
  Head<T> own[HEADS];
  UNROLL for (int h = 0; h < HEADS; h++) own[h] = layer.head(place, min(first + h, heads - 1));
  for (i32 i = lane(); i < r.half; i += WAVE) {
    i32 one = r.interleaved ? 2 * i : i, other = r.interleaved ? 2 * i + 1 : i + r.half;
    i64 angle = place.angle * r.half + i;
    f32 c = mixed_at(r.cos, r.table_dtype, angle), d = mixed_at(r.sin, r.table_dtype, angle);
    f32 x[HEADS], y[HEADS];
    UNROLL for (int h = 0; h < HEADS; h++) x[h] = widen(own[h].from[one]), y[h] = widen(own[h].from[other]);
    UNROLL for (int h = 0; h < HEADS; h++) {
      bool turns = own[h].turns;
      own[h].to[one] = narrow<T>(turns ? x[h] * c - y[h] * d : x[h]);
      own[h].to[other] = narrow<T>(turns ? x[h] * d + y[h] * c : y[h]);
    }
  }
  for (i32 i = 2 * r.half + lane(); i < layer.size; i += WAVE) {
    UNROLL for (int h = 0; h < HEADS; h++) own[h].to[i] = own[h].from[i];
  }
}

// Grid: positions, heads, batch. `lanes` of a head that lies in vectors, else 0.
template <class T> DEVICE void rotary_append(const Layer<T> &layer, const Rotation &r, i32 length, i32 lanes, i32 *fault) {
  i32 s = block(), b = block_z();
  const CacheArgument &cache = layer.cache;
  Place place{(i64)b * length + s, (i64)cache.lengths[cache.one_length ? 0 : b] + s, 0, b};
  place.angle = r.positions ? r.positions[place.row] : place.at;
  if (place.at < 0 || place.at >= cache.capacity || (r.half && (place.angle < 0 || place.angle >= r.rows))) {
    if (lane() == 0) *fault = 1;
    return;
  }
  if (lanes) turn_vectors(layer, r, place, lanes);
  else turn_each(layer, r, place);
}

// A cache in another buffer: what the old one holds, and zeros behind it. One block per head of a batch entry.
template <class T>
DEVICE void cache_move(const T *past, T *present, const i32 *lengths, i32 one_length, i32 heads, i32 size,
                       i64 old_capacity, i64 capacity) {
  i64 kept = min((i64)lengths[one_length ? 0 : block() / heads], min(old_capacity, capacity)) * size;
  past += block() * old_capacity * size, present += block() * capacity * size;
  for (i64 i = (i64)block_y() * threads() + thread(); i < capacity * size; i += 64 * (i64)threads())
    present[i] = i < kept ? past[i] : T(0);
}

} // namespace

#define ROTARY_APPEND(WORD, T)                                                                                         \
  KERNEL(BLOCK) rotary_append_##WORD(PackedArgument q, PackedArgument k, PackedArgument v, Rotation r,                 \
                                     CacheArgument cache, T *rotated, i32 q_heads, i32 kv_heads, i32 size, i32 length, \
                                     i32 lanes, i32 *fault) {                                                          \
    rotary_append<T>({q, k, v, cache, rotated, q_heads, kv_heads, size}, r, length, lanes, fault);                     \
  }
HIPC_FLOATS(ROTARY_APPEND)

// Launched in a grid of (batch * heads, 64) blocks.
#define CACHE_MOVE(WORD, T)                                                                                            \
  KERNEL(256) cache_move_##WORD(const T *past, T *present, const i32 *lengths, i32 one_length, i32 heads, i32 size,    \
                                i64 old_capacity, i64 capacity) {                                                      \
    cache_move<T>(past, present, lengths, one_length, heads, size, old_capacity, capacity);                            \
  }
CACHE_MOVE(b2, u16) CACHE_MOVE(b4, u32)
