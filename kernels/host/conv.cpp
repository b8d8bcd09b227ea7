// hip.conv: the weights, [filters, channels * taps], times columns of the input that are gathered panel by panel.
#include "conv.h"

using namespace hipc;

namespace {

// Floats of panels that one thread gathers before it multiplies them.
constexpr int64_t GATHERED = 1 << 16;
constexpr int64_t BLOCK_ROWS = 168;

int32_t bad_shape(hipc_context *context, const char *what, int64_t found, int64_t expected) {
  return hipc_error(context, HIPC_ERROR_SHAPE, "conv: %s is %lld, expected %lld", what, (long long)found,
                    (long long)expected);
}

constexpr int64_t WINOGRAD_POINTS = 36;

// Whether the weights are points of kernels of 3 x 3; see conv_winograd.
bool is_transformed(const Conv &conv) { return conv.x->rank == 4 && conv.w->rank == 3; }

int32_t read_arguments(hipc_context *context, Conv &conv, const int64_t *strides, int64_t num_strides, const int64_t *pads,
                       int64_t num_pads, const int64_t *dilations, int64_t num_dilations, int64_t groups) {
  const hipc_tensor *x = conv.x, *w = conv.w, *y = conv.y;
  int32_t spatial = x->rank - 2;
  if (w->dtype != x->dtype || y->dtype != x->dtype)
    return hipc_error(context, HIPC_ERROR_UNSUPPORTED, "conv of %s by %s to %s", dtype_name(x->dtype), dtype_name(w->dtype),
                      dtype_name(y->dtype));
  if (spatial < 1 || spatial > 3)
    return hipc_error(context, HIPC_ERROR_UNSUPPORTED, "conv with %d spatial dimensions; 1 to 3 are supported", spatial);
  bool transformed = is_transformed(conv);
  if ((w->rank != x->rank && !transformed) || y->rank != x->rank || num_strides != spatial || num_dilations != spatial || num_pads != 2 * spatial)
    return hipc_error(context, HIPC_ERROR_SHAPE, "conv: ranks of w and y and the attributes do not fit x of rank %d", x->rank);
  int64_t filters = w->shape[transformed ? 1 : 0];
  if (transformed && (w->shape[0] != WINOGRAD_POINTS || w->shape[2] < x->shape[1] || groups != 1 || x->dtype != F32))
    return hipc_error(context, HIPC_ERROR_SHAPE, "conv: weights as points need 36 of them, one group and float32");
  conv.images = x->shape[0], conv.groups = groups, conv.channels = transformed ? x->shape[1] : w->shape[1];
  if (groups < 1 || filters % groups) return bad_shape(context, "the number of filters modulo group", 1, 0);
  conv.filters = filters / groups;
  if (x->shape[1] != conv.channels * groups)
    return bad_shape(context, "the number of channels of x", x->shape[1], conv.channels * groups);
  if (y->shape[0] != conv.images) return bad_shape(context, "the number of images of y", y->shape[0], conv.images);
  if (y->shape[1] != filters) return bad_shape(context, "the number of channels of y", y->shape[1], filters);
  for (int axis = 0; axis < 3; axis++) {
    conv.in[axis] = conv.out[axis] = conv.kernel[axis] = conv.strides[axis] = conv.dilations[axis] = 1;
    conv.pads[axis] = 0;
  }
  for (int32_t i = 0; i < spatial; i++) {
    int axis = 3 - spatial + i;
    conv.in[axis] = x->shape[2 + i], conv.out[axis] = y->shape[2 + i], conv.kernel[axis] = transformed ? 3 : w->shape[2 + i];
    conv.strides[axis] = strides[i], conv.dilations[axis] = dilations[i], conv.pads[axis] = pads[i];
    if (strides[i] < 1 || dilations[i] < 1)
      return hipc_error(context, HIPC_ERROR_VALUE, "conv: strides and dilations must be positive");
    if (transformed && (strides[i] != 1 || dilations[i] != 1))
      return hipc_error(context, HIPC_ERROR_VALUE, "conv: weights as points need strides and dilations of 1");
    int64_t room = conv.in[axis] + pads[i] + pads[spatial + i] - (conv.kernel[axis] - 1) * dilations[i] - 1;
    int64_t expected = room < 0 ? 0 : room / strides[i] + 1;
    if (conv.out[axis] != expected) return bad_shape(context, "a spatial extent of y", conv.out[axis], expected);
  }
  conv.in_size = extent(x, 2, x->rank), conv.out_size = extent(y, 2, y->rank), conv.taps = transformed ? 9 : extent(w, 2, w->rank);
  if (conv.bias && (elements(conv.bias) != filters || conv.bias->dtype != y->dtype))
    return bad_shape(context, "the number of elements of bias", elements(conv.bias), filters);
  if (conv.residual && (elements(conv.residual) != elements(y) || conv.residual->dtype != y->dtype))
    return bad_shape(context, "the number of elements of residual", elements(conv.residual), elements(y));
  return HIPC_OK;
}

// A kernel of one tap that moves nothing: rows of pixels need not be told apart.
void flatten_pointwise(Conv &conv) {
  for (int axis = 0; axis < 3; axis++)
    if (conv.kernel[axis] != 1 || conv.strides[axis] != 1 || conv.in[axis] != conv.out[axis] || conv.pads[axis] != 0) return;
  conv.in[2] = conv.out[2] = conv.in_size;
  conv.in[0] = conv.in[1] = conv.out[0] = conv.out[1] = 1;
}

// Pixels of a panel that lie on one output row.
struct Segment {
  int column, length;
  int64_t depth, row, pixel;  // output position of its first pixel
  const float *source;        // input row under the present tap; NULL outside
};

int split_panel(const Conv &conv, int64_t first, int columns, Segment *segments) {
  int count = 0;
  for (int column = 0; column < columns; count++) {
    int64_t pixel = first + column, line = pixel / conv.out[2];
    Segment &s = segments[count];
    s.column = column;
    s.pixel = pixel % conv.out[2], s.row = line % conv.out[1], s.depth = line / conv.out[1];
    s.length = (int)min<int64_t>(columns - column, conv.out[2] - s.pixel);
    column += s.length;
  }
  return count;
}

// One row of a panel: what the segments see under a tap that starts `shift` elements before their input rows.
HIPC_INLINE void gather_row(const Conv &conv, const Segment *segments, int count, int64_t tap, float *__restrict to) {
  int64_t width = conv.in[2], stride = conv.strides[2];
  for (int s = 0; s < count; s++) {
    const Segment &segment = segments[s];
    float *__restrict t = to + segment.column;
    int64_t length = segment.length, start = conv.source(2, segment.pixel, tap);
    const float *__restrict from = segment.source + start;
    if (segment.source && start >= 0 && start + (length - 1) * stride < width) {
      if (stride == 1 && length == PANEL) memcpy(t, from, PANEL * sizeof(float));
      else if (stride == 1)
        for (int64_t i = 0; i < length; i++) t[i] = from[i];
      else
        for (int64_t i = 0; i < length; i++) t[i] = from[i * stride];
      continue;
    }
    for (int64_t i = 0; i < length; i++) {
      int64_t column = start + i * stride;
      t[i] = segment.source && column >= 0 && column < width ? segment.source[column] : 0;
    }
  }
}

// Panel of the pixels [first, first + columns) of the output: [channels * taps][PANEL], zero-padded.
void gather_panel(const Conv &conv, const float *x, int64_t first, int columns, float *to) {
  Segment segments[PANEL];
  int count = split_panel(conv, first, columns, segments);
  for (int64_t channel = 0; channel < conv.channels; channel++, x += conv.in_size)
    for (int64_t kd = 0; kd < conv.kernel[0]; kd++)
      for (int64_t kh = 0; kh < conv.kernel[1]; kh++) {
        for (int s = 0; s < count; s++) {
          int64_t depth = conv.source(0, segments[s].depth, kd), row = conv.source(1, segments[s].row, kh);
          bool inside = depth >= 0 && depth < conv.in[0] && row >= 0 && row < conv.in[1];
          segments[s].source = inside ? x + (depth * conv.in[1] + row) * conv.in[2] : nullptr;
        }
        for (int64_t kw = 0; kw < conv.kernel[2]; kw++, to += PANEL) {
          gather_row(conv, segments, count, kw, to);
          for (int j = columns; j < PANEL; j++) to[j] = 0;
        }
      }
}

// Input and weights as float32, and where the weights are padded to.
struct Operands {
  const float *x, *w;
  int64_t ldw;
};

int32_t run(hipc_context *context, const Conv &conv) {
  int64_t depth = conv.channels * conv.taps, filters = conv.filters * conv.groups;
  bool is_float = conv.x->dtype == F32;
  bool copies_w = !is_float || (rows_collide(depth) && conv.filters > 1 && conv.images * conv.out_size >= 256);
  Operands operands{data<float>(conv.x), data<float>(conv.w), copies_w ? padded_row(depth) : depth};
  int64_t panels = ceil_div(conv.out_size, PANEL), threads = hipc_num_threads(context);
  int64_t products = conv.images * conv.groups;
  int64_t together = max<int64_t>(1, min(GATHERED / max<int64_t>(depth * PANEL, 1), panels * products / (2 * threads)));
  int64_t steps = ceil_div(panels, together);
  // Too few panels for the threads: rows are shared as well, and each share gathers its panels again.
  int64_t shares = products * steps < threads ? min(ceil_div(threads, products * steps), ceil_div(conv.filters, 16)) : 1;

  int64_t x_floats = is_float ? 0 : round_up(elements(conv.x), 16), w_floats = copies_w ? round_up(filters * operands.ldw, 16) : 0;
  int64_t thread_floats = together * depth * PANEL;
  float *scratch = (float *)hipc_scratch(context, (x_floats + w_floats + threads * thread_floats) * (int64_t)sizeof(float));
  if (!scratch) return HIPC_ERROR_MEMORY;
  if (!is_float) {
    operands.x = scratch;
    parallel_for(context, elements(conv.x), 1, [&](int64_t begin, int64_t end) {
      load_floats(conv.x->dtype, conv.x->data, begin, end - begin, scratch + begin);
    });
  }
  if (copies_w) {
    float *w = scratch + x_floats;
    operands.w = w;
    parallel_for(context, filters, depth, [&](int64_t begin, int64_t end) {
      for (int64_t f = begin; f < end; f++) load_floats(conv.w->dtype, conv.w->data, f * depth, depth, w + f * operands.ldw);
    });
  }
  float *gathered = scratch + x_floats + w_floats;
  int64_t cost = depth * PANEL * together * (conv.filters / (16 * shares) + 1);
  parallel_for_threads(context, products * steps * shares, cost, [&](int64_t begin, int64_t end, int32_t thread) {
    float *own = gathered + thread * thread_floats;
    for (int64_t item = begin; item < end; item++) {
      int64_t share = item % shares, step = item / shares % steps, product = item / shares / steps;
      int64_t image = product / conv.groups, group = product % conv.groups;
      int64_t p0 = step * together, p1 = min(panels, p0 + together);
      const float *x = operands.x + (image * conv.groups + group) * conv.channels * conv.in_size;
      for (int64_t panel = p0; panel < p1; panel++)
        gather_panel(conv, x, panel * PANEL, (int)min<int64_t>(PANEL, conv.out_size - panel * PANEL),
                     own + (panel - p0) * depth * PANEL);
      Product p = conv_product(conv, image, group);
      p.a = operands.w + group * conv.filters * operands.ldw, p.lda = operands.ldw;
      p.b = own - p0 * depth * PANEL, p.panel_stride = depth * PANEL, p.ldb = PANEL;
      int64_t m0 = conv.filters * share / shares, m1 = conv.filters * (share + 1) / shares;
      int64_t blocks = ceil_div(m1 - m0, BLOCK_ROWS);
      for (int64_t block = 0; block < blocks; block++)
        multiply_panels(p, m0 + (m1 - m0) * block / blocks, m0 + (m1 - m0) * (block + 1) / blocks, p0, p1);
    }
  });
  return HIPC_OK;
}

} // namespace

Product hipc::conv_product(const Conv &conv, int64_t image, int64_t group) {
  int64_t size = element_size(conv.y->dtype), filter = group * conv.filters;
  int64_t offset = (image * conv.groups * conv.filters + filter) * conv.out_size;
  Product p{};
  p.m = conv.filters, p.n = conv.out_size, p.k = conv.channels * conv.taps;
  p.y = (char *)conv.y->data + offset * size, p.ldy = conv.out_size;
  Epilogue &e = p.epilogue;
  e.activation = conv.activation;
  e.activation_alpha = (float)conv.activation_alpha, e.activation_beta = (float)conv.activation_beta;
  e.dtype = conv.y->dtype;
  e.row_bias = conv.bias ? (char *)conv.bias->data + filter * size : nullptr;
  e.residual = conv.residual ? (char *)conv.residual->data + offset * size : nullptr;
  return p;
}

HIPC_EXPORT int32_t hipc_conv(hipc_context *context, const hipc_tensor *x, const hipc_tensor *w, const hipc_tensor *bias,
                              const hipc_tensor *residual, hipc_tensor *y, const int64_t *strides, int64_t num_strides,
                              const int64_t *pads, int64_t num_pads, const int64_t *dilations, int64_t num_dilations,
                              int64_t group, int64_t activation, double activation_alpha, double activation_beta) {
  Conv conv{};
  conv.x = x, conv.w = w, conv.bias = bias, conv.residual = residual, conv.y = y;
  conv.activation = (Activation)activation;
  conv.activation_alpha = activation_alpha, conv.activation_beta = activation_beta;
  if (int32_t status = read_arguments(context, conv, strides, num_strides, pads, num_pads, dilations, num_dilations, group))
    return status;
  if (elements(y) == 0) return HIPC_OK;
  if (x->dtype == F64) return conv_plain(context, conv);
  if (x->dtype != F32 && x->dtype != F16 && x->dtype != BF16) return unsupported_dtype(context, "conv", x->dtype);
  if (is_transformed(conv)) return conv_winograd(context, conv);
  if (conv.channels == 1 && conv.groups > 1) return conv_depthwise(context, conv);
  flatten_pointwise(conv);
  return run(context, conv);
}
