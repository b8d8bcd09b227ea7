// Running sums and products. Half precision is combined in float32; integers wrap around, so that they need no sign.
#include "hipc_block.h"

using namespace hipc;

namespace {

constexpr i32 EACH = 4;  // neighbours that a thread of a block takes

template <class C> DEVICE C combined(bool product, C a, C b) { return product ? a * b : a + b; }

// Combines what the threads before this one hold; `total` becomes that of all threads.
template <class C> DEVICE C before_thread(bool product, C own, C *shared, C *total) {
  C neutral = product ? (C)1 : (C)0, running = own;
  _Pragma("nounroll") for (u32 step = 1; step < WAVE; step <<= 1) {
    C other = value_of_lane(running, (lane() - step) % WAVE);
    if (lane() >= step) running = combined(product, other, running);
  }
  if (lane() == WAVE - 1) shared[wave()] = running;
  barrier();
  C before = neutral, all = neutral;
  _Pragma("nounroll") for (u32 w = 0; w < waves(); w++) {
    if (w == wave()) before = all;
    all = combined(product, all, shared[w]);
  }
  barrier();
  *total = all;
  C beside = value_of_lane(running, (lane() - 1) % WAVE);
  return lane() ? combined(product, before, beside) : before;
}

// Where a column begins.
DEVICE i64 start_of(const Scan &op, i64 column) {
  i64 line = quotient(column, op.inner);
  return line * op.length * op.inner + (column - line * op.inner);
}
DEVICE i64 step_of(const Scan &op, i64 n) { return (op.reverse ? op.length - 1 - n : n) * op.inner; }

// Blocks of one piece of a column.
template <class T> DEVICE void scan_block(const Scan &op) {
  using C = Compute<T>;
  SHARED C shared[MOST_WAVES];
  C neutral = op.product ? (C)1 : (C)0;
  for (i64 task = block(); task < op.columns * op.pieces; task += blocks()) {
    i64 column = quotient(task, op.pieces), begin = (task - column * op.pieces) * op.piece, end = min(begin + op.piece, op.length);
    i64 start = start_of(op, column);
    const T *x = (const T *)op.x + start;
    T *y = (T *)op.y + start;
    C running = op.before ? ((const C *)op.before)[task] : neutral;
    for (i64 base = begin; base < end; base += threads() * EACH) {
      C own[EACH], sum = neutral, total;
      UNROLL for (i32 e = 0; e < EACH; e++) {
        i64 n = base + thread() * EACH + e;
        own[e] = n < end ? (C)widen(x[step_of(op, n)]) : neutral;
        sum = combined(op.product, sum, own[e]);
      }
      C before = combined(op.product, running, before_thread<C>(op.product, sum, shared, &total));
      UNROLL for (i32 e = 0; e < EACH; e++) {
        i64 n = base + thread() * EACH + e;
        C next = combined(op.product, before, own[e]);
        if (n < end) y[step_of(op, n)] = narrow<T>(op.exclusive ? before : next);
        before = next;
      }
      running = combined(op.product, running, total);
    }
  }
}

// What every piece comes to, in `y`.
template <class T> DEVICE void scan_pieces(const Scan &op) {
  using C = Compute<T>;
  SHARED C shared[MOST_WAVES];
  for (i64 task = block(); task < op.columns * op.pieces; task += blocks()) {
    i64 column = quotient(task, op.pieces), begin = (task - column * op.pieces) * op.piece, end = min(begin + op.piece, op.length);
    const T *x = (const T *)op.x + start_of(op, column);
    C total = op.product ? (C)1 : (C)0;
    for (i64 n = begin + thread(); n < end; n += threads()) total = combined<C>(op.product, total, widen(x[step_of(op, n)]));
    total = join_block(total, shared, [&](C a, C b) __attribute__((always_inline)) { return combined<C>(op.product, a, b); });
    if (thread() == 0) ((C *)op.y)[task] = total;
  }
}

// A thread for each column.
template <class T> DEVICE void scan_thread(const Scan &op) {
  using C = Compute<T>;
  for (i64 column = global_thread(); column < op.columns; column += global_threads()) {
    i64 start = start_of(op, column);
    C running = op.product ? (C)1 : (C)0;
    for (i64 n = 0; n < op.length; n++) {
      i64 at = start + step_of(op, n);
      C next = combined<C>(op.product, running, widen(((const T *)op.x)[at]));
      ((T *)op.y)[at] = narrow<T>(op.exclusive ? running : next);
      running = next;
    }
  }
}

} // namespace

#define DEFINE(WORD, T)                                                                                                \
  KERNEL(256) scan_block_##WORD(Scan op) { scan_block<T>(op); }                                                        \
  KERNEL(256) scan_pieces_##WORD(Scan op) { scan_pieces<T>(op); }                                                      \
  KERNEL(256) scan_thread_##WORD(Scan op) { scan_thread<T>(op); }
HIPC_ALL_FLOATS(DEFINE) DEFINE(i8, u8) DEFINE(i16, u16) DEFINE(i32, u32) DEFINE(i64, u64)
