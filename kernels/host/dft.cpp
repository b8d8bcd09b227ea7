// hipc_dft, along the axis `at` where it is given, else along `axis`. Powers of two by a radix-2 transform, other lengths through a convolution of such transforms (Bluestein).
// All arithmetic is in double: a transform sums every input into every output.
#include "hipc_ops.h"

using namespace hipc;

namespace {

struct Complex {
  double re, im;
};

HIPC_INLINE Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
HIPC_INLINE Complex operator-(Complex a, Complex b) { return {a.re - b.re, a.im - b.im}; }
HIPC_INLINE Complex operator*(Complex a, Complex b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
HIPC_INLINE Complex conjugate(Complex a) { return {a.re, -a.im}; }

// e^(-i pi numerator / denominator). The sine is the cosine of a quarter turn less, taken in integers: a sine and a cosine
// of one angle would become a call of sincos, which not every C library has.
Complex root(int64_t numerator, int64_t denominator) {
  const double pi = 3.14159265358979323846;
  return {::cos(pi * (double)numerator / (double)denominator),
          -::cos(pi * (double)(2 * numerator - denominator) / (double)(2 * denominator))};
}

bool is_power_of_two(int64_t n) { return (n & (n - 1)) == 0; }

// In place, for a power of two; `roots[k]` is e^(-2 pi i k / n) for k < n / 2.
void transform(Complex *x, int64_t n, const Complex *roots) {
  for (int64_t i = 1, j = 0; i < n; i++) {
    int64_t bit = n >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i >= j) continue;
    Complex held = x[i];
    x[i] = x[j];
    x[j] = held;
  }
  for (int64_t half = 1; half < n; half *= 2)
    for (int64_t start = 0; start < n; start += 2 * half)
      for (int64_t k = 0; k < half; k++) {
        Complex a = x[start + k], b = x[start + half + k] * roots[k * (n / (2 * half))];
        x[start + k] = a + b;
        x[start + half + k] = a - b;
      }
}

// Tables for transforms of one length.
struct Tables {
  int64_t length, padded; // padded: the power of two that transforms run at
  Complex *roots;         // [padded / 2]
  Complex *chirp;         // [length], where the length is no power of two
  Complex *kernel;        // [padded], transform of the conjugate chirp
};

int64_t padded_length(int64_t length) {
  if (is_power_of_two(length)) return length;
  int64_t padded = 1;
  while (padded < 2 * length - 1) padded *= 2;
  return padded;
}

void fill_tables(Tables &t) {
  for (int64_t k = 0; k < t.padded / 2; k++) t.roots[k] = root(2 * k, t.padded);
  if (t.length == t.padded) return;
  for (int64_t k = 0; k < t.length; k++) {
    // k * k modulo 2 * length: the angle stays small and exact.
    t.chirp[k] = root((int64_t)((uint64_t)k * (uint64_t)k % (uint64_t)(2 * t.length)), t.length);
  }
  for (int64_t k = 0; k < t.padded; k++) t.kernel[k] = {0, 0};
  for (int64_t k = 0; k < t.length; k++) {
    t.kernel[k] = conjugate(t.chirp[k]);
    if (k) t.kernel[t.padded - k] = t.kernel[k];
  }
  transform(t.kernel, t.padded, t.roots);
}

// Forward transform of line[0, length); the line has room for `padded` numbers.
void forward(Complex *line, const Tables &t) {
  if (t.length == t.padded) return transform(line, t.length, t.roots);
  for (int64_t k = 0; k < t.length; k++) line[k] = line[k] * t.chirp[k];
  for (int64_t k = t.length; k < t.padded; k++) line[k] = {0, 0};
  transform(line, t.padded, t.roots);
  // The inverse transform is the forward one between two conjugations.
  for (int64_t k = 0; k < t.padded; k++) line[k] = conjugate(line[k] * t.kernel[k]);
  transform(line, t.padded, t.roots);
  double scale = 1 / (double)t.padded;
  for (int64_t k = 0; k < t.length; k++) {
    Complex value = conjugate(line[k]);
    line[k] = Complex{value.re * scale, value.im * scale} * t.chirp[k];
  }
}

struct Shape {
  int64_t in, out, inner, in_parts, out_parts;
  bool inverse, onesided;
};

// One line of the input, cut or filled with zeros to the transform's length; elements lie inner * parts apart.
template <class T> void read_line(const T *x, const Shape &s, int64_t length, Complex *line) {
  bool hermitian = s.inverse && s.onesided;
  int64_t given = min(s.in, hermitian ? length / 2 + 1 : length);
  for (int64_t k = 0; k < length; k++) line[k] = {0, 0};
  for (int64_t k = 0; k < given; k++) {
    const T *at = x + k * s.inner * s.in_parts;
    line[k] = {(double)widen(at[0]), s.in_parts == 2 ? (double)widen(at[1]) : 0.0};
  }
  if (!hermitian) return;
  // The spectrum of a real signal: the missing half mirrors the given one, and its ends are real.
  line[0].im = 0;
  if (length % 2 == 0) line[length / 2].im = 0;
  for (int64_t k = 1; k < length - length / 2; k++) line[length - k] = conjugate(line[k]);
}

template <class T> void transform_line(const T *x, T *y, const Shape &s, const Tables &t, Complex *line) {
  using C = Compute<T>;
  read_line(x, s, t.length, line);
  if (s.inverse)
    for (int64_t k = 0; k < t.length; k++) line[k] = conjugate(line[k]);
  forward(line, t);
  double scale = s.inverse ? 1 / (double)t.length : 1;
  for (int64_t k = 0; k < s.out; k++) {
    T *to = y + k * s.inner * s.out_parts;
    to[0] = (T)(C)(line[k].re * scale);
    if (s.out_parts == 2) to[1] = (T)(C)(s.inverse ? -line[k].im * scale : line[k].im);
  }
}

} // namespace

HIPC_EXPORT int32_t hipc_dft(hipc_context *context, const hipc_tensor *x, const hipc_tensor *length, const hipc_tensor *at,
                             hipc_tensor *y, int64_t axis, int64_t inverse, int64_t onesided) {
  const char *op = "dft";
  HIPC_TRY(check_contiguous(context, op, x, length, at, y));
  if (at) HIPC_TRY(axis_from(context, op, at, &axis));
  HIPC_TRY(check_axis(context, op, axis, x->rank, &axis));
  if (x->rank < 2 || y->rank != x->rank || axis == x->rank - 1)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s needs an axis before the last, which holds the parts", op);
  if (length && (length->dtype != I64 || elements(length) != 1))
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: the length is not one int64 number", op);
  int32_t last = x->rank - 1;
  Shape s{x->shape[axis],   y->shape[axis],  extent(x, (int32_t)axis + 1, last), x->shape[last], y->shape[last],
          inverse != 0, onesided != 0};
  bool to_real = s.inverse && s.onesided;
  int64_t n = length ? data<int64_t>(length)[0] : to_real ? 2 * (s.in - 1) : s.in;
  int64_t outer = extent(x, 0, (int32_t)axis), expected = s.onesided && !s.inverse ? n / 2 + 1 : n;
  if (s.in_parts < 1 || s.in_parts > 2 || s.out_parts != (to_real ? 1 : 2) || s.out != expected ||
      elements(y) != outer * s.out * s.inner * s.out_parts)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: the output does not have the extents of a transform of length %lld",
                      op, (long long)n);
  if (elements(y) == 0) return HIPC_OK;
  if (n < 1) return hipc_error(context, HIPC_ERROR_VALUE, "%s: length %lld is not positive", op, (long long)n);
  return dispatch_float(context, op, x->dtype, [&]<class T>() -> int32_t {
    int64_t padded = padded_length(n), size = (int64_t)sizeof(Complex);
    ScratchPlan plan;
    int64_t roots = plan.add(padded / 2 * size), chirp = plan.add(n * size), kernel = plan.add(padded * size);
    int64_t lines = plan.add(hipc_num_threads(context) * padded * size);
    char *memory = (char *)hipc_scratch(context, plan.bytes);
    if (!memory) return out_of_memory(context, op);
    Tables tables{n, padded, (Complex *)(memory + roots), (Complex *)(memory + chirp), (Complex *)(memory + kernel)};
    fill_tables(tables);
    const T *from = data<T>(x);
    T *to = data<T>(y);
    parallel_for_threads(context, outer * s.inner, padded * 64, [=](int64_t begin, int64_t end, int32_t thread) {
      for (int64_t row = begin; row < end; row++) {
        int64_t o = row / s.inner, column = row % s.inner;
        transform_line(from + (o * s.in * s.inner + column) * s.in_parts,
                       to + (o * s.out * s.inner + column) * s.out_parts, s, tables,
                       (Complex *)(memory + lines) + thread * padded);
      }
    });
    return HIPC_OK;
  });
}
