// hip.global_pool: every plane to one element.
#include "pool_window.h"

using namespace hipc;

namespace {

// Partial results side by side, so that the loop runs in vectors without changing what a float sum is.
constexpr int64_t PARTS = 32;

template <class T, PoolMode MODE> T reduce_plane(const T *x, int64_t count, int64_t p) {
  using C = Compute<T>;
  auto term = [p](C value) -> C {
    if constexpr (MODE != POOL_LP) return value;
    value = value < 0 ? -value : value;
    return p == 1 ? value : p == 2 ? value * value : (C)pow(value, (double)p);
  };
  auto merge = [](C a, C b) -> C {
    if constexpr (MODE == POOL_MAX) return exceeds(b, a) ? b : a;
    else return a + b;
  };
  C parts[PARTS];
  for (C &part : parts) part = MODE == POOL_MAX ? (C)lowest<T>() : C(0);
  int64_t i = 0;
  for (; i + PARTS <= count; i += PARTS)
    for (int64_t j = 0; j < PARTS; j++) parts[j] = merge(parts[j], term((C)x[i + j]));
  for (; i < count; i++) parts[i % PARTS] = merge(parts[i % PARTS], term((C)x[i]));
  C total = parts[0];
  for (int64_t j = 1; j < PARTS; j++) total = merge(total, parts[j]);
  if constexpr (MODE == POOL_AVERAGE) total = total / (C)count;
  if constexpr (MODE == POOL_LP) total = p == 1 ? total : p == 2 ? (C)sqrt(total) : (C)pow(total, 1.0 / (double)p);
  return (T)total;
}

template <class T, PoolMode MODE> int32_t run(hipc_context *context, const hipc_tensor *x, hipc_tensor *y, int64_t p) {
  int64_t count = extent(x, 2, x->rank);
  parallel_for(context, extent(x, 0, 2), count, [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; plane++)
      data<T>(y)[plane] = reduce_plane<T, MODE>(data<T>(x) + plane * count, count, p);
  });
  return HIPC_OK;
}

} // namespace

HIPC_EXPORT int32_t hipc_global_pool(hipc_context *context, const hipc_tensor *x, hipc_tensor *y, int64_t mode, int64_t p) {
  if (x->rank < 2 || x->dtype != y->dtype || elements(y) != extent(x, 0, 2))
    return hipc_error(context, HIPC_ERROR_SHAPE, "global pool: y must hold one %s for each of the %lld planes of x",
                      dtype_name(x->dtype), (long long)(x->rank < 2 ? 0 : extent(x, 0, 2)));
  if (mode == POOL_LP && p < 1)
    return hipc_error(context, HIPC_ERROR_VALUE, "global pool: p is %lld; it must be positive", (long long)p);
  return dispatch_float(context, "global pool", x->dtype, [&]<class T>() {
    if (mode == POOL_MAX) return run<T, POOL_MAX>(context, x, y, p);
    if (mode == POOL_AVERAGE) return run<T, POOL_AVERAGE>(context, x, y, p);
    return run<T, POOL_LP>(context, x, y, p);
  });
}
