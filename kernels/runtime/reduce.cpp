// hipc_reduce, hipc_arg_reduce, hipc_topk, hipc_cumsum and hipc_cumprod on GPUs.
#include "gpu.h"
#include "shared/space.h"

using namespace hipc;

namespace {

constexpr int64_t BLOCK_ELEMENTS = 64;  // fewer are not worth a block of threads

int64_t add_axis(Space *space, int64_t extent, int64_t stride, int64_t size) {
  if (extent == 1) return size;
  space->shape[space->rank] = extent;
  space->strides[space->rank++] = stride;
  return size * extent;
}

bool is_number(int32_t dtype) {
  return dtype != BOOL && *dtype_word(dtype) && dtype != C64 && dtype != C128;
}

Launch blocks_of(hipc_context *context, int64_t count) { return over(context, count * 256); }

constexpr int32_t SUM = 0, PRODUCT = 1;

int32_t scan(hipc_context *context, const char *op, const hipc_tensor *x, const hipc_tensor *at, hipc_tensor *y,
             int64_t axis, int64_t exclusive, int64_t reverse, int32_t kind) {
  if (at) HIPC_TRY(read_number(context, op, "the axis", at, &axis));
  HIPC_TRY(check_same_shape(context, op, x, y));
  HIPC_TRY(check_contiguous(context, op, x, y));
  HIPC_TRY(check_axis(context, op, axis, x->rank, &axis));
  if (!is_number(x->dtype)) return unsupported_dtype(context, op, x->dtype);
  if (elements(x) == 0) return HIPC_OK;
  Rows r = rows_of(x, axis);
  return launch(context, kernel_name("scan", x->dtype), over(context, r.outer * r.inner), x->data, y->data,
                r.outer * r.inner, r.length, r.inner, kind, (int32_t)(exclusive != 0), (int32_t)(reverse != 0));
}

} // namespace

HIPC_EXPORT int32_t hipc_reduce(hipc_context *context, const hipc_tensor *x, hipc_tensor *y, int64_t kind,
                                int64_t is_unsigned) {
  const char *op = "reduce";
  HIPC_TRY(check_contiguous(context, op, x, y));
  if (x->rank != y->rank) return hipc_error(context, HIPC_ERROR_SHAPE, "%s: ranks of input and output differ", op);
  int32_t dtype = signed_as(x->dtype, is_unsigned);
  if (!is_number(dtype)) return unsupported_dtype(context, op, x->dtype);
  Space kept{}, axes{};
  int64_t count = 1, size = 1;
  for (int32_t i = 0; i < x->rank; i++) {
    if (x->shape[i] == y->shape[i]) count = add_axis(&kept, x->shape[i], x->strides[i], count);
    else if (y->shape[i] == 1) size = add_axis(&axes, x->shape[i], x->strides[i], size);
    else
      return hipc_error(context, HIPC_ERROR_SHAPE, "%s: axis %d of extent %lld cannot become %lld", op, (int)i,
                        (long long)x->shape[i], (long long)y->shape[i]);
  }
  if (count == 0) return HIPC_OK;
  bool by_blocks = size >= BLOCK_ELEMENTS;
  return launch(context, kernel_name(by_blocks ? "reduce_block" : "reduce_thread", dtype),
                by_blocks ? blocks_of(context, count) : over(context, count), x->data, y->data, kept, axes, count, size,
                (int32_t)kind);
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
  return launch(context, kernel_name("arg_reduce", dtype), blocks_of(context, r.outer * r.inner), x->data, y->data,
                r.outer * r.inner, r.length, r.inner, (int32_t)(mode == 0), (int32_t)(select_last_index != 0));
}

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
  return launch(context, kernel_name("topk", dtype), blocks_of(context, r.outer * r.inner), x->data, values->data,
                indices->data, r.outer * r.inner, r.length, r.inner, k, (int32_t)(largest != 0));
}

HIPC_EXPORT int32_t hipc_cumsum(hipc_context *context, const hipc_tensor *x, const hipc_tensor *at, hipc_tensor *y,
                                int64_t axis, int64_t exclusive, int64_t reverse) {
  return scan(context, "cumsum", x, at, y, axis, exclusive, reverse, SUM);
}

HIPC_EXPORT int32_t hipc_cumprod(hipc_context *context, const hipc_tensor *x, const hipc_tensor *at, hipc_tensor *y,
                                 int64_t axis, int64_t exclusive, int64_t reverse) {
  return scan(context, "cumprod", x, at, y, axis, exclusive, reverse, PRODUCT);
}
