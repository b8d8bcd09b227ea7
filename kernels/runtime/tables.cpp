// hipc_lookup, hipc_count_ngrams and hipc_tree_ensemble on GPUs. Kernels report tables that point outside.
#include "shared/tables.h"
#include "gpu.h"

using namespace hipc;

HIPC_EXPORT int32_t hipc_lookup(hipc_context *context, const hipc_tensor *x, const hipc_tensor *keys, hipc_tensor *y) {
  const char *op = "lookup";
  HIPC_TRY(check_same_shape(context, op, x, y));
  HIPC_TRY(check_contiguous(context, op, x, keys, y));
  if (x->dtype != keys->dtype || y->dtype != I64)
    return hipc_error(context, HIPC_ERROR_VALUE, "%s: element types of elements and keys differ", op);
  if (!*dtype_word(x->dtype) || x->dtype == BOOL) return unsupported_dtype(context, op, x->dtype);
  if (elements(x) == 0) return HIPC_OK;
  return launch(context, kernel_name(op, x->dtype), over(context, elements(x)), x->data, keys->data, y->data, elements(x),
                elements(keys));
}

HIPC_EXPORT int32_t hipc_count_ngrams(hipc_context *context, const hipc_tensor *x, const hipc_tensor *pool,
                                      const hipc_tensor *table, hipc_tensor *y, int64_t min_length, int64_t max_length,
                                      int64_t max_skip) {
  const char *op = "count_ngrams";
  HIPC_TRY(check_contiguous(context, op, x, pool, table, y));
  if (x->rank != 2 || y->rank != 2 || x->shape[0] != y->shape[0] || table->rank != 2 || table->shape[1] != 3)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: shapes of the operands do not fit", op);
  if (x->dtype != I32 && x->dtype != I64) return unsupported_dtype(context, op, x->dtype);
  if (y->dtype != F32) return unsupported_dtype(context, op, y->dtype);
  if (elements(y) == 0) return HIPC_OK;
  Grams grams{data<const Gram>(table), data<const int64_t>(pool), table->shape[0]};
  int64_t count = elements(y), columns = y->shape[1], length = x->shape[1];
  int32_t *counts = (int32_t *)device_scratch(context, count * 4), *fault = device_fault(context);
  if (!counts) return out_of_memory(context, op);
  if (!fault) return HIPC_ERROR_MEMORY;
  HIPC_TRY(device_fill(context, counts, 0, count * 4));
  int64_t starts = x->shape[0] * max<int64_t>(max_length - min_length + 1, 0) * (max_skip + 1) * length;
  if (grams.count && starts) {
    HIPC_TRY(launch(context, "count_ngrams_check", over(context, grams.count), grams, elements(pool), columns, fault));
    HIPC_TRY(launch(context, kernel_name(op, x->dtype), over(context, starts), x->data, grams, counts, x->shape[0], length, columns,
                    min_length, max_length, max_skip, (const int32_t *)fault));
  }
  return launch(context, "count_ngrams_store", over(context, count), (const int32_t *)counts, y->data, count);
}

HIPC_EXPORT int32_t hipc_tree_ensemble(hipc_context *context, const hipc_tensor *x, const hipc_tensor *nodes,
                                       const hipc_tensor *splits, const hipc_tensor *roots, const hipc_tensor *targets,
                                       const hipc_tensor *weights, const hipc_tensor *members, hipc_tensor *y,
                                       int64_t aggregate) {
  const char *op = "tree_ensemble";
  HIPC_TRY(check_contiguous(context, op, x, nodes, splits, roots, targets, weights, members, y));
  if (x->rank != 2 || y->rank != 2 || x->shape[0] != y->shape[0] || nodes->rank != 2 || nodes->shape[1] != 7 ||
      elements(splits) != nodes->shape[0] || elements(targets) != elements(weights) || x->dtype != y->dtype)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: shapes of the table and of the trees do not fit", op);
  if (x->dtype != F32 && x->dtype != F16 && x->dtype != BF16 && x->dtype != F64) return unsupported_dtype(context, op, x->dtype);
  if (elements(y) == 0) return HIPC_OK;
  Forest forest{data<const Node>(nodes),   data<const double>(splits),  data<const double>(members),
                data<const double>(weights), data<const int64_t>(roots), data<const int64_t>(targets), elements(roots)};
  ForestLimits limits{nodes->shape[0], x->shape[1], elements(members), elements(weights), y->shape[1]};
  int64_t count = x->shape[0], visits = count * forest.trees;
  int64_t *leaves = (int64_t *)device_scratch(context, max<int64_t>(visits, 1) * 8);
  int32_t *fault = device_fault(context);
  if (!leaves) return out_of_memory(context, op);
  if (!fault) return HIPC_ERROR_MEMORY;
  if (visits)
    HIPC_TRY(launch(context, kernel_name("forest_leaves", x->dtype), over(context, visits), forest, limits, x->data, leaves, count, fault));
  return launch(context, kernel_name("forest_scores", x->dtype), over(context, elements(y)), forest, limits, (const int64_t *)leaves,
                y->data, count, aggregate);
}
