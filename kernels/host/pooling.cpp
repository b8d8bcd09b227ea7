// hip.pool and hip.max_pool_indices: output row by output row, tap by tap, all columns of the row at once.
#include "pool_window.h"

using namespace hipc;

namespace {

template <PoolMode MODE, class C> HIPC_INLINE void add_tap(C value, C &sum, int64_t p) {
  if constexpr (MODE == POOL_MAX) sum = exceeds(value, sum) ? value : sum;
  else if constexpr (MODE == POOL_AVERAGE) sum += value;
  else {
    value = value < 0 ? -value : value;
    sum += p == 1 ? value : p == 2 ? value * value : (C)pow(value, (double)p);
  }
}

// Positions that an average divides by, along one axis.
int64_t counted(const Window &window, int axis, int64_t o, bool include_pads) {
  int64_t low = include_pads ? -window.before[axis] : 0;
  int64_t high = window.in[axis] + (include_pads ? window.after[axis] : 0);
  Window::Range range = window.taps(axis, o, low, high);
  return range.last - range.first;
}

template <class T, PoolMode MODE>
void pool_row(const Window &window, const T *x, int64_t d, int64_t h, bool include_pads, int64_t p, Compute<T> *sums, T *y) {
  using C = Compute<T>;
  for (int64_t w = 0; w < window.out[2]; w++) sums[w] = MODE == POOL_MAX ? (C)lowest<T>() : C(0);
  Window::Range depths = window.taps(0, d, 0, window.in[0]), heights = window.taps(1, h, 0, window.in[1]);
  for (int64_t kd = depths.first; kd < depths.last; kd++)
    for (int64_t kh = heights.first; kh < heights.last; kh++) {
      int64_t depth = d * window.strides[0] + kd * window.dilations[0] - window.before[0];
      int64_t height = h * window.strides[1] + kh * window.dilations[1] - window.before[1];
      const T *row = x + (depth * window.in[1] + height) * window.in[2];
      for (int64_t kw = 0; kw < window.kernel[2]; kw++) {
        Window::Range columns = window.outputs(kw);
        int64_t stride = window.strides[2];
        const T *from = row + kw * window.dilations[2] - window.before[2];
        if (stride == 1)
          for (int64_t w = columns.first; w < columns.last; w++) add_tap<MODE>((C)from[w], sums[w], p);
        else
          for (int64_t w = columns.first; w < columns.last; w++) add_tap<MODE>((C)from[w * stride], sums[w], p);
      }
    }
  int64_t plane = MODE == POOL_AVERAGE ? counted(window, 0, d, include_pads) * counted(window, 1, h, include_pads) : 0;
  for (int64_t w = 0; w < window.out[2]; w++) {
    C value = sums[w];
    if constexpr (MODE == POOL_AVERAGE) {
      int64_t count = plane * counted(window, 2, w, include_pads);
      value = count ? value / (C)count : C(0);
    } else if constexpr (MODE == POOL_LP) {
      value = p == 1 ? value : p == 2 ? (C)sqrt(value) : (C)pow(value, 1.0 / (double)p);
    }
    y[w] = (T)value;
  }
}

template <class T, PoolMode MODE>
int32_t run(hipc_context *context, const Window &window, const hipc_tensor *x, hipc_tensor *y, bool include_pads, int64_t p) {
  int64_t rows = window.out[0] * window.out[1], own = round_up(window.out[2] * (int64_t)sizeof(Compute<T>), 64);
  char *scratch = (char *)hipc_scratch(context, hipc_num_threads(context) * own);
  if (!scratch) return HIPC_ERROR_MEMORY;
  int64_t cost = window.out[2] * window.kernel[0] * window.kernel[1] * window.kernel[2];
  parallel_for_threads(context, window.planes * rows, cost, [&](int64_t begin, int64_t end, int32_t thread) {
    Compute<T> *sums = (Compute<T> *)(scratch + thread * own);
    for (int64_t item = begin; item < end; item++) {
      int64_t row = item % rows;
      pool_row<T, MODE>(window, data<T>(x) + item / rows * window.in_size, row / window.out[1], row % window.out[1],
                        include_pads, p, sums, data<T>(y) + item * window.out[2]);
    }
  });
  return HIPC_OK;
}

template <class T>
void pool_row_indices(const Window &window, const T *x, int64_t plane, int64_t d, int64_t h, bool column_major, T *y,
                      int64_t *indices) {
  using C = Compute<T>;
  Window::Range depths = window.taps(0, d, 0, window.in[0]), heights = window.taps(1, h, 0, window.in[1]);
  for (int64_t w = 0; w < window.out[2]; w++) {
    Window::Range widths = window.taps(2, w, 0, window.in[2]);
    C best = (C)lowest<T>();
    int64_t at[3] = {-1, 0, 0};
    for (int64_t kd = depths.first; kd < depths.last; kd++)
      for (int64_t kh = heights.first; kh < heights.last; kh++)
        for (int64_t kw = widths.first; kw < widths.last; kw++) {
          int64_t depth = d * window.strides[0] + kd * window.dilations[0] - window.before[0];
          int64_t height = h * window.strides[1] + kh * window.dilations[1] - window.before[1];
          int64_t width = w * window.strides[2] + kw * window.dilations[2] - window.before[2];
          C value = (C)x[(depth * window.in[1] + height) * window.in[2] + width];
          // The first element counts even where it is the lowest value of its type.
          if (at[0] >= 0 && !exceeds(value, best)) continue;
          // NaN stays, at the place where it was met first.
          if (at[0] >= 0 && best != best) continue;
          best = value;
          at[0] = depth, at[1] = height, at[2] = width;
        }
    y[w] = (T)best;
    int64_t inside = column_major ? (at[2] * window.in[1] + at[1]) * window.in[0] + at[0]
                                  : (at[0] * window.in[1] + at[1]) * window.in[2] + at[2];
    // A window that lies in the padding alone has no element.
    indices[w] = at[0] < 0 ? -1 : plane * window.in_size + inside;
  }
}

int32_t bad_extent(hipc_context *context, const char *op, const char *what, int64_t found, int64_t expected) {
  return hipc_error(context, HIPC_ERROR_SHAPE, "%s: %s is %lld, expected %lld", op, what, (long long)found,
                    (long long)expected);
}

} // namespace

int32_t hipc::read_window(hipc_context *context, const char *op, const hipc_tensor *x, const hipc_tensor *y,
                          const WindowAttributes &a, Window &window) {
  int32_t spatial = x->rank - 2;
  if (spatial < 1 || spatial > 3)
    return hipc_error(context, HIPC_ERROR_UNSUPPORTED, "%s with %d spatial dimensions; 1 to 3 are supported", op, spatial);
  if (y->rank != x->rank || a.num_kernel != spatial || a.num_strides != spatial || a.num_dilations != spatial ||
      a.num_pads != 2 * spatial)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: the rank of y and the attributes do not fit x of rank %d", op, x->rank);
  if (y->dtype != x->dtype)
    return hipc_error(context, HIPC_ERROR_UNSUPPORTED, "%s of %s to %s", op, dtype_name(x->dtype), dtype_name(y->dtype));
  for (int32_t i = 0; i < 2; i++)
    if (y->shape[i] != x->shape[i]) return bad_extent(context, op, "an outer extent of y", y->shape[i], x->shape[i]);
  for (int axis = 0; axis < 3; axis++) {
    window.in[axis] = window.out[axis] = window.kernel[axis] = window.strides[axis] = window.dilations[axis] = 1;
    window.before[axis] = window.after[axis] = 0;
  }
  for (int32_t i = 0; i < spatial; i++) {
    int axis = 3 - spatial + i;
    window.in[axis] = x->shape[2 + i], window.out[axis] = y->shape[2 + i];
    window.kernel[axis] = a.kernel[i], window.strides[axis] = a.strides[i], window.dilations[axis] = a.dilations[i];
    window.before[axis] = a.pads[i], window.after[axis] = a.pads[spatial + i];
    if (a.kernel[i] < 1 || a.strides[i] < 1 || a.dilations[i] < 1)
      return hipc_error(context, HIPC_ERROR_VALUE, "%s: kernel, strides and dilations must be positive", op);
    int64_t padded = window.in[axis] + a.pads[i] + a.pads[spatial + i];
    int64_t room = padded - (a.kernel[i] - 1) * a.dilations[i] - 1;
    // With ceil_mode the last window must still start inside the input or the padding before it.
    int64_t expected = room < 0 ? 0
                       : a.ceil_mode ? min(ceil_div(room, a.strides[i]) + 1, ceil_div(window.in[axis] + a.pads[i], a.strides[i]))
                                     : room / a.strides[i] + 1;
    if (window.out[axis] != expected) return bad_extent(context, op, "a spatial extent of y", window.out[axis], expected);
  }
  window.planes = extent(x, 0, 2), window.in_size = extent(x, 2, x->rank);
  return HIPC_OK;
}

HIPC_EXPORT int32_t hipc_pool_window(hipc_context *context, const hipc_tensor *x, hipc_tensor *y, int64_t mode,
                                     const int64_t *kernel, int64_t num_kernel, const int64_t *strides, int64_t num_strides,
                                     const int64_t *pads, int64_t num_pads, const int64_t *dilations, int64_t num_dilations,
                                     int64_t ceil_mode, int64_t count_include_pad, int64_t p, int64_t is_unsigned) {
  WindowAttributes attributes{kernel,      strides,  pads,          dilations,     num_kernel,
                              num_strides, num_pads, num_dilations, ceil_mode != 0};
  Window window{};
  if (int32_t status = read_window(context, "pool", x, y, attributes, window)) return status;
  if (elements(y) == 0) return HIPC_OK;
  if (mode == POOL_MAX)
    return dispatch_number(context, "max pool", with_sign(x->dtype, is_unsigned),
                           [&]<class T>() { return run<T, POOL_MAX>(context, window, x, y, false, p); });
  if (mode == POOL_AVERAGE)
    return dispatch_float(context, "average pool", x->dtype, [&]<class T>() {
      return run<T, POOL_AVERAGE>(context, window, x, y, count_include_pad != 0, p);
    });
  if (p < 1) return hipc_error(context, HIPC_ERROR_VALUE, "pool: p is %lld; it must be positive", (long long)p);
  return dispatch_float(context, "lp pool", x->dtype,
                        [&]<class T>() { return run<T, POOL_LP>(context, window, x, y, false, p); });
}

HIPC_EXPORT int32_t hipc_max_pool_indices(hipc_context *context, const hipc_tensor *x, hipc_tensor *y, hipc_tensor *indices,
                                          const int64_t *kernel, int64_t num_kernel, const int64_t *strides,
                                          int64_t num_strides, const int64_t *pads, int64_t num_pads,
                                          const int64_t *dilations, int64_t num_dilations, int64_t ceil_mode,
                                          int64_t storage_order, int64_t is_unsigned) {
  WindowAttributes attributes{kernel,      strides,  pads,          dilations,     num_kernel,
                              num_strides, num_pads, num_dilations, ceil_mode != 0};
  Window window{};
  if (int32_t status = read_window(context, "max pool", x, y, attributes, window)) return status;
  if (indices->dtype != I64 || !same_shape(indices, y))
    return hipc_error(context, HIPC_ERROR_SHAPE, "max pool: the indices must be int64 of the shape of y");
  if (elements(y) == 0) return HIPC_OK;
  int64_t rows = window.out[0] * window.out[1];
  int64_t cost = window.out[2] * window.kernel[0] * window.kernel[1] * window.kernel[2] * 2;
  return dispatch_number(context, "max pool", with_sign(x->dtype, is_unsigned), [&]<class T>() {
    parallel_for(context, window.planes * rows, cost, [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; item++) {
        int64_t plane = item / rows, row = item % rows;
        pool_row_indices<T>(window, data<T>(x) + plane * window.in_size, plane, row / window.out[1], row % window.out[1],
                            storage_order != 0, data<T>(y) + item * window.out[2],
                            data<int64_t>(indices) + item * window.out[2]);
      }
    });
    return (int32_t)HIPC_OK;
  });
}
