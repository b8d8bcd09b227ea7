// Reductions over axes, positions of extremes, running sums and products, and the greatest of rows. A NaN is the greatest
// and the least element. Half precision is combined in float32; integers wrap around.
#include "hipc_math.h"

using namespace hipc;

namespace {

enum Kind : i32 { SUM, PRODUCT, GREATEST, LEAST };

template <class T> DEVICE Compute<T> neutral(i32 kind) {
  using C = Compute<T>;
  return kind == SUM ? (C)0 : kind == PRODUCT ? (C)1 : kind == GREATEST ? lowest<C>() : highest<C>();
}
template <class C> DEVICE C combined(i32 kind, C a, C b) {
  if (kind == SUM) return a + b;
  if (kind == PRODUCT) return a * b;
  if constexpr (is_float<C>) {
    if (a != a) return a;
    if (b != b) return b;
  }
  return (kind == GREATEST ? b > a : b < a) ? b : a;
}

// A block for each element of y.
template <class T> DEVICE void reduce_block(const T *x, T *y, const Space &kept, const Space &axes, i64 count, i64 size, i32 kind) {
  using C = Compute<T>;
  SHARED C shared[MOST_WAVES];
  for (i64 at = block(); at < count; at += blocks()) {
    const T *from = x + offset_of(kept, at);
    C total = neutral<T>(kind);
    for (i64 i = thread(); i < size; i += threads()) total = combined<C>(kind, total, widen(from[offset_of(axes, i)]));
    total = combine_block(total, shared, neutral<T>(kind), [=](C a, C b) { return combined<C>(kind, a, b); });
    if (thread() == 0) y[at] = narrow<T>(total);
  }
}

// A thread for each.
template <class T> DEVICE void reduce_thread(const T *x, T *y, const Space &kept, const Space &axes, i64 count, i64 size, i32 kind) {
  using C = Compute<T>;
  for (i64 at = global_thread(); at < count; at += global_threads()) {
    const T *from = x + offset_of(kept, at);
    C total = neutral<T>(kind);
    for (i64 i = 0; i < size; i++) total = combined<C>(kind, total, widen(from[offset_of(axes, i)]));
    y[at] = narrow<T>(total);
  }
}

// Whether a comes before b in an order by value, a NaN being greatest (and for argmin least), then by position.
template <class C> DEVICE bool before(C a, i64 a_at, C b, i64 b_at, bool greatest, bool last, bool nan_first) {
  if constexpr (is_float<C>) {
    bool a_nan = a != a, b_nan = b != b;
    if (a_nan != b_nan) return nan_first ? a_nan : b_nan;
    if (a_nan) return last ? a_at > b_at : a_at < b_at;
  }
  if (a != b) return greatest ? a > b : a < b;
  return last ? a_at > b_at : a_at < b_at;
}

template <class C> struct Ranked {
  C value;
  i64 at;  // -1: none
};
template <class C> DEVICE Ranked<C> better(Ranked<C> a, Ranked<C> b, bool greatest, bool last, bool nan_first) {
  if (a.at < 0) return b;
  if (b.at < 0) return a;
  return before(a.value, a.at, b.value, b.at, greatest, last, nan_first) ? a : b;
}
template <class C> DEVICE C exchanged(C value, u32 mask) {
  if constexpr (sizeof(C) == 8) {
    u64 bits = bit_cast<u64>(value);
    u64 low = from_lane((u32)bits, lane() ^ mask), high = from_lane((u32)(bits >> 32), lane() ^ mask);
    return bit_cast<C>(low | (high << 32));
  } else if constexpr (sizeof(C) == 4) {
    return bit_cast<C>(from_lane(bit_cast<u32>(value), lane() ^ mask));
  } else {
    return (C)from_lane((u32)value, lane() ^ mask);
  }
}
// The best of a block; every thread gets it.
template <class C> DEVICE Ranked<C> best_of_block(Ranked<C> own, Ranked<C> *shared, bool greatest, bool last, bool nan_first) {
  for (u32 mask = 1; mask < WAVE; mask <<= 1) {
    Ranked<C> other{exchanged(own.value, mask), exchanged(own.at, mask)};
    own = better(own, other, greatest, last, nan_first);
  }
  if (lane() == 0) shared[wave()] = own;
  barrier();
  Ranked<C> best = shared[0];
  for (u32 w = 1; w < waves(); w++) best = better(best, shared[w], greatest, last, nan_first);
  barrier();
  return best;
}

// [outer][length][inner] by blocks of one column.
template <class T> DEVICE void arg_reduce(const T *x, i64 *y, i64 columns, i64 length, i64 inner, i32 greatest, i32 last) {
  using C = Compute<T>;
  SHARED Ranked<C> shared[MOST_WAVES];
  for (i64 column = block(); column < columns; column += blocks()) {
    const T *from = x + column / inner * length * inner + column % inner;
    Ranked<C> best{(C)0, -1};
    for (i64 i = thread(); i < length; i += threads())
      best = better(best, Ranked<C>{widen(from[i * inner]), i}, greatest, last, true);
    best = best_of_block(best, shared, greatest, last, true);
    if (thread() == 0) y[column] = best.at;
  }
}

// The k first of every column in order, found one after the other: each the best of those behind the one before.
template <class T>
DEVICE void topk(const T *x, T *values, i64 *indices, i64 columns, i64 length, i64 inner, i64 k, i32 largest) {
  using C = Compute<T>;
  SHARED Ranked<C> shared[MOST_WAVES];
  for (i64 column = block(); column < columns; column += blocks()) {
    const T *from = x + column / inner * length * inner + column % inner;
    i64 to = column / inner * k * inner + column % inner;
    Ranked<C> found{(C)0, -1};
    for (i64 rank = 0; rank < k; rank++) {
      Ranked<C> best{(C)0, -1};
      for (i64 i = thread(); i < length; i += threads()) {
        C value = widen(from[i * inner]);
        bool behind = found.at < 0 || before(found.value, found.at, value, i, largest, false, largest);
        if (behind) best = better(best, Ranked<C>{value, i}, largest, false, largest);
      }
      found = best_of_block(best, shared, largest, false, largest);
      if (thread() == 0) values[to + rank * inner] = from[found.at * inner], indices[to + rank * inner] = found.at;
    }
  }
}

// A thread for each column, which adds or multiplies along it.
template <class T>
DEVICE void scan(const T *x, T *y, i64 columns, i64 length, i64 inner, i32 kind, i32 exclusive, i32 reverse) {
  using C = Compute<T>;
  for (i64 column = global_thread(); column < columns; column += global_threads()) {
    i64 first = column / inner * length * inner + column % inner;
    C running = neutral<T>(kind);
    for (i64 n = 0; n < length; n++) {
      i64 at = first + (reverse ? length - 1 - n : n) * inner;
      C next = combined<C>(kind, running, widen(x[at]));
      y[at] = narrow<T>(exclusive ? running : next);
      running = next;
    }
  }
}

} // namespace

#define DEFINE(WORD, T)                                                                                                \
  KERNEL(256) reduce_block_##WORD(const T *x, T *y, Space kept, Space axes, i64 count, i64 size, i32 kind) {           \
    reduce_block<T>(x, y, kept, axes, count, size, kind);                                                              \
  }                                                                                                                    \
  KERNEL(256) reduce_thread_##WORD(const T *x, T *y, Space kept, Space axes, i64 count, i64 size, i32 kind) {          \
    reduce_thread<T>(x, y, kept, axes, count, size, kind);                                                             \
  }                                                                                                                    \
  KERNEL(256) arg_reduce_##WORD(const T *x, i64 *y, i64 columns, i64 length, i64 inner, i32 greatest, i32 last) {      \
    arg_reduce<T>(x, y, columns, length, inner, greatest, last);                                                       \
  }                                                                                                                    \
  KERNEL(256) topk_##WORD(const T *x, T *values, i64 *indices, i64 columns, i64 length, i64 inner, i64 k,              \
                          i32 largest) {                                                                               \
    topk<T>(x, values, indices, columns, length, inner, k, largest);                                                   \
  }                                                                                                                    \
  KERNEL(256) scan_##WORD(const T *x, T *y, i64 columns, i64 length, i64 inner, i32 kind, i32 exclusive, i32 reverse) {\
    scan<T>(x, y, columns, length, inner, kind, exclusive, reverse);                                                   \
  }
HIPC_NUMBERS(DEFINE)
