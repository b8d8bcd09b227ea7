// One decoder layer's new queries, keys and values: q and k are rotated by the angles of their positions, k and v go into
// their caches. One wave per head and position.
#include "hipc_attention.h"

using namespace hipc;

namespace {

constexpr int BLOCK = 128;

template <class T>
DEVICE void rotary_append(PackedArgument q, PackedArgument k, PackedArgument v, Rotation r, CacheArgument cache, T *rotated,
                          i32 q_heads, i32 kv_heads, i32 size, i32 length, i32 *fault) {
  i32 head = block() * (BLOCK / WAVE) + wave(), s = block_y(), b = block_z();
  if (head >= q_heads + 2 * kv_heads) return;
  i64 row = (i64)b * length + s, place = (i64)cache.lengths[cache.one_length ? 0 : b] + s;
  const T *from;
  T *to;
  bool turns = true, cached = head >= q_heads;
  if (!cached) {
    from = (const T *)q.data + row * q.stride + q.first + (i64)head * size;
    to = rotated + (row * q_heads + head) * size;
  } else {
    i32 shared = head - q_heads;
    turns = shared < kv_heads;
    if (!turns) shared -= kv_heads;
    const PackedArgument &source = turns ? k : v;
    from = (const T *)source.data + row * source.stride + source.first + (i64)shared * size;
    to = (T *)(turns ? cache.k : cache.v) + (((i64)b * kv_heads + shared) * cache.capacity + place) * size;
  }
  i64 angle = r.positions ? r.positions[row] : place;
  if ((cached && (place < 0 || place >= cache.capacity)) || (turns && r.half && (angle < 0 || angle >= r.rows))) {
    if (lane() == 0) *fault = 1;
    return;
  }
  i32 half = turns ? r.half : 0;
  for (i32 i = lane(); i < half; i += WAVE) {
    i32 one = r.interleaved ? 2 * i : i, other = r.interleaved ? 2 * i + 1 : i + half;
    f32 x = widen(from[one]), y = widen(from[other]);
    f32 c = mixed_at(r.cos, r.table_dtype, angle * half + i), d = mixed_at(r.sin, r.table_dtype, angle * half + i);
    to[one] = narrow<T>(x * c - y * d);
    to[other] = narrow<T>(x * d + y * c);
  }
  for (i32 i = 2 * half + lane(); i < size; i += WAVE) to[i] = from[i];
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
