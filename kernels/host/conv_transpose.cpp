// hipc_conv_transpose, as sums of lines; convolutions with many channels are matrix products instead.
//
// Output positions are split by their remainder modulo the stride: within one such phase, a kernel tap adds the whole
// input line at one offset, so the inner loop is contiguous whatever the stride.
#include "conv_transpose.h"

using namespace hipc;

namespace {

// target[i] += sum over `count` channels of w[c] * from[c * step + i]
template <class C>
HIPC_INLINE void add_lines(C *target, const C *from, int64_t step, const C *w, int64_t w_step, int64_t channels,
                           int64_t width) {
  int64_t c = 0;
  for (; c + 4 <= channels; c += 4) {
    const C *a = from + c * step, *b = a + step, *d = b + step, *e = d + step;
    C wa = w[c * w_step], wb = w[(c + 1) * w_step], wd = w[(c + 2) * w_step], we = w[(c + 3) * w_step];
    for (int64_t i = 0; i < width; i++) target[i] += a[i] * wa + b[i] * wb + d[i] * wd + e[i] * we;
  }
  for (; c < channels; c++) {
    const C *a = from + c * step;
    C wa = w[c * w_step];
    for (int64_t i = 0; i < width; i++) target[i] += a[i] * wa;
  }
}

// Adds every input channel of the group to the phases of one output channel. `w` starts at the first input channel's
// kernel for that output channel; the next input channel's is `w_step` further.
template <class C>
void accumulate(const TransposedConv &g, const C *x, const C *w, int64_t w_step, int64_t channels, C *phases) {
  int64_t cell_count = g.cells[0] * g.cells[1] * g.cells[2];
  for (int64_t tap = 0; tap < g.kernel_size(); tap++) {
    Landing d = g.landing(0, tap / (g.kernel[1] * g.kernel[2]));
    Landing h = g.landing(1, tap / g.kernel[2] % g.kernel[1]);
    Landing v = g.landing(2, tap % g.kernel[2]);
    if (v.begin == v.end) continue;
    C *phase = phases + ((d.phase * g.stride[1] + h.phase) * g.stride[2] + v.phase) * cell_count;
    for (int64_t z = d.begin; z < d.end; z++)
      for (int64_t y = h.begin; y < h.end; y++) {
        C *target = phase + ((z + d.offset) * g.cells[1] + y + h.offset) * g.cells[2] + v.begin + v.offset;
        const C *from = x + (z * g.in[1] + y) * g.in[2] + v.begin;
        add_lines(target, from, g.in_size(), w + tap, w_step, channels, v.end - v.begin);
      }
  }
}

// Interleaves the phases into the output plane.
template <class T> void emit(const TransposedConv &g, const Compute<T> *phases, Compute<T> bias, T *y) {
  int64_t cell_count = g.cells[0] * g.cells[1] * g.cells[2];
  for (int64_t z = 0; z < g.out[0]; z++)
    for (int64_t r = 0; r < g.out[1]; r++) {
      const Compute<T> *row = phases + (z % g.stride[0] * g.stride[1] + r % g.stride[1]) * g.stride[2] * cell_count +
                              (z / g.stride[0] * g.cells[1] + r / g.stride[1]) * g.cells[2];
      T *line = y + (z * g.out[1] + r) * g.out[2];
      for (int64_t p = 0; p < min(g.stride[2], g.out[2]); p++)
        for (int64_t i = p, cell = 0; i < g.out[2]; i += g.stride[2], cell++)
          line[i] = (T)(row[p * cell_count + cell] + bias);
    }
}

int32_t read_geometry(hipc_context *context, const hipc_tensor *x, const hipc_tensor *w, const hipc_tensor *bias,
                      const hipc_tensor *y, const int64_t *strides, const int64_t *pads, const int64_t *dilations,
                      int64_t count, int64_t group, TransposedConv *g) {
  const char *op = "conv_transpose";
  int32_t axes = x->rank - 2;
  if (axes < 1 || axes > TransposedConv::AXES || w->rank != x->rank || y->rank != x->rank || count != axes)
    return hipc_error(context, HIPC_ERROR_UNSUPPORTED, "%s needs one to three spatial axes, rank is %d", op, x->rank);
  if (group < 1 || x->shape[1] % group || w->shape[0] != x->shape[1] || y->shape[0] != x->shape[0] ||
      y->shape[1] != w->shape[1] * group)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: channels of input, weights and output do not fit", op);
  if (bias && elements(bias) != y->shape[1])
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: the bias does not have one number per output channel", op);
  *g = {x->shape[0], x->shape[1], y->shape[1], group, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0},
        {1, 1, 1}};
  for (int32_t i = 0; i < axes; i++) {
    int32_t at = TransposedConv::AXES - axes + i;
    if (strides[i] < 1 || dilations[i] < 1)
      return hipc_error(context, HIPC_ERROR_VALUE, "%s: strides and dilations must be positive", op);
    g->in[at] = x->shape[2 + i];
    g->out[at] = y->shape[2 + i];
    g->kernel[at] = w->shape[2 + i];
    g->stride[at] = strides[i];
    g->dilation[at] = dilations[i];
    g->pad[at] = pads[i];
    g->cells[at] = ceil_div(g->out[at], g->stride[at]);
  }
  return HIPC_OK;
}

template <class T> const Compute<T> *widened(const T *from, Compute<T> *to, int64_t count) {
  if constexpr (__is_same(T, Compute<T>)) return from;
  for (int64_t i = 0; i < count; i++) to[i] = widen(from[i]);
  return to;
}

} // namespace

// Only the leading pads matter: the output's extents say where it ends.
HIPC_EXPORT int32_t hipc_conv_transpose(hipc_context *context, const hipc_tensor *x, const hipc_tensor *w,
                                        const hipc_tensor *bias, hipc_tensor *y, const int64_t *strides,
                                        int64_t num_strides, const int64_t *pads, int64_t num_pads,
                                        const int64_t *dilations, int64_t num_dilations,
                                        const int64_t *output_padding, int64_t num_output_padding, int64_t group) {
  const char *op = "conv_transpose";
  (void)output_padding;
  (void)num_output_padding;
  HIPC_TRY(check_contiguous(context, op, x, w, bias, y));
  if (num_dilations != num_strides || num_pads != 2 * num_strides)
    return hipc_error(context, HIPC_ERROR_VALUE, "%s: strides, pads and dilations do not fit each other", op);
  TransposedConv g;
  HIPC_TRY(read_geometry(context, x, w, bias, y, strides, pads, dilations, num_strides, group, &g));
  if (elements(y) == 0) return HIPC_OK;
  bool single = x->dtype == F32 || x->dtype == F16 || x->dtype == BF16;
  if (single && is_product(g)) return conv_transpose_product(context, g, x, w, bias, y);
  return dispatch_float(context, op, x->dtype, [&]<class T>() -> int32_t {
    using C = Compute<T>;
    constexpr bool direct = __is_same(T, C);
    int64_t plane = round_up(g.plane(), 16), size = (int64_t)sizeof(C);
    ScratchPlan scratch;
    int64_t planes_at = scratch.add(hipc_num_threads(context) * plane * size);
    int64_t x_at = scratch.add(direct ? 0 : elements(x) * size), w_at = scratch.add(direct ? 0 : elements(w) * size);
    char *memory = (char *)hipc_scratch(context, scratch.bytes);
    if (!memory) return out_of_memory(context, op);
    const C *input = widened(data<T>(x), (C *)(memory + x_at), elements(x));
    const C *weights = widened(data<T>(w), (C *)(memory + w_at), elements(w));
    C *planes = (C *)(memory + planes_at);
    const T *offsets = bias ? data<T>(bias) : nullptr;
    T *out = data<T>(y);
    int64_t in_group = g.channels_in / group, out_group = g.channels_out / group;
    int64_t cost = g.in_size() * g.kernel_size() * in_group + g.out_size();
    parallel_for_threads(context, g.batch * g.channels_out, cost, [=](int64_t begin, int64_t end, int32_t thread) {
      C *phases = planes + thread * plane;
      for (int64_t task = begin; task < end; task++) {
        int64_t n = task / g.channels_out, channel = task % g.channels_out, part = channel / out_group;
        for (int64_t i = 0; i < plane; i++) phases[i] = 0;
        const C *first = weights + (part * in_group * out_group + channel % out_group) * g.kernel_size();
        accumulate(g, input + (n * g.channels_in + part * in_group) * g.in_size(), first, out_group * g.kernel_size(),
                   in_group, phases);
        emit<T>(g, phases, offsets ? widen(offsets[channel]) : (C)0, out + task * g.out_size());
      }
    });
    return HIPC_OK;
  });
}
