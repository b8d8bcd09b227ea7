// hipc_lookup, hipc_count_ngrams: where numbers, and runs of numbers, stand in sorted tables.
#include "hipc_ops.h"

using namespace hipc;

namespace {

template <class T> HIPC_INLINE bool same(T a, T b) {
  // A key may be NaN, and then means every NaN.
  if constexpr (TypeInfo<T>::is_float) return a == b || (a != a && b != b);
  else return a == b;
}

// Position of the first key that is not less than the value; NaNs stand at the end.
template <class T> int64_t lower_bound(const T *keys, int64_t count, T value) {
  int64_t first = 0;
  while (count > 0) {
    int64_t half = count / 2;
    bool before = keys[first + half] < value;
    if constexpr (TypeInfo<T>::is_float) before = before || (value != value && keys[first + half] == keys[first + half]);
    if (before) first += half + 1, count -= half + 1;
    else count = half;
  }
  return first;
}

// A row of the table of n-grams, which is sorted by length, then by content.
struct Gram {
  int64_t offset, length, column;
};

struct Grams {
  const Gram *rows;
  const int64_t *pool;
  int64_t count;
};

// Column of the n-gram x[0], x[step], ...; -1 where the table does not have it.
template <class I> int64_t column_of(const Grams &grams, const I *x, int64_t length, int64_t step) {
  int64_t first = 0, count = grams.count;
  auto compare = [&](const Gram &gram) -> int {
    if (gram.length != length) return gram.length < length ? -1 : 1;
    for (int64_t i = 0; i < length; i++) {
      int64_t a = grams.pool[gram.offset + i], b = (int64_t)x[i * step];
      if (a != b) return a < b ? -1 : 1;
    }
    return 0;
  };
  while (count > 0) {
    int64_t half = count / 2;
    int order = compare(grams.rows[first + half]);
    if (order == 0) return grams.rows[first + half].column;
    if (order < 0) first += half + 1, count -= half + 1;
    else count = half;
  }
  return -1;
}

} // namespace

// Index of every element among ascending keys, or the number of keys where it is none of them.
HIPC_EXPORT int32_t hipc_lookup(hipc_context *context, const hipc_tensor *x, const hipc_tensor *keys, hipc_tensor *y) {
  const char *op = "lookup";
  HIPC_TRY(check_same_shape(context, op, x, y));
  HIPC_TRY(check_contiguous(context, op, x, keys, y));
  if (x->dtype != keys->dtype || y->dtype != I64)
    return hipc_error(context, HIPC_ERROR_VALUE, "%s: element types of elements and keys differ", op);
  return dispatch_number(context, op, x->dtype, [&]<class T>() {
    const T *from = data<T>(x);
    const T *table = data<T>(keys);
    int64_t *to = data<int64_t>(y), count = elements(keys);
    parallel_for(context, elements(x), 32, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) {
        int64_t at = lower_bound<T>(table, count, from[i]);
        to[i] = at < count && same<T>(table[at], from[i]) ? at : count;
      }
    });
    return HIPC_OK;
  });
}

// How often each n-gram of a table occurs in a row, with up to `max_skip` numbers left out between its members.
HIPC_EXPORT int32_t hipc_count_ngrams(hipc_context *context, const hipc_tensor *x, const hipc_tensor *pool,
                                      const hipc_tensor *table, hipc_tensor *y, int64_t min_length, int64_t max_length,
                                      int64_t max_skip) {
  const char *op = "count_ngrams";
  HIPC_TRY(check_contiguous(context, op, x, pool, table, y));
  if (x->rank != 2 || y->rank != 2 || x->shape[0] != y->shape[0] || table->rank != 2 || table->shape[1] != 3)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: shapes of the operands do not fit", op);
  Grams grams{data<const Gram>(table), data<const int64_t>(pool), table->shape[0]};
  int64_t columns = y->shape[1], words = elements(pool);
  for (int64_t i = 0; i < grams.count; i++) {
    const Gram &gram = grams.rows[i];
    if (gram.offset < 0 || gram.length < 1 || gram.length > words || gram.offset > words - gram.length ||
        gram.column < 0 || gram.column >= columns)
      return hipc_error(context, HIPC_ERROR_INDEX, "%s: n-gram %lld lies outside the pool or the output", op, (long long)i);
  }
  return dispatch_index(context, op, x->dtype, [&]<class I>() {
    const I *from = data<I>(x);
    float *to = data<float>(y);
    int64_t length = x->shape[1];
    parallel_for(context, x->shape[0], length * max_length * (max_skip + 1) * 32, [=](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; row++) {
        float *counts = to + row * columns;
        for (int64_t i = 0; i < columns; i++) counts[i] = 0;
        for (int64_t n = min_length; n <= max_length; n++)
          // A single number has nothing to skip.
          for (int64_t step = 1; step <= (n == 1 ? 1 : max_skip + 1); step++)
            for (int64_t start = 0; start + (n - 1) * step < length; start++) {
              int64_t column = column_of(grams, from + row * length + start, n, step);
              if (column >= 0) counts[column] += 1;
            }
      }
    });
    return HIPC_OK;
  });
}
