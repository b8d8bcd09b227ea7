// hip.conv for float64: plain loops.
#include "activation_double.h"
#include "conv.h"

using namespace hipc;

namespace {

double sum_at(const Conv &conv, int64_t image, int64_t filter, int64_t d, int64_t h, int64_t w) {
  const double *weights = data<double>(conv.w) + filter * conv.channels * conv.taps;
  int64_t channel = (image * conv.groups + filter / conv.filters) * conv.channels;
  const double *x = data<double>(conv.x) + channel * conv.in_size;
  double sum = 0;
  for (int64_t c = 0; c < conv.channels; c++, x += conv.in_size)
    for (int64_t kd = 0; kd < conv.kernel[0]; kd++)
      for (int64_t kh = 0; kh < conv.kernel[1]; kh++)
        for (int64_t kw = 0; kw < conv.kernel[2]; kw++, weights++) {
          int64_t depth = conv.source(0, d, kd), row = conv.source(1, h, kh), column = conv.source(2, w, kw);
          bool inside = depth >= 0 && depth < conv.in[0] && row >= 0 && row < conv.in[1] && column >= 0 && column < conv.in[2];
          if (inside) sum += *weights * x[(depth * conv.in[1] + row) * conv.in[2] + column];
        }
  return sum;
}

} // namespace

int32_t hipc::conv_plain(hipc_context *context, const Conv &conv) {
  int64_t filters = conv.groups * conv.filters, rows = conv.out[0] * conv.out[1];
  int64_t cost = conv.out[2] * conv.channels * conv.taps;
  parallel_for(context, conv.images * filters * rows, cost, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; item++) {
      int64_t row = item % rows, plane = item / rows, filter = plane % filters;
      double bias = conv.bias ? data<double>(conv.bias)[filter] : 0;
      for (int64_t w = 0; w < conv.out[2]; w++) {
        int64_t at = item * conv.out[2] + w;
        double x = sum_at(conv, plane / filters, filter, row / conv.out[1], row % conv.out[1], w) + bias;
        x = activate(conv.activation, x, conv.activation_alpha, conv.activation_beta);
        data<double>(conv.y)[at] = x + (conv.residual ? data<double>(conv.residual)[at] : 0);
      }
    }
  });
  return HIPC_OK;
}
