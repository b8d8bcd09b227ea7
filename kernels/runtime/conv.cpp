// hipc_conv on GPUs.
#include "../host/gemm.h"
#include "shared/products.h"
#include "window.h"

using namespace hipc;

namespace {

constexpr int64_t TILE = 64, FEW_FILTERS = 4, EACH = 8;  // EACH is that of hipc_tiles.h

int32_t wrong(hipc_context *context, const char *what, int64_t found, int64_t expected) {
  return hipc_error(context, HIPC_ERROR_SHAPE, "conv: %s is %lld, expected %lld", what, (long long)found, (long long)expected);
}

// As a product of tiles. With channels enough its depth is tap after tap of them, for which the filters are put in order.
int32_t tiled(hipc_context *context, const void *x, const void *w, void *y, int32_t dtype, const WindowedProduct &conv,
              const ProductEnd &ends) {
  Launch grid;
  grid.block[0] = 256;
  grid.grid[0] = (uint32_t)(ceil_div((int64_t)conv.filters, TILE) * ceil_div((int64_t)conv.out_size, TILE));
  grid.grid[1] = (uint32_t)min<int64_t>((int64_t)conv.images * conv.groups, 0xffff);
  int64_t depth = (int64_t)conv.channels * conv.taps, channels = round_up((int64_t)conv.channels, EACH);
  if (conv.channels < EACH) return launch(context, kernel_name("conv", dtype), grid, x, w, y, conv, ends, depth);
  if (conv.taps > 1 || conv.channels != channels || (uintptr_t)w % 16 != 0) {
    depth = channels * conv.taps;
    int64_t count = conv.groups * conv.filters * depth, size = element_size(dtype);
    void *ordered = device_scratch(context, count * size);
    if (!ordered) return out_of_memory(context, "conv");
    HIPC_TRY(launch(context, kernel_name_of_size("conv_order", size), over(context, count), w, ordered, count, conv.channels,
                    conv.taps));
    w = ordered;
  }
  return launch(context, kernel_name("conv_taps", dtype), grid, x, w, y, conv, ends, depth);
}

} // namespace

HIPC_EXPORT int32_t hipc_conv(hipc_context *context, const hipc_tensor *x, const hipc_tensor *w, const hipc_tensor *bias,
                              const hipc_tensor *residual, hipc_tensor *y, const int64_t *strides, int64_t num_strides,
                              const int64_t *pads, int64_t num_pads, const int64_t *dilations, int64_t num_dilations,
                              int64_t group, int64_t activation, double activation_alpha, double activation_beta) {
  HIPC_TRY(check_contiguous(context, "conv", x, w, bias, residual, y));
  if (x->rank != w->rank || x->rank < 3)
    return hipc_error(context, HIPC_ERROR_SHAPE, "conv of ranks %d and %d", x->rank, w->rank);
  bool is_half_or_float = x->dtype == F32 || x->dtype == F16 || x->dtype == BF16;
  if ((!is_half_or_float && x->dtype != F64) || w->dtype != x->dtype || y->dtype != x->dtype ||
      (bias && bias->dtype != x->dtype) || (residual && residual->dtype != x->dtype))
    return unsupported_dtype(context, "conv", x->dtype);
  WindowAttributes attributes{w->shape + 2, strides, pads, dilations, w->rank - 2, num_strides, num_pads, num_dilations, false};
  WindowedProduct conv{};
  HIPC_TRY(read_window(context, "conv", x, y, attributes, &conv.window));
  int64_t filters = w->shape[0], channels = w->shape[1];
  if (group < 1 || filters % group) return wrong(context, "the number of filters over groups", filters, group);
  if (x->shape[1] != channels * group) return wrong(context, "the number of channels", x->shape[1], channels * group);
  if (y->shape[0] != x->shape[0] || y->shape[1] != filters) return wrong(context, "the number of channels of y", y->shape[1], filters);
  if (bias && elements(bias) != filters) return wrong(context, "the number of elements of bias", elements(bias), filters);
  if (residual && elements(residual) != elements(y))
    return wrong(context, "the number of elements of residual", elements(residual), elements(y));
  if (elements(y) == 0) return HIPC_OK;
  conv.groups = (int32_t)group, conv.channels = (int32_t)channels, conv.filters = (int32_t)(filters / group);
  conv.images = (int32_t)x->shape[0], conv.in_size = (int32_t)extent(x, 2, x->rank);
  conv.out_size = (int32_t)extent(y, 2, y->rank), conv.taps = (int32_t)extent(w, 2, w->rank);
  ProductEnd ends{bias ? bias->data : nullptr, residual ? residual->data : nullptr, 1, (float)activation_alpha,
            (float)activation_beta, (int32_t)activation};
  if (is_half_or_float && conv.filters > FEW_FILTERS && round_up(channels, EACH) * conv.taps < INT32_MAX)
    return tiled(context, x->data, w->data, y->data, x->dtype, conv, ends);
  return launch(context, kernel_name("conv_direct", x->dtype), over(context, elements(y)), x->data, w->data, y->data, conv, ends,
                activation_alpha, activation_beta);
}
