// Softmax and log-softmax along an axis of [outer][length][inner]. Sums are float32 for half precision.
#include "hipc_math.h"

using namespace hipc;

namespace {

// A NaN is greater than everything, so that a row with one becomes NaN; so does a row of infinities.
template <class C> DEVICE C greater(C a, C b) { return a > b || a != a ? a : b; }

// Rows that are contiguous: one block each.
template <class T> DEVICE void softmax_row(const T *x, T *y, i64 length, i32 log) {
  using C = Compute<T>;
  SHARED C shared[MOST_WAVES];
  i64 row = block();
  x += row * length, y += row * length;
  C top = lowest<C>();
  for (i64 i = thread(); i < length; i += threads()) top = greater(widen(x[i]), top);
  top = combine_block(top, shared, lowest<C>(), [](C a, C b) { return greater(a, b); });
  C sum = 0;
  for (i64 i = thread(); i < length; i += threads()) sum += exp_of(widen(x[i]) - top);
  sum = sum_block(sum, shared);
  C scale = log ? log_of(sum) : (C)1 / sum;
  for (i64 i = thread(); i < length; i += threads()) {
    C distance = widen(x[i]) - top;
    y[i] = narrow<T>(log ? distance - scale : exp_of(distance) * scale);
  }
}

// Columns: one thread each, neighbours side by side.
template <class T> DEVICE void softmax_column(const T *x, T *y, i64 columns, i64 length, i64 inner, i32 log) {
  using C = Compute<T>;
  for (i64 at = global_thread(); at < columns; at += global_threads()) {
    i64 offset = at / inner * length * inner + at % inner;
    C top = lowest<C>(), sum = 0;
    for (i64 i = 0; i < length; i++) top = greater(widen(x[offset + i * inner]), top);
    for (i64 i = 0; i < length; i++) sum += exp_of(widen(x[offset + i * inner]) - top);
    C scale = log ? log_of(sum) : (C)1 / sum;
    for (i64 i = 0; i < length; i++) {
      C distance = widen(x[offset + i * inner]) - top;
      y[offset + i * inner] = narrow<T>(log ? distance - scale : exp_of(distance) * scale);
    }
  }
}

// One at the first greatest element, a NaN being greatest, and zero elsewhere.
template <class T> DEVICE void hardmax(const T *x, T *y, i64 columns, i64 length, i64 inner) {
  for (i64 at = global_thread(); at < columns; at += global_threads()) {
    i64 offset = at / inner * length * inner + at % inner, best = 0;
    Compute<T> top = widen(x[offset]);
    for (i64 i = 1; i < length && top == top; i++) {
      Compute<T> value = widen(x[offset + i * inner]);
      if (value > top || value != value) top = value, best = i;
    }
    for (i64 i = 0; i < length; i++) y[offset + i * inner] = (T)(i == best ? 1.0f : 0.0f);
  }
}

} // namespace

#define DEFINE(WORD, T)                                                                                                \
  KERNEL(1024) softmax_##WORD(const T *x, T *y, i64 length, i32 log) { softmax_row<T>(x, y, length, log); }            \
  KERNEL(256) softmax_columns_##WORD(const T *x, T *y, i64 columns, i64 length, i64 inner, i32 log) {                  \
    softmax_column<T>(x, y, columns, length, inner, log);                                                              \
  }                                                                                                                    \
  KERNEL(256) hardmax_##WORD(const T *x, T *y, i64 columns, i64 length, i64 inner) {                                   \
    hardmax<T>(x, y, columns, length, inner);                                                                          \
  }
HIPC_ALL_FLOATS(DEFINE)
