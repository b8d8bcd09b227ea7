// Rotary positions, appending to a cache of keys or values, and the last positions of one.
#include "hipc_math.h"
#include "hipc_mixed.h"
#include "shared/recurrent.h"

using namespace hipc;

namespace {

constexpr i32 FAULT_POSITION = 1;  // of kernels/runtime/gpu.h

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
    if (row < 0 || row >= op.rows) {
      *op.fault = FAULT_POSITION;
      continue;
    }
    f32 a = widen(x[first]), c = widen(x[second]);
    f32 cosine = mixed_at(op.cos, op.angle_dtype, row * op.half + pair);
    f32 sine = mixed_at(op.sin, op.angle_dtype, row * op.half + pair);
    y[first] = narrow<T>(a * cosine - c * sine);
    y[second] = narrow<T>(a * sine + c * cosine);
  }
}

using Append = CacheAppend;

// Elements of the cache: the old ones up to the valid length, then the new ones, then zeros. A thread an element of T.
template <class T> DEVICE void append(const Append &op) {
  i64 positions = op.in_place ? op.added : op.room, count = op.batch * op.heads * positions * op.size;
  for (i64 at = global_thread(); at < count; at += global_threads()) {
    i64 c = at % op.size, p = at / op.size % positions, head = at / op.size / positions % op.heads;
    i64 b = at / op.size / positions / op.heads;
    i64 valid = op.lengths ? (i64)op.lengths[op.lengths_count == 1 ? 0 : b] : op.capacity;
    if (valid < 0 || valid > op.capacity || valid + op.added > op.room) {
      *op.fault = FAULT_POSITION;
      continue;
    }
    i64 position = op.in_place ? valid + p : p;
    T value = {};
    if (position >= valid && position < valid + op.added)
      value = ((const T *)op.update)[op.update_at.at(b, head, position - valid) + c];
    else if (position < valid) value = ((const T *)op.past)[op.past_at.at(b, head, position) + c];
    ((T *)op.present)[op.present_at.at(b, head, position) + c] = value;
  }
}

// The last of the filled positions from row 0 on, then zeros. A thread an element of T.
template <class T> DEVICE void window(const KvWindow &op) {
  i64 count = op.batch * op.heads * op.capacity * op.size;
  for (i64 at = global_thread(); at < count; at += global_threads()) {
    i64 c = at % op.size, p = at / op.size % op.capacity, head = at / op.size / op.capacity, b = head / op.heads;
    i32 all = op.filled[b], last = op.kept[b];
    if (last < 0 || last > op.capacity || last > all || all > op.room) {
      *op.fault = FAULT_POSITION;
      continue;
    }
    T value = {};
    if (p < last) value = ((const T *)op.staged)[(head * op.room + all - last + p) * op.size + c];
    ((T *)op.present)[at] = value;
  }
}

} // namespace

#define DEFINE(WORD, T)                                                                                                \
  KERNEL(256) rotary_##WORD(Rotary op) { rotary<T>(op); }
HIPC_FLOATS(DEFINE)
#undef DEFINE

#define DEFINE(WORD, T)                                                                                                \
  KERNEL(256) kv_append_##WORD(Append op) { append<T>(op); }                                                           \
  KERNEL(256) kv_window_##WORD(KvWindow op) { window<T>(op); }
HIPC_BYTES(DEFINE)
