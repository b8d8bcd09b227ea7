// hipc_reduce and hipc_arg_reduce on GPUs. Long reductions of few results are shared by blocks.
#include "gpu.h"
#include "shared/reduction.h"

using namespace hipc;

namespace {

constexpr int64_t BLOCK_ELEMENTS = 64;    // fewer are not worth a block of threads
constexpr int64_t SHARED_ELEMENTS = 4096;  // fewer are not worth another block

// Neighbouring axes that are walked with one stride become one.
int64_t add_axis(Space *space, int64_t extent, int64_t stride, int64_t size) {
  if (extent == 1) return size;
  int32_t last = space->rank - 1;
  if (last >= 0 && space->strides[last] == stride * extent) {
    space->shape[last] *= extent, space->strides[last] = stride;
  } else {
    space->shape[space->rank] = extent, space->strides[space->rank++] = stride;
  }
  return size * extent;
}

// Blocks for each of `count` results of `size` elements, so that all compute units have some; parts are `bytes` each.
int32_t share(hipc_context *context, const char *op, int64_t count, int64_t size, int64_t bytes, Sharing *sharing) {
  int64_t wanted = 4 * (int64_t)compute_units(context) / count, blocks = min(wanted, size / SHARED_ELEMENTS);
  *sharing = {nullptr, nullptr, 1};
  if (blocks < 2 || count > MOST_COUNTERS) return HIPC_OK;
  *sharing = {device_scratch(context, count * blocks * bytes), device_counters(context), (int32_t)blocks};
  if (!sharing->parts) return out_of_memory(context, op);
  return sharing->counters ? (int32_t)HIPC_OK : (int32_t)HIPC_ERROR_MEMORY;
}

} // namespace

HIPC_EXPORT int32_t hipc_reduce(hipc_context *context, const hipc_tensor *x, hipc_tensor *y, int64_t kind,
                                int64_t is_unsigned) {
  const char *op = "reduce";
  HIPC_TRY(check_contiguous(context, op, x, y));
  if (x->rank != y->rank) return hipc_error(context, HIPC_ERROR_SHAPE, "%s: ranks of input and output differ", op);
  int32_t dtype = signed_as(x->dtype, is_unsigned);
  if (!is_number(dtype)) return unsupported_dtype(context, op, x->dtype);
  Reduction reduction{};
  Space &kept = reduction.kept, &axes = reduction.axes;
  int64_t count = 1, size = 1;
  for (int32_t i = 0; i < x->rank; i++) {
    if (x->shape[i] == y->shape[i]) count = add_axis(&kept, x->shape[i], x->strides[i], count);
    else if (y->shape[i] == 1) size = add_axis(&axes, x->shape[i], x->strides[i], size);
    else
      return hipc_error(context, HIPC_ERROR_SHAPE, "%s: axis %d of extent %lld cannot become %lld", op, (int)i,
                        (long long)x->shape[i], (long long)y->shape[i]);
  }
  if (count == 0) return HIPC_OK;
  reduction.x = x->data, reduction.y = y->data, reduction.count = count, reduction.size = size, reduction.kind = (int32_t)kind;
  // Threads side by side read side by side where they belong to neighbouring results, if these are many.
  bool along = axes.rank > 0 && axes.strides[axes.rank - 1] == 1;
  if (size < BLOCK_ELEMENTS || (!along && count >= 256 * (int64_t)compute_units(context)))
    return launch(context, kernel_name("reduce_thread", dtype), over(context, count), reduction);
  HIPC_TRY(share(context, op, count, size, 8, &reduction.sharing));
  return launch(context, kernel_name("reduce_block", dtype), rows(min(count, MOST_BLOCKS) * reduction.sharing.blocks), reduction);
}

HIPC_EXPORT int32_t hipc_arg_reduce(hipc_context *context, const hipc_tensor *x, hipc_tensor *y, int64_t mode,
                                    int64_t axis, int64_t keepdims, int64_t select_last_index, int64_t is_unsigned) {
  const char *op = "arg_reduce";
  (void)keepdims;
  HIPC_TRY(check_contiguous(context, op, x, y));
  HIPC_TRY(check_axis(context, op, axis, x->rank, &axis));
  int32_t dtype = signed_as(x->dtype, is_unsigned);
  if (!is_number(dtype)) return unsupported_dtype(context, op, x->dtype);
  Rows r = rows_of(x, axis);
  if (y->dtype != I64 || elements(y) != r.outer * r.inner)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: the output does not have the extents of the input without the axis", op);
  if (elements(y) == 0) return HIPC_OK;
  if (r.length == 0) return hipc_error(context, HIPC_ERROR_VALUE, "%s: an empty axis has no extreme", op);
  ArgReduction reduction{x->data, data<int64_t>(y), r.outer * r.inner, r.length, r.inner, {}, mode == 0, select_last_index != 0};
  HIPC_TRY(share(context, op, reduction.columns, r.length, 16, &reduction.sharing));
  return launch(context, kernel_name("arg_reduce", dtype), rows(min(reduction.columns, MOST_BLOCKS) * reduction.sharing.blocks), reduction);
}
