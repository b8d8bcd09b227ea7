// hipc_conv on GPUs.
#include "../host/conv.h"
#include "gpu.h"

using namespace hipc;

namespace {

constexpr const char *OP = "conv";
constexpr int64_t TILE = 64;
// Groups with fewer filters leave most of a tile empty.
constexpr int64_t FEW_FILTERS = 8;

// As kernels/device/conv.hip declares them.
struct Normal {
  int64_t in[3], out[3], kernel[3], strides[3], dilations[3], pads[3];
  int64_t channels, filters, groups, images;
};
struct Ending {
  const void *bias, *residual;
  float alpha, first, second;
  int32_t activation;
};

Normal normal_of(const Conv &conv) {
  Normal normal;
  for (int axis = 0; axis < 3; axis++) {
    normal.in[axis] = conv.in[axis], normal.out[axis] = conv.out[axis], normal.kernel[axis] = conv.kernel[axis];
    normal.strides[axis] = conv.strides[axis], normal.dilations[axis] = conv.dilations[axis];
    normal.pads[axis] = conv.pads[axis];
  }
  normal.channels = conv.channels, normal.filters = conv.filters, normal.groups = conv.groups, normal.images = conv.images;
  return normal;
}

} // namespace

HIPC_EXPORT int32_t hipc_conv(hipc_context *context, const hipc_tensor *x, const hipc_tensor *w, const hipc_tensor *bias,
                              const hipc_tensor *residual, hipc_tensor *y, const int64_t *strides, int64_t num_strides,
                              const int64_t *pads, int64_t num_pads, const int64_t *dilations, int64_t num_dilations,
                              int64_t group, int64_t activation, double activation_alpha, double activation_beta) {
  Conv conv{};
  conv.x = x, conv.w = w, conv.bias = bias, conv.residual = residual, conv.y = y;
  HIPC_TRY(read_conv(context, conv, strides, num_strides, pads, num_pads, dilations, num_dilations, group));
  HIPC_TRY(check_contiguous(context, OP, x, w, bias, residual, y));
  if (x->dtype != F32 && x->dtype != F16 && x->dtype != BF16) return unsupported_dtype(context, OP, x->dtype);
  if (elements(y) == 0) return HIPC_OK;
  Ending end{bias ? bias->data : nullptr, residual ? residual->data : nullptr, 1.0f, (float)activation_alpha,
               (float)activation_beta, (int32_t)activation};
  if (conv.filters < FEW_FILTERS && conv.groups > 1)
    return launch(context, kernel_name("conv_direct", x->dtype), over(context, elements(y)), x->data, w->data, y->data,
                  normal_of(conv), end);
  Launch tiles;
  tiles.grid[0] = (uint32_t)(ceil_div(conv.filters, TILE) * ceil_div(conv.out_size, TILE));
  tiles.grid[1] = (uint32_t)min<int64_t>(conv.images * conv.groups, 0xffff);
  tiles.block[0] = 256;
  return launch(context, kernel_name("conv", x->dtype), tiles, x->data, w->data, y->data, normal_of(conv), end);
}
