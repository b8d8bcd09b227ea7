// Discrete Fourier transforms, as sums over the inputs, and determinants. Both are computed in float64.
#include "hipc_math.h"
#include "shared/noise.h"
#include "shared/spectrum.h"

using namespace hipc;

namespace {

// roots[2 k] + i roots[2 k + 1] = e^(-2 pi i k / length)
DEVICE void fill_roots(f64 *roots, i64 length) {
  for (i64 k = global_thread(); k < length; k += global_threads()) {
    // The sine is the cosine of a quarter turn less, taken in integers.
    i64 quarter = (4 * k + 3 * length) % (4 * length);
    roots[2 * k] = cosine_of_turns((f64)k / (f64)length);
    roots[2 * k + 1] = -cosine_of_turns((f64)quarter / (f64)(4 * length));
  }
}

template <class T> DEVICE void dft(const T *x, T *y, const f64 *roots, const Dft &s) {
  bool hermitian = s.inverse && s.onesided;
  i64 given = min(s.in, hermitian ? s.length / 2 + 1 : s.length);
  for (i64 at = global_thread(); at < s.outer * s.out * s.inner; at += global_threads()) {
    i64 column = at % s.inner, k = at / s.inner % s.out, o = at / s.inner / s.out;
    const T *from = x + (o * s.in * s.inner + column) * s.in_parts;
    i64 turn = 0;
    f64 re = 0, im = 0;
    for (i64 j = 0; j < given; j++) {
      const T *element = from + j * s.inner * s.in_parts;
      f64 a = (f64)widen(element[0]), b = s.in_parts == 2 ? (f64)widen(element[1]) : 0.0;
      f64 c = roots[2 * turn], d = s.inverse ? -roots[2 * turn + 1] : roots[2 * turn + 1];
      if (!hermitian) {
        re += a * c - b * d;
        im += a * d + b * c;
      } else {
        // The spectrum of a real signal: the missing half mirrors the given one, and its ends are real.
        bool end = j == 0 || 2 * j == s.length;
        re += end ? a * c : 2 * (a * c - b * d);
      }
      turn += k;
      if (turn >= s.length) turn -= s.length;
    }
    f64 scale = s.inverse ? 1 / (f64)s.length : 1;
    T *to = y + at * s.out_parts;
    to[0] = narrow<T>((Compute<T>)(re * scale));
    if (s.out_parts == 2) to[1] = narrow<T>((Compute<T>)(im * scale));
  }
}

// Elimination with partial pivoting, a block a matrix; `work` has room for all of them.
template <class T> DEVICE void det(const T *x, T *y, f64 *work, i64 batch, i64 n) {
  SHARED i64 pivot;
  for (i64 b = block(); b < batch; b += blocks()) {
    f64 *a = work + b * n * n, product = 1;
    for (i64 i = thread(); i < n * n; i += threads()) a[i] = (f64)widen(x[b * n * n + i]);
    barrier();
    for (i64 k = 0; k < n && product != 0; k++) {
      if (thread() == 0) {
        pivot = k;
        for (i64 i = k + 1; i < n; i++)
          if (abs_of(a[i * n + k]) > abs_of(a[pivot * n + k])) pivot = i;
      }
      barrier();
      i64 other = pivot;
      if (other != k) {
        for (i64 j = k + thread(); j < n; j += threads()) {
          f64 held = a[k * n + j];
          a[k * n + j] = a[other * n + j];
          a[other * n + j] = held;
        }
        product = -product;
      }
      barrier();
      f64 diagonal = a[k * n + k];
      product *= diagonal;
      i64 rest = n - k - 1;
      for (i64 at = thread(); at < rest * rest; at += threads()) {
        i64 i = k + 1 + at / rest, j = k + 1 + at % rest;
        a[i * n + j] -= a[i * n + k] / diagonal * a[k * n + j];
      }
      barrier();
    }
    if (thread() == 0) y[b] = narrow<T>((Compute<T>)product);
  }
}

} // namespace

KERNEL(256) dft_roots(f64 *roots, i64 length) { fill_roots(roots, length); }
#define DEFINE(WORD, T)                                                                                                \
  KERNEL(256) dft_##WORD(const T *x, T *y, const f64 *roots, Dft s) { dft<T>(x, y, roots, s); }                        \
  KERNEL(256) det_##WORD(const T *x, T *y, f64 *work, i64 batch, i64 n) { det<T>(x, y, work, batch, n); }
HIPC_ALL_FLOATS(DEFINE)
