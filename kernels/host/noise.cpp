// hipc_random_uniform, hipc_random_normal, hipc_bernoulli, hipc_multinomial.
#include "shared/noise.h"

using namespace hipc;

namespace {

template <class Number>
int32_t fill(hipc_context *context, const char *op, hipc_tensor *y, int64_t cost, Number &&number) {
  HIPC_TRY(check_contiguous(context, op, y));
  return dispatch_float(context, op, y->dtype, [&]<class T>() {
    T *to = data<T>(y);
    parallel_for(context, elements(y), cost, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) to[i] = (T)(Compute<T>)number(i);
    });
    return HIPC_OK;
  });
}

} // namespace

HIPC_EXPORT int32_t hipc_random_uniform(hipc_context *context, hipc_tensor *y, double low, double high, int64_t seed) {
  return fill(context, "random_uniform", y, 8,
              [=](int64_t i) { return low + (high - low) * uniform_at(seed, i); });
}

HIPC_EXPORT int32_t hipc_random_normal(hipc_context *context, hipc_tensor *y, double mean, double scale, int64_t seed) {
  return fill(context, "random_normal", y, 64, [=](int64_t i) { return mean + scale * normal_at(seed, i); });
}

HIPC_EXPORT int32_t hipc_bernoulli(hipc_context *context, const hipc_tensor *x, hipc_tensor *y, int64_t seed) {
  HIPC_TRY(check_contiguous(context, "bernoulli", x, y));
  HIPC_TRY(check_same_shape(context, "bernoulli", x, y));
  return dispatch_float(context, "bernoulli", x->dtype, [&]<class T>() {
    return dispatch_number(context, "bernoulli", signed_as(y->dtype, 0), [&]<class R>() {
      const T *probability = data<T>(x);
      R *to = data<R>(y);
      parallel_for(context, elements(x), 8, [=](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; i++)
          to[i] = (R)(Compute<R>)(uniform_at(seed, i) < (double)widen(probability[i]));
      });
      return HIPC_OK;
    });
  });
}

HIPC_EXPORT int32_t hipc_multinomial(hipc_context *context, const hipc_tensor *x, hipc_tensor *y, int64_t seed) {
  const char *op = "multinomial";
  HIPC_TRY(check_contiguous(context, op, x, y));
  if (x->rank != 2 || y->rank != 2 || x->shape[0] != y->shape[0])
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s needs one row of logarithms for each row of the output", op);
  int64_t classes = x->shape[1], draws = y->shape[1];
  if (elements(y) == 0) return HIPC_OK;
  if (classes == 0) return hipc_error(context, HIPC_ERROR_VALUE, "%s: there is no class to draw", op);
  return dispatch_float(context, op, x->dtype, [&]<class T>() {
    return dispatch_index(context, op, y->dtype, [&]<class I>() -> int32_t {
      int64_t stride = round_up(classes, 8);
      double *memory = (double *)hipc_scratch(context, hipc_num_threads(context) * stride * 8);
      if (!memory) return out_of_memory(context, op);
      const T *logarithms = data<T>(x);
      I *to = data<I>(y);
      parallel_for_threads(context, x->shape[0], (classes + draws) * 32, [=](int64_t begin, int64_t end, int32_t thread) {
        double *running = memory + thread * stride;
        for (int64_t row = begin; row < end; row++) {
          const T *line = logarithms + row * classes;
          double top = -__builtin_inf(), sum = 0;
          for (int64_t c = 0; c < classes; c++) top = fmax(top, (double)widen(line[c]));
          for (int64_t c = 0; c < classes; c++) running[c] = sum += ::exp((double)widen(line[c]) - top);
          for (int64_t i = 0; i < draws; i++) {
            double wanted = uniform_at(seed, row * draws + i) * sum;
            to[row * draws + i] = (I)drawn_class(running, classes, wanted);
          }
        }
      });
      return HIPC_OK;
    });
  });
}
