// A transposed convolution as a matrix product, [filters * taps, channels] x [channels, pixels of the input], whose rows
// are then added to output lines, each where its tap lands.
#include "conv_transpose.h"

using namespace hipc;

namespace {

// Floats of products that are made before they are added: what fits into the second-level caches of a few cores.
constexpr int64_t TOGETHER = 1 << 18;

// The input of one image and group in panels of PANEL pixels, zero-padded: [panels][channels][PANEL].
void pack_input(hipc_context *context, const hipc_tensor *x, int64_t first, int64_t channels, int64_t pixels, float *to) {
  int64_t panels = ceil_div(pixels, PANEL);
  parallel_for(context, panels, channels * PANEL, [=](int64_t begin, int64_t end) {
    for (int64_t panel = begin; panel < end; panel++) {
      int64_t at = panel * PANEL, count = min<int64_t>(PANEL, pixels - at);
      float *row = to + panel * channels * PANEL;
      for (int64_t c = 0; c < channels; c++, row += PANEL) {
        load_floats(x->dtype, x->data, first + c * pixels + at, count, row);
        for (int64_t i = count; i < PANEL; i++) row[i] = 0;
      }
    }
  });
}

// Weights [channels][rows] of one group as [rows][lda].
void turn_weights(hipc_context *context, const hipc_tensor *w, int64_t first, int64_t channels, int64_t rows, float *to,
                  int64_t lda) {
  constexpr int64_t BLOCK = 64;
  parallel_for(context, ceil_div(rows, BLOCK), channels * BLOCK, [=](int64_t begin, int64_t end) {
    alignas(64) float block[BLOCK * BLOCK];
    for (int64_t r0 = begin * BLOCK; r0 < min(rows, end * BLOCK); r0 += BLOCK)
      for (int64_t c0 = 0; c0 < channels; c0 += BLOCK) {
        int64_t height = min(BLOCK, channels - c0), width = min(BLOCK, rows - r0);
        for (int64_t c = 0; c < height; c++)
          load_floats(w->dtype, w->data, first + (c0 + c) * rows + r0, width, block + c * BLOCK);
        transpose(block, BLOCK, to + r0 * lda + c0, lda, height, width);
      }
  });
}

// Adds `count` products to the cells of a phase from `offset` on.
HIPC_INLINE void add_line(float *__restrict cells, const float *__restrict products, int64_t count) {
  for (int64_t i = 0; i < count; i++) cells[i] += products[i];
}

// One line of the output, from its phases: [stride][cells].
void interleave(const float *phases, int64_t stride, int64_t cells, int64_t width, float *__restrict line) {
  if (stride == 1) {
    memcpy(line, phases, (size_t)width * sizeof(float));
  } else if (stride == 2) {
    const float *__restrict even = phases, *__restrict odd = phases + cells;
    for (int64_t i = 0; i < width / 2; i++) line[2 * i] = even[i], line[2 * i + 1] = odd[i];
    if (width % 2) line[width - 1] = even[width / 2];
  } else {
    for (int64_t phase = 0; phase < min(stride, width); phase++)
      for (int64_t i = phase, cell = phase * cells; i < width; i += stride, cell++) line[i] = phases[cell];
  }
}

// Line (z, r) of one filter: the products of all taps that land on it. `products` starts at the filter's first tap.
void add_up(const TransposedConv &g, const float *products, int64_t ld, int64_t z, int64_t r, float bias, float *phases) {
  for (int64_t i = 0; i < g.stride[2] * g.cells[2]; i++) phases[i] = bias;
  for (int64_t kd = 0; kd < g.kernel[0]; kd++) {
    Landing d = g.landing(0, kd);
    int64_t from_z = z / g.stride[0] - d.offset;
    if (d.phase != z % g.stride[0] || from_z < d.begin || from_z >= d.end) continue;
    for (int64_t kh = 0; kh < g.kernel[1]; kh++) {
      Landing h = g.landing(1, kh);
      int64_t from_r = r / g.stride[1] - h.offset;
      if (h.phase != r % g.stride[1] || from_r < h.begin || from_r >= h.end) continue;
      for (int64_t kw = 0; kw < g.kernel[2]; kw++) {
        Landing v = g.landing(2, kw);
        int64_t tap = (kd * g.kernel[1] + kh) * g.kernel[2] + kw;
        const float *line = products + tap * ld + (from_z * g.in[1] + from_r) * g.in[2];
        add_line(phases + v.phase * g.cells[2] + v.begin + v.offset, line + v.begin, v.end - v.begin);
      }
    }
  }
}

} // namespace

int32_t hipc::conv_transpose_product(hipc_context *context, const TransposedConv &g, const hipc_tensor *x,
                                     const hipc_tensor *w, const hipc_tensor *bias, hipc_tensor *y) {
  int64_t channels = g.channels_in / g.group, filters = g.channels_out / g.group, taps = g.kernel_size();
  int64_t pixels = g.in_size(), rows = filters * taps, lda = padded_row(channels), ld = padded_row(pixels);
  int64_t together = max<int64_t>(1, min(filters, TOGETHER / max<int64_t>(taps * ld, 1)));
  int64_t line = round_up(g.stride[2] * g.cells[2], 16), width = round_up(g.out[2], 16);
  int64_t size = (int64_t)sizeof(float), threads = hipc_num_threads(context);
  ScratchPlan scratch;
  int64_t weights_at = scratch.add(g.group * rows * lda * size);
  int64_t input_at = scratch.add(ceil_div(pixels, PANEL) * channels * PANEL * size);
  int64_t products_at = scratch.add(together * taps * ld * size);
  int64_t lines_at = scratch.add(threads * (line + width) * size);
  char *memory = (char *)hipc_scratch(context, scratch.bytes);
  if (!memory) return out_of_memory(context, "conv_transpose");
  float *weights = (float *)(memory + weights_at), *input = (float *)(memory + input_at);
  float *products = (float *)(memory + products_at), *lines = (float *)(memory + lines_at);
  for (int64_t part = 0; part < g.group; part++)
    turn_weights(context, w, part * channels * rows, channels, rows, weights + part * rows * lda, lda);
  int64_t out_lines = g.out[0] * g.out[1];
  for (int64_t item = 0; item < g.batch * g.group; item++) {
    int64_t part = item % g.group;
    pack_input(context, x, item * channels * pixels, channels, pixels, input);
    for (int64_t first = 0; first < filters; first += together) {
      int64_t count = min(together, filters - first);
      Product p{};
      p.m = count * taps, p.n = pixels, p.k = channels;
      p.a = weights + (part * rows + first * taps) * lda, p.lda = lda;
      p.b = input, p.panel_stride = channels * PANEL, p.ldb = PANEL;
      p.y = products, p.ldy = ld;
      multiply(context, p);
      int64_t cost = g.kernel[1] * g.kernel[2] * g.out[2] / g.stride[1] + 2 * g.out[2];
      parallel_for_threads(context, count * out_lines, cost, [=](int64_t begin, int64_t end, int32_t thread) {
        float *phases = lines + thread * (line + width), *whole = phases + line;
        for (int64_t task = begin; task < end; task++) {
          int64_t filter = first + task / out_lines, at = task % out_lines, channel = item * filters + filter;
          float offset = 0;
          if (bias) load_floats(y->dtype, bias->data, part * filters + filter, 1, &offset);
          const float *own = products + (filter - first) * taps * ld;
          add_up(g, own, ld, at / g.out[1], at % g.out[1], offset, phases);
          interleave(phases, g.stride[2], g.cells[2], g.out[2], whole);
          store_floats(y->dtype, y->data, (channel * out_lines + at) * g.out[2], g.out[2], whole);
        }
      });
    }
  }
  return HIPC_OK;
}
