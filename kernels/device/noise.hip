// Random numbers, the host's own: uniform, normal, Bernoulli, multinomial.
#include "hipc_math.h"
#include "hipc_mixed.h"
#include "shared/noise.h"

using namespace hipc;

namespace {

template <class T> DEVICE void uniform(T *y, i64 count, f64 low, f64 high, i64 seed) {
  for (i64 at = global_thread(); at < count; at += global_threads())
    y[at] = narrow<T>((Compute<T>)(low + (high - low) * uniform_at(seed, at)));
}
template <class T> DEVICE void normal(T *y, i64 count, f64 mean, f64 scale, i64 seed) {
  for (i64 at = global_thread(); at < count; at += global_threads())
    y[at] = narrow<T>((Compute<T>)(mean + scale * normal_at(seed, at)));
}
template <class T> DEVICE void bernoulli(const void *x, T *y, i64 count, i64 seed, i32 dtype) {
  for (i64 at = global_thread(); at < count; at += global_threads()) {
    bool one = uniform_at(seed, at) < number_as<f64>(x, dtype, at);
    y[at] = narrow<T>((Compute<T>)(one ? 1 : 0));
  }
}

// Running sums of the probabilities that the logarithms of a row stand for, up to a factor. One block a row; a thread sums
// neighbours, so that the order of additions is always the same.
DEVICE void running_sums(const void *x, f64 *running, i64 rows, i64 classes, i32 dtype) {
  SHARED f64 shared[256];
  for (i64 row = block(); row < rows; row += blocks()) {
    f64 top = lowest<f64>();
    for (i64 c = thread(); c < classes; c += threads()) {
      f64 value = number_as<f64>(x, dtype, row * classes + c);
      top = value > top ? value : top;
    }
    top = max_block(top, shared);
    i64 each = ceil_div(classes, (i64)threads()), first = min(thread() * each, classes), last = min(first + each, classes);
    f64 own = 0;
    for (i64 c = first; c < last; c++) own += exp_of(number_as<f64>(x, dtype, row * classes + c) - top);
    shared[thread()] = own;
    barrier();
    f64 sum = 0;
    for (u32 t = 0; t < thread(); t++) sum += shared[t];
    barrier();
    for (i64 c = first; c < last; c++)
      running[row * classes + c] = sum += exp_of(number_as<f64>(x, dtype, row * classes + c) - top);
  }
}

template <class I> DEVICE void draw(const f64 *running, I *y, i64 rows, i64 classes, i64 draws, i64 seed) {
  for (i64 at = global_thread(); at < rows * draws; at += global_threads()) {
    const f64 *line = running + at / draws * classes;
    y[at] = (I)drawn_class(line, classes, uniform_at(seed, at) * line[classes - 1]);
  }
}

} // namespace

#define DEFINE(WORD, T)                                                                                                \
  KERNEL(256) random_uniform_##WORD(T *y, i64 count, f64 low, f64 high, i64 seed) {                                    \
    uniform<T>(y, count, low, high, seed);                                                                             \
  }                                                                                                                    \
  KERNEL(256) random_normal_##WORD(T *y, i64 count, f64 mean, f64 scale, i64 seed) {                                   \
    normal<T>(y, count, mean, scale, seed);                                                                            \
  }
HIPC_ALL_FLOATS(DEFINE)
#undef DEFINE
#define DEFINE(WORD, T)                                                                                                \
  KERNEL(256) bernoulli_##WORD(const void *x, T *y, i64 count, i64 seed, i32 dtype) {                                  \
    bernoulli<T>(x, y, count, seed, dtype);                                                                            \
  }
HIPC_NUMBERS(DEFINE)
#undef DEFINE
KERNEL(256) multinomial_sums(const void *x, f64 *running, i64 rows, i64 classes, i32 dtype) {
  running_sums(x, running, rows, classes, dtype);
}
#define DEFINE(WORD, I)                                                                                                \
  KERNEL(256) multinomial_##WORD(const f64 *running, I *y, i64 rows, i64 classes, i64 draws, i64 seed) {               \
    draw<I>(running, y, rows, classes, draws, seed);                                                                   \
  }
DEFINE(i32, i32) DEFINE(i64, i64)
