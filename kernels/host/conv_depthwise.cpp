// hip.conv with one channel per group: each output plane is a sum of shifted copies of one padded input plane.
#include "conv.h"

using namespace hipc;

namespace {

// A padded copy of an input plane. Columns that a stride visits together stand side by side: column q is element q / stride
// of run q % stride, so that neighbouring outputs read neighbouring elements.
struct Plane {
  int64_t extents[2];         // depth and height
  int64_t run, row, size;     // floats of a run, a row, the plane

  explicit Plane(const Conv &conv) {
    for (int axis = 0; axis < 2; axis++) extents[axis] = reach(conv, axis);
    // Vectors read past the last output of a row.
    run = round_up(ceil_div(reach(conv, 2), conv.strides[2]) + 4 * LANES, LANES);
    row = run * conv.strides[2];
    size = row * extents[0] * extents[1];
  }
  static int64_t reach(const Conv &conv, int axis) {
    return (conv.out[axis] - 1) * conv.strides[axis] + (conv.kernel[axis] - 1) * conv.dilations[axis] + 1;
  }
};

void copy_plane(const Conv &conv, const Plane &plane, int64_t channel, float *to, float *line) {
  int64_t stride = conv.strides[2], width = Plane::reach(conv, 2);
  // Columns of the copy that the input covers.
  int64_t first = max<int64_t>(conv.pads[2], 0), last = min(width, conv.in[2] + conv.pads[2]);
  for (int64_t d = 0; d < plane.extents[0]; d++)
    for (int64_t h = 0; h < plane.extents[1]; h++, to += plane.row) {
      int64_t depth = d - conv.pads[0], height = h - conv.pads[1];
      bool inside = depth >= 0 && depth < conv.in[0] && height >= 0 && height < conv.in[1] && first < last;
      int64_t from = (channel * conv.in[0] + depth) * conv.in[1] * conv.in[2] + height * conv.in[2];
      if (inside && stride == 1) {
        memset(to, 0, (size_t)first * sizeof(float));
        load_floats(conv.x->dtype, conv.x->data, from + first - conv.pads[2], last - first, to + first);
        memset(to + last, 0, (size_t)(plane.row - last) * sizeof(float));
        continue;
      }
      memset(to, 0, (size_t)plane.row * sizeof(float));
      if (!inside) continue;
      load_floats(conv.x->dtype, conv.x->data, from + first - conv.pads[2], last - first, line);
      for (int64_t run = 0; run < stride; run++) {
        int64_t q = first + ((run - first) % stride + stride) % stride;
        float *t = to + run * plane.run + q / stride;
        for (; q < last; q += stride) *t++ = line[q - first];
      }
    }
}

// COUNT vectors of outputs; `taps` holds the distance of each tap from the first.
template <int COUNT>
HIPC_INLINE void sum_taps(const float *from, const int64_t *taps, const float *weights, int64_t count, float *to) {
  vfloat sum[COUNT] = {};
  for (int64_t tap = 0; tap < count; tap++) {
    const float *source = from + taps[tap];
    for (int j = 0; j < COUNT; j++) sum[j] += weights[tap] * load(source + j * LANES);
  }
  for (int j = 0; j < COUNT; j++) store(to + j * LANES, sum[j]);
}

void place_taps(const Conv &conv, const Plane &plane, int64_t *taps) {
  for (int64_t kd = 0; kd < conv.kernel[0]; kd++)
    for (int64_t kh = 0; kh < conv.kernel[1]; kh++)
      for (int64_t kw = 0; kw < conv.kernel[2]; kw++) {
        int64_t row = kd * conv.dilations[0] * plane.extents[1] + kh * conv.dilations[1], shift = kw * conv.dilations[2];
        *taps++ = row * plane.row + shift % conv.strides[2] * plane.run + shift / conv.strides[2];
      }
}

// Whole vectors are stored: what runs over the end of a row is overwritten by the next row.
void filter_plane(const Conv &conv, const Plane &plane, const float *from, const int64_t *taps, const float *weights,
                  float *to) {
  for (int64_t d = 0; d < conv.out[0]; d++)
    for (int64_t h = 0; h < conv.out[1]; h++, to += conv.out[2]) {
      const float *row = from + (d * conv.strides[0] * plane.extents[1] + h * conv.strides[1]) * plane.row;
      int64_t w = 0;
      for (; w + 3 * LANES < conv.out[2]; w += 4 * LANES) sum_taps<4>(row + w, taps, weights, conv.taps, to + w);
      for (; w + LANES < conv.out[2]; w += 2 * LANES) sum_taps<2>(row + w, taps, weights, conv.taps, to + w);
      if (w < conv.out[2]) sum_taps<1>(row + w, taps, weights, conv.taps, to + w);
    }
}

} // namespace

int32_t hipc::conv_depthwise(hipc_context *context, const Conv &conv) {
  Plane plane(conv);
  int64_t line = round_up(conv.in[2], 16), weights = round_up(conv.taps, 16);
  int64_t output = round_up(conv.out_size + 4 * LANES, PANEL);
  int64_t own = round_up(plane.size + line + weights + output, 16), shared = round_up(conv.taps, 8);
  int64_t bytes = shared * (int64_t)sizeof(int64_t) + hipc_num_threads(context) * own * (int64_t)sizeof(float);
  int64_t *taps = (int64_t *)hipc_scratch(context, bytes);
  if (!taps) return HIPC_ERROR_MEMORY;
  float *scratch = (float *)(taps + shared);
  place_taps(conv, plane, taps);
  int64_t cost = plane.size + conv.filters * conv.out_size * (conv.taps / 4 + 1);
  parallel_for_threads(context, conv.images * conv.groups, cost, [&](int64_t begin, int64_t end, int32_t thread) {
    float *padded = scratch + thread * own, *one_line = padded + plane.size, *w = one_line + line, *result = w + weights;
    for (int64_t item = begin; item < end; item++) {
      int64_t group = item % conv.groups;
      copy_plane(conv, plane, item, padded, one_line);
      Product p = conv_product(conv, item / conv.groups, group);
      for (int64_t filter = 0; filter < conv.filters; filter++) {
        load_floats(conv.w->dtype, conv.w->data, (group * conv.filters + filter) * conv.taps, conv.taps, w);
        filter_plane(conv, plane, padded, taps, w, result);
        finish(p, result, 0, 1, conv.out_size, filter, 0);
      }
    }
  });
  return HIPC_OK;
}
