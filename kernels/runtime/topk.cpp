// hipc_topk on GPUs.
#include "gpu.h"
#include "shared/reduction.h"

using namespace hipc;

HIPC_EXPORT int32_t hipc_topk(hipc_context *context, const hipc_tensor *x, hipc_tensor *values, hipc_tensor *indices,
                              int64_t axis, int64_t largest, int64_t sorted, int64_t is_unsigned) {
  const char *op = "topk";
  (void)sorted;  // they are found in order
  HIPC_TRY(check_contiguous(context, op, x, values, indices));
  HIPC_TRY(check_axis(context, op, axis, x->rank, &axis));
  HIPC_TRY(check_same_shape(context, op, values, indices));
  int32_t dtype = signed_as(x->dtype, is_unsigned);
  if (!is_number(dtype)) return unsupported_dtype(context, op, x->dtype);
  Rows r = rows_of(x, axis);
  int64_t k = x->rank ? values->shape[axis] : 1;
  if (indices->dtype != I64 || values->dtype != x->dtype || elements(values) != r.outer * k * r.inner)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: the outputs do not have the extents of the input", op);
  if (k > r.length)
    return hipc_error(context, HIPC_ERROR_VALUE, "%s: %lld of %lld elements are asked for", op, (long long)k, (long long)r.length);
  if (elements(values) == 0) return HIPC_OK;
  if (r.length >= INT32_MAX)
    return hipc_error(context, HIPC_ERROR_UNSUPPORTED, "%s of rows of %lld elements", op, (long long)r.length);
  TopK call{};
  call.x = x->data, call.values = values->data, call.indices = data<int64_t>(indices);
  call.columns = r.outer * r.inner, call.length = r.length, call.inner = r.inner, call.k = k;
  call.dtype = dtype, call.size = (int32_t)element_size(dtype), call.largest = largest != 0;
  call.runs = ceil_div(r.length, RUN), call.kept = min(k, RUN);
  for (call.width = 2; call.width < min(r.length, RUN);) call.width *= 2;
  Launch sort = rows(min(call.columns * call.runs, MOST_BLOCKS), (uint32_t)max<int64_t>(64, min<int64_t>(call.width / 2, 256)));
  const char *words[2] = {call.size == 8 ? "topk_sort_b8" : "topk_sort_b4", call.size == 8 ? "topk_merge_b8" : "topk_merge_b4"};
  if (call.runs == 1) return launch(context, words[0], sort, call);
  // What is sorted and what it is merged to take turns in two buffers.
  int64_t bytes = call.size == 8 ? 16 : 8, sizes[2] = {};
  for (int64_t runs = call.runs, kept = call.kept, turn = 0; runs > 1; turn = !turn) {
    sizes[turn] = max(sizes[turn], call.columns * runs * kept * bytes);
    runs = ceil_div(runs, MERGED_RUNS), kept = min(k, kept * MERGED_RUNS);
  }
  ScratchPlan plan;
  int64_t at[2] = {plan.add(sizes[0]), plan.add(sizes[1])}, turn = 0;
  char *scratch = (char *)device_scratch(context, plan.bytes);
  if (!scratch) return out_of_memory(context, op);
  call.to = scratch + at[turn];
  HIPC_TRY(launch(context, words[0], sort, call));
  while (call.runs > 1) {
    int64_t left = ceil_div(call.runs, MERGED_RUNS);
    turn = !turn;
    call.from = call.to, call.to = left > 1 ? scratch + at[turn] : nullptr;
    call.taken = call.kept, call.kept = min(k, call.taken * MERGED_RUNS);
    HIPC_TRY(launch(context, words[1], over(context, call.columns * call.runs * call.taken), call));
    call.runs = left;
  }
  return HIPC_OK;
}
