// Reductions over axes, and positions of extremes. A NaN is the greatest and the least element. Half precision is combined in
// float32; integers wrap around.
#include "hipc_block.h"

using namespace hipc;

namespace {

enum Kind : i32 { SUM, PRODUCT, GREATEST, LEAST };

template <class C> DEVICE C neutral(i32 kind) {
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

DEVICE i64 offset_in(const Space &space, i64 at) { return space.rank <= 1 ? at * space.strides[0] : offset_of(space, at); }

// A block, or several, for each element of y.
template <class T> DEVICE void reduce_block(const Reduction &op) {
  using C = Compute<T>;
  SHARED C shared[MOST_WAVES];
  SHARED u32 last;
  i64 blocks_of = op.sharing.blocks, part = quotient(op.size + blocks_of - 1, blocks_of);
  for (i64 task = block(); task < op.count * blocks_of; task += blocks()) {
    i64 at = task, number = 0;
    if (blocks_of > 1) at = quotient(task, blocks_of), number = task - at * blocks_of;
    const T *from = (const T *)op.x + offset_in(op.kept, at);
    C total = neutral<C>(op.kind);
    i64 end = min(op.size, (number + 1) * part);
    for (i64 i = number * part + thread(); i < end; i += threads())
      total = combined<C>(op.kind, total, widen(from[offset_in(op.axes, i)]));
    total = join_block(total, shared, [&](C a, C b) __attribute__((always_inline)) { return combined<C>(op.kind, a, b); });
    if (blocks_of > 1) {
      C *parts = (C *)op.sharing.parts + at * blocks_of;
      if (thread() == 0) parts[number] = total;
      if (!ends_last(op.sharing, at, &last)) continue;
      // In order, so that a result is the same every time.
      total = neutral<C>(op.kind);
      for (i64 i = 0; i < blocks_of; i++) total = combined<C>(op.kind, total, parts[i]);
    }
    if (thread() == 0) ((T *)op.y)[at] = narrow<T>(total);
  }
}

// A thread for each.
template <class T> DEVICE void reduce_thread(const Reduction &op) {
  using C = Compute<T>;
  for (i64 at = global_thread(); at < op.count; at += global_threads()) {
    const T *from = (const T *)op.x + offset_in(op.kept, at);
    C total = neutral<C>(op.kind);
    for (i64 i = 0; i < op.size; i++) total = combined<C>(op.kind, total, widen(from[offset_in(op.axes, i)]));
    ((T *)op.y)[at] = narrow<T>(total);
  }
}

template <class C> struct Ranked {
  C value;
  i64 at;  // -1: none
};
// The one that comes first: by value, a NaN being before all, then by position.
template <class C> DEVICE Ranked<C> better(Ranked<C> a, Ranked<C> b, bool greatest, bool last) {
  bool a_nan = a.value != a.value, b_nan = b.value != b.value;
  bool same = a_nan ? b_nan : a.value == b.value;
  bool first = same ? (last ? a.at > b.at : a.at < b.at) : a_nan || (!b_nan && (greatest ? a.value > b.value : a.value < b.value));
  first = b.at < 0 || (first && a.at >= 0);
  return {first ? a.value : b.value, first ? a.at : b.at};
}
template <class C> DEVICE Ranked<C> value_of_lane(Ranked<C> value, u32 source) {
  return {hipc::value_of_lane(value.value, source), hipc::value_of_lane(value.at, source)};
}

// [outer][length][inner] by blocks of one column, or a part of it.
template <class T> DEVICE void arg_reduce(const ArgReduction &op) {
  using C = Compute<T>;
  SHARED Ranked<C> shared[MOST_WAVES];
  SHARED u32 last;
  i64 blocks_of = op.sharing.blocks, part = quotient(op.length + blocks_of - 1, blocks_of);
  auto first_of = [&](Ranked<C> a, Ranked<C> b) __attribute__((always_inline)) { return better(a, b, op.greatest, op.last); };
  for (i64 task = block(); task < op.columns * blocks_of; task += blocks()) {
    i64 column = quotient(task, blocks_of), number = task - column * blocks_of, line = quotient(column, op.inner);
    const T *from = (const T *)op.x + line * op.length * op.inner + (column - line * op.inner);
    Ranked<C> best{(C)0, -1};
    i64 end = min(op.length, (number + 1) * part);
    for (i64 i = number * part + thread(); i < end; i += threads()) best = first_of(best, Ranked<C>{widen(from[i * op.inner]), i});
    best = join_block(best, shared, first_of);
    if (blocks_of > 1) {
      Ranked<C> *parts = (Ranked<C> *)op.sharing.parts + column * blocks_of;
      if (thread() == 0) parts[number] = best;
      if (!ends_last(op.sharing, column, &last)) continue;
      for (i64 i = 0; i < blocks_of; i++) best = first_of(best, parts[i]);
    }
    if (thread() == 0) op.y[column] = best.at;
  }
}

} // namespace

#define DEFINE(WORD, T)                                                                                                \
  KERNEL(256) reduce_block_##WORD(Reduction op) { reduce_block<T>(op); }                                               \
  KERNEL(256) reduce_thread_##WORD(Reduction op) { reduce_thread<T>(op); }                                             \
  KERNEL(256) arg_reduce_##WORD(ArgReduction op) { arg_reduce<T>(op); }
HIPC_NUMBERS(DEFINE)
