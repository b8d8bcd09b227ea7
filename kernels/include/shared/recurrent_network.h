// Arguments of the kernels of recurrent networks.
#pragma once
#include "arguments.h"

namespace hipc {

// In the order of RNN_ACTIVATIONS in hip_compiler/core/dialects/hip/rnn.py.
enum NetworkFunction : i32 {
  NET_RELU,
  NET_TANH,
  NET_SIGMOID,
  NET_AFFINE,
  NET_LEAKY_RELU,
  NET_THRESHOLDED_RELU,
  NET_SCALED_TANH,
  NET_HARD_SIGMOID,
  NET_ELU,
  NET_SOFTSIGN,
  NET_SOFTPLUS,
  NET_FUNCTIONS
};
enum NetworkKind : i32 { NET_LSTM, NET_GRU, NET_RNN };
constexpr int NETWORK_FUNCTIONS = 3;  // of one direction, at most

struct NetworkActivation {
  f64 alpha, beta;
  i32 function, unused;
};

// Tensors as ONNX lays them out. `projected` is [directions][steps][batch][gates * hidden], and `work` holds, for every
// direction and batch entry, gates * hidden + 3 * hidden numbers; both are numbers of the type that arithmetic uses.
struct Network {
  const void *x, *w, *r, *bias, *initial_h, *initial_c, *peepholes;
  const i32 *lengths;
  void *y, *y_h, *y_c, *projected, *work;
  i32 *fault;
  i64 steps, batch, input, hidden, gates;
  f64 clip;
  NetworkActivation functions[2][NETWORK_FUNCTIONS];
  i32 directions, layout, reversed, kind, input_forget, linear_before_reset;

  HIPC_METHOD i64 row(i64 t, i64 b) const { return layout ? b * steps + t : t * batch + b; }
  HIPC_METHOD i64 output(i64 t, i64 d, i64 b) const {
    return (layout ? (b * steps + t) * directions + d : (t * directions + d) * batch + b) * hidden;
  }
  HIPC_METHOD i64 state(i64 d, i64 b) const { return (layout ? b * directions + d : d * batch + b) * hidden; }
};

} // namespace hipc
