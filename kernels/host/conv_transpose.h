// A transposed convolution in normal form, shared by its implementations.
#pragma once
#include "gemm.h"
#include "hipc_ops.h"

namespace hipc {

// Where a kernel tap lands along one axis: input i adds to cell i + offset of a phase, for i in [begin, end). A phase is
// what output positions with one remainder modulo the stride have in common; its cells are those positions in order.
struct Landing {
  int64_t phase, offset, begin, end;
};

// One to three spatial axes as three, the missing ones in front with extent 1.
struct TransposedConv {
  static constexpr int AXES = 3;
  int64_t batch, channels_in, channels_out, group;
  int64_t in[AXES], out[AXES], kernel[AXES], stride[AXES], dilation[AXES], pad[AXES];
  int64_t cells[AXES];  // positions of one phase

  int64_t in_size() const { return in[0] * in[1] * in[2]; }
  int64_t out_size() const { return out[0] * out[1] * out[2]; }
  int64_t kernel_size() const { return kernel[0] * kernel[1] * kernel[2]; }
  int64_t plane() const { return stride[0] * stride[1] * stride[2] * cells[0] * cells[1] * cells[2]; }

  Landing landing(int axis, int64_t tap) const {
    int64_t shift = tap * dilation[axis] - pad[axis];
    int64_t offset = shift / stride[axis] - (shift % stride[axis] < 0);
    int64_t begin = max((int64_t)0, -offset);
    return {shift - offset * stride[axis], offset, begin, max(begin, min(in[axis], cells[axis] - offset))};
  }
};

// Whether products of weights and input are worth their memory: enough channels to sum over, enough rows to share them.
inline bool is_product(const TransposedConv &g) {
  return g.channels_in / g.group >= 8 && g.channels_out / g.group * g.kernel_size() >= 4;
}

// float32, float16 and bfloat16: the weights of all taps times the input, then every tap's product added where it lands.
int32_t conv_transpose_product(hipc_context *context, const TransposedConv &g, const hipc_tensor *x, const hipc_tensor *w,
                               const hipc_tensor *bias, hipc_tensor *y);

} // namespace hipc
