// Recurrent networks. The input's part of the gates is one product over all time steps; then a block for each direction
// and batch entry walks the steps: its waves each sum rows of the state's weights, its threads close the gates.
#include "hipc_math.h"
#include "hipc_tiles.h"
#include "shared/recurrent_network.h"
#include "shared/vocabulary.h"

using namespace hipc;

namespace {

constexpr i32 FAULT_POSITION = 1;  // of kernels/runtime/gpu.h

// A NaN stays: comparisons are written so that it fails them.
template <class C> DEVICE C activated(const NetworkActivation &f, f64 clip, C x) {
  C alpha = (C)f.alpha, beta = (C)f.beta, limit = (C)clip;
  if (clip > 0) x = x > limit ? limit : x < -limit ? -limit : x;
  switch (f.function) {
  case NET_RELU: return x < 0 ? (C)0 : x;
  case NET_TANH: return tanh_of(x);
  case NET_SIGMOID: return 1 / (1 + exp_of(-x));
  case NET_AFFINE: return alpha * x + beta;
  case NET_LEAKY_RELU: return x < 0 ? alpha * x : x;
  case NET_THRESHOLDED_RELU: return x <= alpha ? (C)0 : x;
  case NET_SCALED_TANH: return alpha * tanh_of(beta * x);
  case NET_HARD_SIGMOID: {
    C line = alpha * x + beta;
    return line < 0 ? (C)0 : line > 1 ? (C)1 : line;
  }
  case NET_ELU: {
    // e^x - 1 by the hyperbolic tangent, which is exact near zero.
    if (!(x < 0)) return x;
    C t = tanh_of(x / 2);
    return alpha * 2 * t / (1 - t);
  }
  case NET_SOFTSIGN: return x / (1 + abs_of(x));
  default:  // softplus; the exponential never overflows
    return log_of(1 + exp_of(x > 0 ? -x : x)) + (x < 0 ? (C)0 : x);
  }
}

template <class T> DEVICE Compute<T> bias_of(const Network &net, i64 d, i64 at) {
  return net.bias ? widen(((const T *)net.bias)[d * 2 * net.gates * net.hidden + at]) : (Compute<T>)0;
}
// The state's bias joins the input's, except where the reset gate multiplies it.
template <class T> DEVICE Compute<T> input_bias(const Network &net, i64 d, i64 at) {
  i64 wide = net.gates * net.hidden, joined = net.linear_before_reset ? 2 * net.hidden : wide;
  return bias_of<T>(net, d, at) + (at < joined ? bias_of<T>(net, d, wide + at) : (Compute<T>)0);
}

// Grid: tiles, directions.
template <class T> DEVICE void project_tiles(const Network &net) {
  i64 rows = net.steps * net.batch, wide = net.gates * net.hidden, d = block_y(), across = ceil_div(wide, (i64)TILE);
  Operand<T> A{(const T *)net.x, rows, net.input, 1, net.input % EACH == 0 && is_aligned(net.x, 16)};
  const T *w = (const T *)net.w + d * wide * net.input;
  Operand<T> B{w, wide, net.input, 1, net.input % EACH == 0 && is_aligned(w, 16)};
  f32 *to = (f32 *)net.projected + d * rows * wide;
  multiply_tiles<T>(A, B, block() / across * TILE, block() % across * TILE, net.input, [=, &net](i64 row, i64 column, f32 sum) {
    if (row < rows && column < wide) to[row * wide + column] = sum + input_bias<T>(net, d, column);
  });
}
template <class T> DEVICE void project(const Network &net) {
  i64 rows = net.steps * net.batch, wide = net.gates * net.hidden, d = block_y();
  const T *x = (const T *)net.x, *w = (const T *)net.w + d * wide * net.input;
  Compute<T> *to = (Compute<T> *)net.projected + d * rows * wide;
  for (i64 at = global_thread(); at < rows * wide; at += global_threads()) {
    i64 row = at / wide, column = at % wide;
    Compute<T> sum = input_bias<T>(net, d, column);
    for (i64 k = 0; k < net.input; k++) sum += widen(x[row * net.input + k]) * widen(w[column * net.input + k]);
    to[at] = sum;
  }
}

// to[j] = from[j] + row j of the weights times the state, by waves; from and to may be one.
template <class T, class C>
DEVICE void add_state(const T *weights, const C *state, i64 hidden, i64 rows, const C *from, C *to) {
  for (i64 j = wave(); j < rows; j += waves()) {
    C sum = 0;
    for (i64 k = lane(); k < hidden; k += WAVE) sum += widen(weights[j * hidden + k]) * state[k];
    sum = sum_lanes(sum);
    if (lane() == 0) to[j] = from[j] + sum;
  }
  barrier();
}

// Grid: batch entries, directions.
template <class T> DEVICE void walk(const Network &net) {
  using C = Compute<T>;
  i64 n = net.hidden, wide = net.gates * n, b = block(), d = block_y(), rows = net.steps * net.batch;
  bool backwards = net.reversed || d == 1;
  const NetworkActivation *f = net.functions[d];
  const T *r = (const T *)net.r + d * wide * n, *p = net.peepholes ? (const T *)net.peepholes + d * 3 * n : nullptr;
  const C *projected = (const C *)net.projected + d * rows * wide;
  C *gates = (C *)net.work + (d * net.batch + b) * (wide + 3 * n), *h = gates + wide, *c = h + n, *extra = c + n;
  T *y = (T *)net.y;
  i64 length = net.lengths ? (i64)net.lengths[b] : net.steps;
  if (length < 0 || length > net.steps) {
    if (thread() == 0) *net.fault = FAULT_POSITION;
    length = 0;
  }
  for (i64 j = thread(); j < n; j += threads()) {
    h[j] = net.initial_h ? widen(((const T *)net.initial_h)[net.state(d, b) + j]) : (C)0;
    c[j] = net.initial_c ? widen(((const T *)net.initial_c)[net.state(d, b) + j]) : (C)0;
  }
  barrier();
  auto peephole = [=](i64 at) { return p ? widen(p[at]) : (C)0; };
  for (i64 at = 0; at < length; at++) {
    // A reversed sequence starts at its own end.
    i64 time = backwards ? length - 1 - at : at;
    const C *own = projected + net.row(time, b) * wide;
    T *to = y + net.output(time, d, b);
    if (net.kind == NET_GRU) {
      add_state(r, h, n, 2 * n, own, gates);
      for (i64 j = thread(); j < n; j += threads()) {
        gates[j] = activated(f[0], net.clip, gates[j]);
        gates[n + j] = activated(f[0], net.clip, gates[n + j]);
        extra[j] = net.linear_before_reset ? bias_of<T>(net, d, wide + 2 * n + j) : gates[n + j] * h[j];
      }
      barrier();
      if (net.linear_before_reset) add_state(r + 2 * n * n, h, n, n, extra, extra);
      else add_state(r + 2 * n * n, extra, n, n, own + 2 * n, gates + 2 * n);
      for (i64 j = thread(); j < n; j += threads()) {
        C candidate = net.linear_before_reset ? own[2 * n + j] + gates[n + j] * extra[j] : gates[2 * n + j];
        candidate = activated(f[1], net.clip, candidate);
        h[j] = (1 - gates[j]) * candidate + gates[j] * h[j];
        to[j] = narrow<T>(h[j]);
      }
    } else {
      add_state(r, h, n, wide, own, gates);
      for (i64 j = thread(); j < n; j += threads()) {
        if (net.kind == NET_RNN) {
          h[j] = activated(f[0], net.clip, gates[j]);
        } else {
          // Gates i, o, f, c.
          C in = activated(f[0], net.clip, gates[j] + peephole(j) * c[j]);
          C forget = activated(f[0], net.clip, gates[2 * n + j] + peephole(2 * n + j) * c[j]);
          if (net.input_forget) forget = 1 - in;
          C cell = forget * c[j] + in * activated(f[1], net.clip, gates[3 * n + j]);
          C out = activated(f[0], net.clip, gates[n + j] + peephole(n + j) * cell);
          c[j] = cell;
          h[j] = out * activated(f[2], net.clip, cell);
        }
        to[j] = narrow<T>(h[j]);
      }
    }
    barrier();
  }
  for (i64 at = length; at < net.steps; at++)
    for (i64 j = thread(); j < n; j += threads()) y[net.output(at, d, b) + j] = narrow<T>((C)0);
  for (i64 j = thread(); j < n; j += threads()) {
    ((T *)net.y_h)[net.state(d, b) + j] = narrow<T>(h[j]);
    if (net.y_c) ((T *)net.y_c)[net.state(d, b) + j] = narrow<T>(c[j]);
  }
}

} // namespace

#define DEFINE(WORD, T)                                                                                                \
  KERNEL(256) rnn_project_tiles_##WORD(Network net) { project_tiles<T>(net); }
HIPC_FLOATS(DEFINE)
#undef DEFINE
#define DEFINE(WORD, T)                                                                                                \
  KERNEL(256) rnn_project_##WORD(Network net) { project<T>(net); }                                                     \
  KERNEL(1024) rnn_walk_##WORD(Network net) { walk<T>(net); }
HIPC_ALL_FLOATS(DEFINE)
