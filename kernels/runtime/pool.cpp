// hipc_pool_window, hipc_max_pool_indices, hipc_global_pool and hipc_pad on GPUs.
#include "window.h"
#include "shared/space.h"

using namespace hipc;

namespace {

constexpr int64_t GREATEST = 0, LP = 2;

bool is_float_type(int32_t dtype) { return dtype == F32 || dtype == F16 || dtype == BF16 || dtype == F64; }
bool has_kernel(int32_t dtype) { return *dtype_word(dtype) && dtype != BOOL; }

int32_t run(hipc_context *context, const char *op, const hipc_tensor *x, hipc_tensor *y, int64_t *indices,
            const WindowAttributes &attributes, int64_t mode, int64_t include_pads, int64_t p, int64_t column_major,
            int64_t is_unsigned) {
  HIPC_TRY(check_contiguous(context, op, x, y));
  Window window{};
  HIPC_TRY(read_window(context, op, x, y, attributes, &window));
  int32_t dtype = signed_as(x->dtype, is_unsigned);
  if (y->dtype != x->dtype || (mode == GREATEST ? !has_kernel(dtype) : !is_float_type(dtype)))
    return unsupported_dtype(context, op, x->dtype);
  if (y->shape[0] != x->shape[0] || y->shape[1] != x->shape[1])
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: the outer extents of y are not those of x", op);
  if (mode == LP && (p < 1 || p > INT32_MAX))
    return hipc_error(context, HIPC_ERROR_VALUE, "%s: p is %lld; it must be positive", op, (long long)p);
  if (elements(y) == 0) return HIPC_OK;
  return launch(context, kernel_name("pool", dtype), over(context, elements(y)), x->data, y->data, indices, window,
                extent(x, 0, 2), (int32_t)mode, (int32_t)(include_pads != 0), (int32_t)p, (int32_t)(column_major != 0));
}

} // namespace

HIPC_EXPORT int32_t hipc_pool_window(hipc_context *context, const hipc_tensor *x, hipc_tensor *y, int64_t mode,
                                     const int64_t *kernel, int64_t num_kernel, const int64_t *strides, int64_t num_strides,
                                     const int64_t *pads, int64_t num_pads, const int64_t *dilations, int64_t num_dilations,
                                     int64_t ceil_mode, int64_t count_include_pad, int64_t p, int64_t is_unsigned) {
  WindowAttributes attributes{kernel,      strides,  pads,          dilations,     num_kernel,
                              num_strides, num_pads, num_dilations, ceil_mode != 0};
  return run(context, "pool", x, y, nullptr, attributes, mode, count_include_pad, p, 0, is_unsigned);
}

HIPC_EXPORT int32_t hipc_max_pool_indices(hipc_context *context, const hipc_tensor *x, hipc_tensor *y, hipc_tensor *indices,
                                          const int64_t *kernel, int64_t num_kernel, const int64_t *strides,
                                          int64_t num_strides, const int64_t *pads, int64_t num_pads,
                                          const int64_t *dilations, int64_t num_dilations, int64_t ceil_mode,
                                          int64_t storage_order, int64_t is_unsigned) {
  WindowAttributes attributes{kernel,      strides,  pads,          dilations,     num_kernel,
                              num_strides, num_pads, num_dilations, ceil_mode != 0};
  if (indices->dtype != I64 || !same_shape(indices, y))
    return hipc_error(context, HIPC_ERROR_SHAPE, "max pool: the indices must be int64 of the shape of y");
  return run(context, "max pool", x, y, data<int64_t>(indices), attributes, GREATEST, 0, 1, storage_order, is_unsigned);
}

HIPC_EXPORT int32_t hipc_global_pool(hipc_context *context, const hipc_tensor *x, hipc_tensor *y, int64_t mode, int64_t p) {
  const char *op = "global pool";
  HIPC_TRY(check_contiguous(context, op, x, y));
  if (x->rank < 2 || x->dtype != y->dtype || elements(y) != extent(x, 0, 2))
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: y must hold one %s for each plane of x", op, dtype_name(x->dtype));
  if (!is_float_type(x->dtype)) return unsupported_dtype(context, op, x->dtype);
  if (mode == LP && (p < 1 || p > INT32_MAX))
    return hipc_error(context, HIPC_ERROR_VALUE, "%s: p is %lld; it must be positive", op, (long long)p);
  if (elements(y) == 0) return HIPC_OK;
  return launch(context, kernel_name("global_pool", x->dtype), over(context, elements(y) * 256), x->data, y->data,
                elements(y), extent(x, 2, x->rank), (int32_t)mode, (int32_t)p);
}

HIPC_EXPORT int32_t hipc_pad(hipc_context *context, const hipc_tensor *x, const hipc_tensor *pads,
                             const hipc_tensor *value, hipc_tensor *y, int64_t mode) {
  HIPC_TRY(check_contiguous(context, "pad", x, pads, value, y));
  if (pads->dtype != I64) return unsupported_dtype(context, "pad", pads->dtype);
  if (y->rank != x->rank || elements(pads) != 2 * x->rank)
    return hipc_error(context, HIPC_ERROR_SHAPE, "pad needs two pads for each of the %d axes", x->rank);
  if (value && elements(value) != 1) return hipc_error(context, HIPC_ERROR_SHAPE, "pad: the value is not one element");
  if (element_size(x->dtype) == 0) return unsupported_dtype(context, "pad", x->dtype);
  int64_t buffer[2 * HIPC_MAX_RANK];
  const int64_t *amounts = buffer;
  if (x->rank) amounts = (const int64_t *)host_view(context, pads->data, buffer, 16 * x->rank);
  if (!amounts) return HIPC_ERROR_INTERNAL;
  Space in{}, out{};
  in.rank = out.rank = x->rank;
  for (int32_t i = 0; i < x->rank; i++) {
    in.shape[i] = x->shape[i], in.strides[i] = extent(x, i + 1, x->rank);
    out.shape[i] = y->shape[i], out.strides[i] = amounts[i];
    if (y->shape[i] != x->shape[i] + amounts[i] + amounts[i + x->rank])
      return hipc_error(context, HIPC_ERROR_SHAPE, "pad: output axis %d has extent %lld, input and pads make %lld", i,
                        (long long)y->shape[i], (long long)(x->shape[i] + amounts[i] + amounts[i + x->rank]));
    if (x->shape[i] == 0 && y->shape[i] != 0 && mode != 0)
      return hipc_error(context, HIPC_ERROR_VALUE, "pad: axis %d is empty and has nothing to repeat", i);
  }
  if (elements(y) == 0) return HIPC_OK;
  return launch(context, kernel_name_of_size("pad", element_size(x->dtype)), over(context, elements(y)), x->data,
                value ? value->data : nullptr, y->data, in, out, elements(y), (int32_t)mode);
}
