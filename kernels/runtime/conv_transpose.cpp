// hipc_conv_transpose on GPUs.
#include "gpu.h"
#include "shared/unfolded.h"

using namespace hipc;

namespace {

constexpr const char *OP = "conv_transpose";
constexpr int64_t TILE = 64, FEW_FILTERS = 4, FEW_CHANNELS = 8;

} // namespace

// Only the leading pads matter: the output's extents say where it ends.
HIPC_EXPORT int32_t hipc_conv_transpose(hipc_context *context, const hipc_tensor *x, const hipc_tensor *w,
                                        const hipc_tensor *bias, hipc_tensor *y, const int64_t *strides,
                                        int64_t num_strides, const int64_t *pads, int64_t num_pads,
                                        const int64_t *dilations, int64_t num_dilations,
                                        const int64_t *output_padding, int64_t num_output_padding, int64_t group) {
  (void)output_padding, (void)num_output_padding;
  HIPC_TRY(check_contiguous(context, OP, x, w, bias, y));
  int32_t axes = x->rank - 2;
  if (axes < 1 || axes > 3 || w->rank != x->rank || y->rank != x->rank || num_strides != axes)
    return hipc_error(context, HIPC_ERROR_UNSUPPORTED, "%s needs one to three spatial axes, rank is %d", OP, x->rank);
  if (num_dilations != num_strides || num_pads != 2 * num_strides)
    return hipc_error(context, HIPC_ERROR_VALUE, "%s: strides, pads and dilations do not fit each other", OP);
  if (group < 1 || x->shape[1] % group || w->shape[0] != x->shape[1] || y->shape[0] != x->shape[0] ||
      y->shape[1] != w->shape[1] * group)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: channels of input, weights and output do not fit", OP);
  if (bias && elements(bias) != y->shape[1])
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: the bias does not have one number per output channel", OP);
  bool single = x->dtype == F32 || x->dtype == F16 || x->dtype == BF16;
  if ((!single && x->dtype != F64) || w->dtype != x->dtype || y->dtype != x->dtype || (bias && bias->dtype != x->dtype))
    return unsupported_dtype(context, OP, x->dtype);
  if (extent(x, 2, x->rank) > INT32_MAX || extent(y, 2, y->rank) > INT32_MAX)
    return hipc_error(context, HIPC_ERROR_UNSUPPORTED, "%s of planes with more than 2^31 elements", OP);
  if (elements(y) == 0) return HIPC_OK;
  TransposedWindow conv{{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, (int32_t)x->shape[0], (int32_t)group,
                        (int32_t)(x->shape[1] / group), (int32_t)w->shape[1]};
  int64_t phases = 1, cells = 1, taps = extent(w, 2, w->rank);
  for (int32_t i = 0; i < axes; i++) {
    int32_t at = 3 - axes + i;
    if (strides[i] < 1 || dilations[i] < 1)
      return hipc_error(context, HIPC_ERROR_VALUE, "%s: strides and dilations must be positive", OP);
    conv.in[at] = (int32_t)x->shape[2 + i], conv.out[at] = (int32_t)y->shape[2 + i], conv.kernel[at] = (int32_t)w->shape[2 + i];
    conv.strides[at] = (int32_t)strides[i], conv.dilations[at] = (int32_t)dilations[i], conv.pads[at] = (int32_t)pads[i];
    phases *= strides[i], cells *= ceil_div(y->shape[2 + i], strides[i]);
  }
  bool tiled = single && conv.channels >= FEW_CHANNELS && conv.filters > FEW_FILTERS && phases <= 0xffff &&
               conv.channels * taps < INT32_MAX;
  Launch grid = over(context, elements(y));
  if (tiled) {
    grid.grid[0] = (uint32_t)(ceil_div((int64_t)conv.filters, TILE) * ceil_div(cells, TILE));
    grid.grid[1] = (uint32_t)min<int64_t>((int64_t)conv.images * group, 0xffff);
    grid.grid[2] = (uint32_t)phases;
  }
  return launch(context, kernel_name(tiled ? OP : "conv_transpose_direct", x->dtype), grid, x->data, w->data,
                bias ? bias->data : nullptr, y->data, conv);
}
