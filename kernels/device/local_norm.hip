// Local response normalisation and division by an Lp norm.
#include "hipc_math.h"

using namespace hipc;

namespace {

// A base to an exponent; the usual ones need no logarithm.
template <class C> DEVICE C power_of(C base, f64 exponent) {
  if (exponent == 1.0) return base;
  if (exponent == 0.5) return sqrt_of(base);
  if (exponent == 0.75) return sqrt_of(base) * sqrt_of(sqrt_of(base));
  return exp_of(log_of(base) * (C)exponent);
}

// x is [images][channels][spatial]. A thread an element.
template <class T>
DEVICE void lrn(const T *x, T *y, i64 count, i64 channels, i64 spatial, i64 size, f64 alpha, f64 beta, f64 bias) {
  using C = Compute<T>;
  for (i64 at = global_thread(); at < count; at += global_threads()) {
    i64 channel = at / spatial % channels;
    i64 first = max(channel - (size - 1) / 2, (i64)0), last = min(channel + size / 2, channels - 1);
    C sum = 0;
    for (i64 c = first; c <= last; c++) {
      C value = widen(x[at + (c - channel) * spatial]);
      sum += value * value;
    }
    y[at] = narrow<T>(widen(x[at]) / power_of((C)bias + (C)(alpha / (f64)size) * sum, beta));
  }
}

template <class C> DEVICE C part_of(C value, i32 squares) { return squares ? value * value : value < 0 ? -value : value; }
// A row of zeros stays zero.
template <class T> DEVICE T divided(T value, Compute<T> norm) {
  return narrow<T>(norm == 0 ? (Compute<T>)0 : widen(value) / norm);
}

// Contiguous rows, one block each.
template <class T> DEVICE void lp_norm_rows(const T *x, T *y, i64 rows, i64 length, i32 squares) {
  using C = Compute<T>;
  SHARED C shared[MOST_WAVES];
  for (i64 row = block(); row < rows; row += blocks()) {
    const T *from = x + row * length;
    C norm = 0;
    for (i64 i = thread(); i < length; i += threads()) norm += part_of(widen(from[i]), squares);
    norm = sum_block(norm, shared);
    if (squares) norm = sqrt_of(norm);
    for (i64 i = thread(); i < length; i += threads()) y[row * length + i] = divided(from[i], norm);
  }
}

// Columns of [outer][length][inner], one thread each.
template <class T> DEVICE void lp_norm_columns(const T *x, T *y, i64 columns, i64 length, i64 inner, i32 squares) {
  using C = Compute<T>;
  for (i64 at = global_thread(); at < columns; at += global_threads()) {
    i64 offset = at / inner * length * inner + at % inner;
    C norm = 0;
    for (i64 i = 0; i < length; i++) norm += part_of(widen(x[offset + i * inner]), squares);
    if (squares) norm = sqrt_of(norm);
    for (i64 i = 0; i < length; i++) y[offset + i * inner] = divided(x[offset + i * inner], norm);
  }
}

} // namespace

#define DEFINE(WORD, T)                                                                                                \
  KERNEL(256) lrn_##WORD(const T *x, T *y, i64 count, i64 channels, i64 spatial, i64 size, f64 alpha, f64 beta,        \
                         f64 bias) {                                                                                   \
    lrn<T>(x, y, count, channels, spatial, size, alpha, beta, bias);                                                   \
  }                                                                                                                    \
  KERNEL(256) lp_norm_rows_##WORD(const T *x, T *y, i64 rows, i64 length, i32 squares) {                               \
    lp_norm_rows<T>(x, y, rows, length, squares);                                                                      \
  }                                                                                                                    \
  KERNEL(256) lp_norm_columns_##WORD(const T *x, T *y, i64 columns, i64 length, i64 inner, i32 squares) {              \
    lp_norm_columns<T>(x, y, columns, length, inner, squares);                                                         \
  }
HIPC_ALL_FLOATS(DEFINE)
