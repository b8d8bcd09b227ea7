// hipc_col2im, hipc_deform_conv.
#include "regions.h"

using namespace hipc;

namespace {

struct Window {
  int32_t axes;
  int64_t image[HIPC_MAX_RANK], block[HIPC_MAX_RANK], cells[HIPC_MAX_RANK];
  const int64_t *stride, *pad, *dilation;
};

// Adds the columns of one channel, [block][cells], into its image, which holds zeros.
template <class T> void add_columns(const Window &w, const T *columns, Compute<T> *image) {
  int64_t blocks = 1, cells = 1;
  for (int32_t i = 0; i < w.axes; i++) blocks *= w.block[i], cells *= w.cells[i];
  Walk<1> tap(w.axes, w.block), cell(w.axes, w.cells);
  if (blocks * cells == 0) return;
  tap.seek(0);
  for (int64_t b = 0; b < blocks; b++, tap.next()) {
    cell.seek(0);
    for (int64_t c = 0; c < cells; c++, cell.next()) {
      int64_t offset = 0;
      bool inside = true;
      for (int32_t i = 0; i < w.axes; i++) {
        int64_t at = cell.index[i] * w.stride[i] - w.pad[i] + tap.index[i] * w.dilation[i];
        inside = inside && at >= 0 && at < w.image[i];
        offset = offset * w.image[i] + at;
      }
      if (inside) image[offset] += widen(columns[b * cells + c]);
    }
  }
}

// ---- deform_conv ------------------------------------------------------------------------------------------------
// Every sampled input of one output position: samples[channel][tap].
template <class T>
void sample_position(const Deformed &d, const T *x, const T *offset, const T *mask, int64_t n, int64_t position,
                     Compute<T> *samples) {
  int64_t per_group = d.channels_in / d.offset_group;
  for (int64_t g = 0; g < d.offset_group; g++)
    for (int64_t tap = 0; tap < d.taps(); tap++) {
      auto at = deformed_tap(d, offset, mask, n, g, tap, position);
      for (int64_t c = g * per_group; c < (g + 1) * per_group; c++)
        samples[c * d.taps() + tap] = at.weight * between(x + (n * d.channels_in + c) * d.height * d.width, d, at.y, at.x);
    }
}

template <class T>
void deform_position(const Deformed &d, const T *w, const T *bias, const Compute<T> *samples, T *y) {
  using C = Compute<T>;
  int64_t depth = d.channels_in / d.group * d.taps(), per_group = d.channels_out / d.group;
  for (int64_t o = 0; o < d.channels_out; o++) {
    const C *from = samples + o / per_group * depth;
    const T *weights = w + o * depth;
    C sum = 0;
    {
#pragma clang fp reassociate(on)
      for (int64_t k = 0; k < depth; k++) sum += from[k] * widen(weights[k]);
    }
    y[o * d.positions()] = (T)(sum + (bias ? widen(bias[o]) : (C)0));
  }
}

} // namespace

HIPC_EXPORT int32_t hipc_col2im(hipc_context *context, const hipc_tensor *x, const hipc_tensor *block, hipc_tensor *y,
                                const int64_t *strides, int64_t num_strides, const int64_t *pads, int64_t num_pads,
                                const int64_t *dilations, int64_t num_dilations) {
  const char *op = "col2im";
  HIPC_TRY(check_contiguous(context, op, x, block, y));
  Window w{};
  w.axes = y->rank - 2;
  w.stride = strides;
  w.pad = pads;
  w.dilation = dilations;
  if (x->rank != 3 || w.axes < 1 || block->dtype != I64 || elements(block) != w.axes || num_strides != w.axes ||
      num_dilations != w.axes || num_pads != 2 * w.axes)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: ranks and attributes do not fit each other", op);
  int64_t channels = y->shape[1], blocks = 1, cells = 1;
  for (int32_t i = 0; i < w.axes; i++) {
    w.block[i] = data<int64_t>(block)[i];
    if (strides[i] < 1 || dilations[i] < 1 || w.block[i] < 1)
      return hipc_error(context, HIPC_ERROR_VALUE, "%s: blocks, strides and dilations must be positive", op);
    w.image[i] = y->shape[2 + i];
    int64_t room = w.image[i] + pads[i] + pads[w.axes + i] - dilations[i] * (w.block[i] - 1) - 1;
    w.cells[i] = room < 0 ? 0 : room / strides[i] + 1;
    blocks *= w.block[i];
    cells *= w.cells[i];
  }
  if (x->shape[0] != y->shape[0] || x->shape[1] != channels * blocks || x->shape[2] != cells)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: the image has %lld blocks, the columns %lld", op,
                      (long long)cells, (long long)x->shape[2]);
  if (elements(y) == 0) return HIPC_OK;
  return dispatch_float(context, op, x->dtype, [&]<class T>() -> int32_t {
    using C = Compute<T>;
    int64_t size = extent(y, 2, y->rank), stride = round_up(size, 16);
    C *memory = (C *)hipc_scratch(context, hipc_num_threads(context) * stride * (int64_t)sizeof(C));
    if (!memory) return out_of_memory(context, op);
    const T *from = data<T>(x);
    T *to = data<T>(y);
    parallel_for_threads(context, y->shape[0] * channels, blocks * cells * 4,
                         [=](int64_t begin, int64_t end, int32_t thread) {
                           C *image = memory + thread * stride;
                           for (int64_t plane = begin; plane < end; plane++) {
                             for (int64_t i = 0; i < size; i++) image[i] = 0;
                             add_columns(w, from + plane * blocks * cells, image);
                             for (int64_t i = 0; i < size; i++) to[plane * size + i] = (T)image[i];
                           }
                         });
    return HIPC_OK;
  });
}

HIPC_EXPORT int32_t hipc_deform_conv(hipc_context *context, const hipc_tensor *x, const hipc_tensor *w,
                                     const hipc_tensor *offset, const hipc_tensor *bias, const hipc_tensor *mask,
                                     hipc_tensor *y, const int64_t *strides, int64_t num_strides, const int64_t *pads,
                                     int64_t num_pads, const int64_t *dilations, int64_t num_dilations, int64_t group,
                                     int64_t offset_group) {
  const char *op = "deform_conv";
  HIPC_TRY(check_contiguous(context, op, x, w, offset, bias, mask, y));
  if (num_strides != 2 || num_pads != 4 || num_dilations != 2)
    return hipc_error(context, HIPC_ERROR_VALUE, "%s: strides, pads and dilations are of another rank", op);
  Deformed d{};
  d.group = group;
  d.offset_group = offset_group;
  for (int i = 0; i < 2; i++) d.stride[i] = strides[i], d.pad[i] = pads[i], d.dilation[i] = dilations[i];
  HIPC_TRY(read_deformed(context, x, w, offset, bias, mask, y, &d));
  if (elements(y) == 0) return HIPC_OK;
  return dispatch_float(context, op, x->dtype, [&]<class T>() -> int32_t {
    using C = Compute<T>;
    int64_t stride = round_up(d.channels_in * d.taps(), 16);
    C *memory = (C *)hipc_scratch(context, max(hipc_num_threads(context) * stride, (int64_t)16) * (int64_t)sizeof(C));
    if (!memory) return out_of_memory(context, op);
    const T *from = data<T>(x), *weights = data<T>(w), *shifts = data<T>(offset);
    const T *addend = bias ? data<T>(bias) : nullptr, *scales = mask ? data<T>(mask) : nullptr;
    T *to = data<T>(y);
    int64_t cost = d.channels_in * d.taps() * (16 + d.channels_out / d.group);
    parallel_for_threads(context, d.batch * d.positions(), cost, [=](int64_t begin, int64_t end, int32_t thread) {
      C *samples = memory + thread * stride;
      for (int64_t task = begin; task < end; task++) {
        int64_t n = task / d.positions(), position = task % d.positions();
        sample_position(d, from, shifts, scales, n, position, samples);
        deform_position(d, weights, addend, samples, to + n * d.channels_out * d.positions() + position);
      }
    });
    return HIPC_OK;
  });
}
