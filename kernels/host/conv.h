// A convolution in normal form, shared by its implementations on the host and on GPUs.
#pragma once
#include "gemm.h"

namespace hipc {

// Spatial extents are padded in front to three: depth, height, width.
struct Conv {
  const hipc_tensor *x, *w, *bias, *residual;
  hipc_tensor *y;
  int64_t images, groups, channels, filters;  // channels and filters of one group
  int64_t in[3], out[3], kernel[3], strides[3], dilations[3], pads[3];  // pads: those before the first element
  int64_t in_size, out_size, taps;  // elements of a plane of x and of y, and of a kernel
  Activation activation;
  double activation_alpha, activation_beta;

  // Position in the input of output `o` under tap `k` of spatial axis `axis`; may lie outside.
  int64_t source(int axis, int64_t o, int64_t k) const {
    return o * strides[axis] + k * dilations[axis] - pads[axis];
  }
};

inline int32_t conv_extent(hipc_context *context, const char *what, int64_t found, int64_t expected) {
  return hipc_error(context, HIPC_ERROR_SHAPE, "conv: %s is %lld, expected %lld", what, (long long)found,
                    (long long)expected);
}

// Fills in the normal form and checks everything against it.
inline int32_t read_conv(hipc_context *context, Conv &conv, const int64_t *strides, int64_t num_strides, const int64_t *pads,
                         int64_t num_pads, const int64_t *dilations, int64_t num_dilations, int64_t groups) {
  const hipc_tensor *x = conv.x, *w = conv.w, *y = conv.y;
  int32_t spatial = x->rank - 2;
  if (w->dtype != x->dtype || y->dtype != x->dtype)
    return hipc_error(context, HIPC_ERROR_UNSUPPORTED, "conv of %s by %s to %s", dtype_name(x->dtype), dtype_name(w->dtype),
                      dtype_name(y->dtype));
  if (spatial < 1 || spatial > 3)
    return hipc_error(context, HIPC_ERROR_UNSUPPORTED, "conv with %d spatial dimensions; 1 to 3 are supported", spatial);
  if (w->rank != x->rank || y->rank != x->rank || num_strides != spatial || num_dilations != spatial || num_pads != 2 * spatial)
    return hipc_error(context, HIPC_ERROR_SHAPE, "conv: ranks of w and y and the attributes do not fit x of rank %d", x->rank);
  conv.images = x->shape[0], conv.groups = groups, conv.channels = w->shape[1];
  if (groups < 1 || w->shape[0] % groups) return conv_extent(context, "the number of filters modulo group", 1, 0);
  conv.filters = w->shape[0] / groups;
  if (x->shape[1] != conv.channels * groups)
    return conv_extent(context, "the number of channels of x", x->shape[1], conv.channels * groups);
  if (y->shape[0] != conv.images) return conv_extent(context, "the number of images of y", y->shape[0], conv.images);
  if (y->shape[1] != w->shape[0]) return conv_extent(context, "the number of channels of y", y->shape[1], w->shape[0]);
  for (int axis = 0; axis < 3; axis++) {
    conv.in[axis] = conv.out[axis] = conv.kernel[axis] = conv.strides[axis] = conv.dilations[axis] = 1;
    conv.pads[axis] = 0;
  }
  for (int32_t i = 0; i < spatial; i++) {
    int axis = 3 - spatial + i;
    conv.in[axis] = x->shape[2 + i], conv.out[axis] = y->shape[2 + i], conv.kernel[axis] = w->shape[2 + i];
    conv.strides[axis] = strides[i], conv.dilations[axis] = dilations[i], conv.pads[axis] = pads[i];
    if (strides[i] < 1 || dilations[i] < 1)
      return hipc_error(context, HIPC_ERROR_VALUE, "conv: strides and dilations must be positive");
    int64_t room = conv.in[axis] + pads[i] + pads[spatial + i] - (conv.kernel[axis] - 1) * dilations[i] - 1;
    int64_t expected = room < 0 ? 0 : room / strides[i] + 1;
    if (conv.out[axis] != expected) return conv_extent(context, "a spatial extent of y", conv.out[axis], expected);
  }
  conv.in_size = extent(x, 2, x->rank), conv.out_size = extent(y, 2, y->rank), conv.taps = extent(w, 2, w->rank);
  if (conv.bias && (elements(conv.bias) != w->shape[0] || conv.bias->dtype != y->dtype))
    return conv_extent(context, "the number of elements of bias", elements(conv.bias), w->shape[0]);
  if (conv.residual && (elements(conv.residual) != elements(y) || conv.residual->dtype != y->dtype))
    return conv_extent(context, "the number of elements of residual", elements(conv.residual), elements(y));
  return HIPC_OK;
}

// The product that gives the planes of one group of one image, without its operands.
Product conv_product(const Conv &conv, int64_t image, int64_t group);

// One channel per group.
int32_t conv_depthwise(hipc_context *context, const Conv &conv);
// float64, by plain loops.
int32_t conv_plain(hipc_context *context, const Conv &conv);

} // namespace hipc
