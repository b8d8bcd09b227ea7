// hipc_lookup, hipc_count_ngrams: where numbers, and runs of numbers, stand in sorted tables.
#include "shared/tables.h"

using namespace hipc;

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
        int64_t at = first_not_less<T>(table, count, from[i]);
        to[i] = at < count && same_key<T>(table[at], from[i]) ? at : count;
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
    if (!is_within(gram, words, columns))
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
