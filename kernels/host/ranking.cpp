// hipc_arg_reduce, hipc_topk. NaN ranks above every number, for the greatest and for the least, as NumPy sorts.
#include "hipc_ops.h"

using namespace hipc;

namespace {

// Strict order of elements; a NaN is greater than any number and equal to another NaN.
template <class C> HIPC_INLINE bool greater(C a, C b) {
  if constexpr ((C)0.5 != (C)0) return a > b || (a != a && b == b);
  return a > b;
}

template <class C, bool is_max> HIPC_INLINE bool beats(C challenger, C best) {
  // Both argmax and argmin stop at a NaN.
  if constexpr ((C)0.5 != (C)0)
    if (challenger != challenger) return best == best;
  return is_max ? challenger > best : challenger < best;
}

constexpr int64_t TILE = 64;

// Positions of the extremes of `width` neighbouring rows; walking backwards makes the last of equals win.
template <class T, bool is_max>
void arg_tile(const T *x, int64_t *y, Rows rows, int64_t width, bool last) {
  using C = Compute<T>;
  C best[TILE];
  int64_t start = last ? rows.length - 1 : 0, step = last ? -1 : 1;
  for (int64_t j = 0; j < width; j++) best[j] = widen(x[start * rows.inner + j]), y[j] = start;
  for (int64_t n = 1, i = start + step; n < rows.length; n++, i += step)
    for (int64_t j = 0; j < width; j++) {
      C value = widen(x[i * rows.inner + j]);
      bool wins = beats<C, is_max>(value, best[j]);
      best[j] = wins ? value : best[j];
      y[j] = wins ? i : y[j];
    }
}

// One contiguous row: extremes of blocks first, which is vector code, then the place inside the best block.
template <class T, bool is_max> int64_t arg_row(const T *x, int64_t length, bool last) {
  using C = Compute<T>;
  constexpr int64_t BLOCK = 256;
  constexpr int64_t LANES = 16;
  int64_t best_block = 0, blocks = ceil_div(length, BLOCK);
  C best = widen(x[last ? length - 1 : 0]);
  bool first = true;
  for (int64_t n = 0; n < blocks; n++) {
    int64_t block = last ? blocks - 1 - n : n;
    const T *at = x + block * BLOCK;
    int64_t size = min(length - block * BLOCK, BLOCK);
    C lanes[LANES];
    for (int64_t j = 0; j < LANES; j++) lanes[j] = widen(at[0]);
    bool nan = false;
    int64_t i = 0;
    for (; i + LANES <= size; i += LANES)
      for (int64_t j = 0; j < LANES; j++) {
        C value = widen(at[i + j]);
        lanes[j] = (is_max ? value > lanes[j] : value < lanes[j]) ? value : lanes[j];
        nan |= value != value;
      }
    for (; i < size; i++) {
      C value = widen(at[i]);
      lanes[0] = (is_max ? value > lanes[0] : value < lanes[0]) ? value : lanes[0];
      nan |= value != value;
    }
    if (nan) {
      best_block = block;
      for (int64_t k = 0; k < size; k++)
        if (C value = widen(at[k]); value != value) best = value;
      break;
    }
    C top = lanes[0];
    for (int64_t j = 1; j < LANES; j++) top = (is_max ? lanes[j] > top : lanes[j] < top) ? lanes[j] : top;
    if (first || beats<C, is_max>(top, best)) best = top, best_block = block;
    first = false;
  }
  int64_t begin = best_block * BLOCK, end = min(begin + BLOCK, length);
  for (int64_t i = begin; i < end; i++) {
    int64_t place = last ? end - 1 - (i - begin) : i;
    C value = widen(x[place]);
    if (value == best || (value != value && best != best)) return place;
  }
  return begin;
}

template <class T, bool is_max>
void arg_reduce(hipc_context *context, const T *x, int64_t *y, Rows rows, bool last) {
  if (rows.inner == 1) {
    parallel_for(context, rows.outer, rows.length, [=](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; row++) y[row] = arg_row<T, is_max>(x + row * rows.length, rows.length, last);
    });
    return;
  }
  int64_t tiles = ceil_div(rows.inner, TILE);
  parallel_for(context, rows.outer * tiles, rows.length * min(rows.inner, TILE), [=](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; task++) {
      int64_t column = task % tiles * TILE, o = task / tiles;
      arg_tile<T, is_max>(x + o * rows.length * rows.inner + column, y + o * rows.inner + column, rows,
                          min(rows.inner - column, TILE), last);
    }
  });
}

// ---- top k ------------------------------------------------------------------------------------------------------
template <class C> struct Entry {
  C value;
  int64_t index;
};

// Order of the answer: the better value first, then the lower index.
template <class C> struct Better {
  bool largest;
  HIPC_INLINE bool operator()(const Entry<C> &a, const Entry<C> &b) const {
    if (largest ? greater(a.value, b.value) : greater(b.value, a.value)) return true;
    if (largest ? greater(b.value, a.value) : greater(a.value, b.value)) return false;
    return a.index < b.index;
  }
};

// Moves the root of a heap whose root is the worst entry to its place.
template <class C> void sift_down(Entry<C> *heap, int64_t count, int64_t root, Better<C> better) {
  Entry<C> moving = heap[root];
  for (;;) {
    int64_t child = 2 * root + 1;
    if (child >= count) break;
    if (child + 1 < count && better(heap[child], heap[child + 1])) child++;
    if (!better(moving, heap[child])) break;
    heap[root] = heap[child];
    root = child;
  }
  heap[root] = moving;
}

// The k best entries of a row end in `heap`, sorted best first.
template <class T>
void topk_row(const T *x, int64_t length, int64_t stride, int64_t k, Entry<Compute<T>> *heap, bool largest) {
  using C = Compute<T>;
  Better<C> better{largest};
  for (int64_t i = 0; i < k; i++) heap[i] = {widen(x[i * stride]), i};
  for (int64_t i = k / 2 - 1; i >= 0; i--) sift_down(heap, k, i, better);
  for (int64_t i = k; i < length; i++) {
    C value = widen(x[i * stride]);
    // An equal value has a greater index than every entry: it never enters.
    if (largest ? greater(value, heap[0].value) : greater(heap[0].value, value)) {
      heap[0] = {value, i};
      sift_down(heap, k, 0, better);
    }
  }
  for (int64_t end = k - 1; end > 0; end--) {
    Entry<C> worst = heap[0];
    heap[0] = heap[end];
    heap[end] = worst;
    sift_down(heap, end, 0, better);
  }
}

} // namespace

HIPC_EXPORT int32_t hipc_arg_reduce(hipc_context *context, const hipc_tensor *x, hipc_tensor *y, int64_t mode,
                                    int64_t axis, int64_t keepdims, int64_t select_last_index, int64_t is_unsigned) {
  const char *op = "arg_reduce";
  (void)keepdims; // the extents of the output say it
  HIPC_TRY(check_contiguous(context, op, x, y));
  HIPC_TRY(check_axis(context, op, axis, x->rank, &axis));
  Rows rows = rows_of(x, axis);
  if (y->dtype != I64) return unsupported_dtype(context, op, y->dtype);
  if (elements(y) != rows.outer * rows.inner)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: the output does not have one element per row", op);
  if (elements(y) == 0) return HIPC_OK;
  if (rows.length == 0)
    return hipc_error(context, HIPC_ERROR_VALUE, "%s: axis %lld is empty and has no extreme", op, (long long)axis);
  return dispatch_number(context, op, signed_as(x->dtype, is_unsigned), [&]<class T>() {
    if (mode == 0)
      arg_reduce<T, true>(context, data<T>(x), data<int64_t>(y), rows, select_last_index != 0);
    else
      arg_reduce<T, false>(context, data<T>(x), data<int64_t>(y), rows, select_last_index != 0);
    return HIPC_OK;
  });
}

// The answer is always sorted; `sorted` = 0 leaves the order open, so it needs no other code.
HIPC_EXPORT int32_t hipc_topk(hipc_context *context, const hipc_tensor *x, hipc_tensor *values, hipc_tensor *indices,
                              int64_t axis, int64_t largest, int64_t sorted, int64_t is_unsigned) {
  const char *op = "topk";
  (void)sorted;
  HIPC_TRY(check_contiguous(context, op, x, values, indices));
  HIPC_TRY(check_axis(context, op, axis, x->rank, &axis));
  if (x->rank == 0) return hipc_error(context, HIPC_ERROR_SHAPE, "%s needs a rank of at least 1", op);
  HIPC_TRY(check_same_shape(context, op, values, indices));
  if (indices->dtype != I64) return unsupported_dtype(context, op, indices->dtype);
  Rows rows = rows_of(x, axis);
  int64_t k = values->rank == x->rank ? values->shape[axis] : -1;
  if (k < 0 || elements(values) != rows.outer * k * rows.inner)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: the outputs do not have the extents of x and k", op);
  if (k > rows.length)
    return hipc_error(context, HIPC_ERROR_VALUE, "%s: k = %lld exceeds axis %lld of extent %lld", op, (long long)k,
                      (long long)axis, (long long)rows.length);
  if (elements(values) == 0) return HIPC_OK;
  return dispatch_number(context, op, signed_as(x->dtype, is_unsigned), [&]<class T>() -> int32_t {
    using E = Entry<Compute<T>>;
    E *heaps = (E *)hipc_scratch(context, hipc_num_threads(context) * k * (int64_t)sizeof(E));
    if (!heaps) return out_of_memory(context, op);
    const T *in = data<T>(x);
    T *out = data<T>(values);
    int64_t *places = data<int64_t>(indices);
    bool greatest_first = largest != 0;
    parallel_for_threads(context, rows.outer * rows.inner, rows.length * 4, [=](int64_t begin, int64_t end, int32_t thread) {
      E *heap = heaps + thread * k;
      for (int64_t row = begin; row < end; row++) {
        int64_t o = row / rows.inner, column = row % rows.inner;
        topk_row(in + o * rows.length * rows.inner + column, rows.length, rows.inner, k, heap, greatest_first);
        for (int64_t i = 0; i < k; i++) {
          int64_t at = (o * k + i) * rows.inner + column;
          out[at] = in[(o * rows.length + heap[i].index) * rows.inner + column];
          places[at] = heap[i].index;
        }
      }
    });
    return HIPC_OK;
  });
}
