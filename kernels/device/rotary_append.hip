// One decoder layer's new queries, keys and values: q and k are rotated by the angles of their positions, k and v go into
// their caches. A wave has a few heads of one position, which share the angles.
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

template <class T>
DEVICE void rotary_append(PackedArgument q, PackedArgument k, PackedArgument v, Rotation r, CacheArgument cache, T *rotated,
                          i32 q_heads, i32 kv_heads, i32 size, i32 length, i32 *fault) {
  i32 first = (block_y() * (BLOCK / WAVE) + wave()) * HEADS, s = block(), b = block_z(), heads = q_heads + 2 * kv_heads;
  if (first >= heads) return;
  i64 row = (i64)b * length + s, place = (i64)cache.lengths[cache.one_length ? 0 : b] + s;
  i64 angle = r.positions ? r.positions[row] : place;
  if (place < 0 || place >= cache.capacity || (r.half && (angle < 0 || angle >= r.rows))) {
    if (lane() == 0) *fault = 1;
    return;
  }
  Head<T> own[HEADS];
  UNROLL for (int h = 0; h < HEADS; h++) {
    i32 head = min(first + h, heads - 1), shared = head - q_heads;
    bool is_q = shared < 0, is_k = !is_q && shared < kv_heads;
    const PackedArgument &source = is_q ? q : is_k ? k : v;
    i32 number = is_q ? head : is_k ? shared : shared - kv_heads;
    own[h].from = (const T *)source.data + row * source.stride + source.first + (i64)number * size;
    own[h].to = is_q ? rotated + (row * q_heads + head) * size
                     : (T *)(is_k ? cache.k : cache.v) + (((i64)b * kv_heads + number) * cache.capacity + place) * size;
    own[h].turns = is_q || is_k;
  }
  for (i32 i = lane(); i < r.half; i += WAVE) {
    i32 one = r.interleaved ? 2 * i : i, other = r.interleaved ? 2 * i + 1 : i + r.half;
    f32 c = mixed_at(r.cos, r.table_dtype, angle * r.half + i), d = mixed_at(r.sin, r.table_dtype, angle * r.half + i);
    f32 x[HEADS], y[HEADS];
    UNROLL for (int h = 0; h < HEADS; h++) x[h] = widen(own[h].from[one]), y[h] = widen(own[h].from[other]);
    UNROLL for (int h = 0; h < HEADS; h++) {
      bool turns = own[h].turns;
      own[h].to[one] = narrow<T>(turns ? x[h] * c - y[h] * d : x[h]);
      own[h].to[other] = narrow<T>(turns ? x[h] * d + y[h] * c : y[h]);
    }
  }
  for (i32 i = 2 * r.half + lane(); i < size; i += WAVE) {
    UNROLL for (int h = 0; h < HEADS; h++) own[h].to[i] = own[h].from[i];
  }
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
                                     i32 *fault) {                                                                     \
    rotary_append<T>(q, k, v, r, cache, rotated, q_heads, kv_heads, size, length, fault);                              \
  }
HIPC_FLOATS(ROTARY_APPEND)

// Launched in a grid of (batch * heads, 64) blocks.
#define CACHE_MOVE(WORD, T)                                                                                            \
  KERNEL(256) cache_move_##WORD(const T *past, T *present, const i32 *lengths, i32 one_length, i32 heads, i32 size,    \
                                i64 old_capacity, i64 capacity) {                                                      \
    cache_move<T>(past, present, lengths, one_length, heads, size, old_capacity, capacity);                            \
  }
CACHE_MOVE(b2, u16) CACHE_MOVE(b4, u32)
