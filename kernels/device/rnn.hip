// Recurrent networks. The input's part of the gates is one product over all time steps. Then, of a small network, a block
// for each direction and batch entry walks the steps: its waves each sum rows of the state's weights, its threads close the
// gates. Of a larger one every step is a launch of its own, of all the device.
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

// What a gate of hidden unit j makes of its sum, where nothing but its own cell comes in; else the sum.
template <class T> DEVICE Compute<T> opened(const Network &net, i64 d, i32 gate, i64 j, Compute<T> sum, Compute<T> cell) {
  // An LSTM's gates are i, o, f, c: the second waits for the new cell; a GRU's are z, r, h: the last may wait for r.
  bool waits = net.kind == NET_LSTM ? gate == 1 : net.kind == NET_GRU && gate == 2 && net.linear_before_reset;
  if (waits) return sum;
  bool inner = net.kind == NET_LSTM ? gate == 3 : gate == 2;
  if (net.peepholes && !inner) sum += widen(((const T *)net.peepholes)[(d * 3 + gate) * net.hidden + j]) * cell;
  return activated(net.functions[d][inner], net.clip, sum);
}
// The new state of hidden unit j by its gates as `opened` left them, and the new cell. `own` is the input's part of a GRU's
// candidate.
template <class T>
DEVICE Compute<T> closed(const Network &net, i64 d, i64 j, const Compute<T> (&gate)[4], Compute<T> own, Compute<T> h,
                         Compute<T> &cell) {
  using C = Compute<T>;
  const NetworkActivation *f = net.functions[d];
  if (net.kind == NET_RNN) return gate[0];
  C out = 0, shown = gate[2];
  if (net.kind == NET_LSTM) {
    cell = (net.input_forget ? 1 - gate[0] : gate[2]) * cell + gate[0] * gate[3];
    out = gate[1] + (net.peepholes ? widen(((const T *)net.peepholes)[(d * 3 + 1) * net.hidden + j]) * cell : (C)0);
  }
  // One copy of the functions for all that waited.
  i32 count = net.kind == NET_LSTM ? 2 : net.linear_before_reset ? 1 : 0;
  _Pragma("nounroll") for (i32 i = 0; i < count; i++) {
    bool last = i == count - 1;
    C from = net.kind == NET_GRU ? own + gate[1] * gate[2] : last ? cell : out;
    C made = activated(f[net.kind == NET_GRU ? 1 : last ? 2 : 0], net.clip, from);
    if (last) shown = made;
    else out = made;
  }
  return net.kind == NET_LSTM ? out * shown : (1 - gate[0]) * shown + gate[0] * h;
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

template <class T> DEVICE Compute<T> first_of(const void *state, i64 at) {
  return state ? widen(((const T *)state)[at]) : (Compute<T>)0;
}
// Steps of a batch entry; none, and a fault, where there are not so many.
DEVICE i64 length_of(const Network &net, i64 b) {
  i64 length = net.lengths ? (i64)net.lengths[b] : net.steps;
  if (length >= 0 && length <= net.steps) return length;
  *net.fault = FAULT_POSITION;
  return 0;
}

// Grid: batch entries, directions.
template <class T> DEVICE void walk(const Network &net) {
  using C = Compute<T>;
  i64 n = net.hidden, wide = net.gates * n, b = block(), d = block_y(), rows = net.steps * net.batch;
  bool backwards = net.reversed || d == 1;
  const T *r = (const T *)net.r + d * wide * n;
  const C *projected = (const C *)net.projected + d * rows * wide;
  C *gates = (C *)net.work + (d * net.batch + b) * (wide + 3 * n), *h = gates + wide, *c = h + n, *extra = c + n;
  T *y = (T *)net.y;
  i64 length = length_of(net, b);
  for (i64 j = thread(); j < n; j += threads()) {
    h[j] = first_of<T>(net.initial_h, net.state(d, b) + j);
    c[j] = first_of<T>(net.initial_c, net.state(d, b) + j);
  }
  barrier();
  auto open = [&](i64 first, i64 count) {
    for (i64 at = first + thread(); at < first + count; at += threads()) {
      u32 gate = (u32)at / (u32)n;
      gates[at] = opened<T>(net, d, (i32)gate, at - gate * n, gates[at], c[at - gate * n]);
    }
    barrier();
  };
  for (i64 at = 0; at < length; at++) {
    // A reversed sequence starts at its own end.
    i64 time = backwards ? length - 1 - at : at;
    const C *own = projected + net.row(time, b) * wide;
    T *to = y + net.output(time, d, b);
    i64 ready = net.kind == NET_GRU ? 2 * n : wide;
    add_state(r, h, n, ready, own, gates);
    open(0, ready);
    if (net.kind == NET_GRU) {
      C *candidate = gates + 2 * n;
      for (i64 j = thread(); j < n; j += threads()) {
        if (net.linear_before_reset) candidate[j] = bias_of<T>(net, d, wide + 2 * n + j);
        else extra[j] = gates[n + j] * h[j];
      }
      barrier();
      if (net.linear_before_reset) add_state(r + 2 * n * n, h, n, n, candidate, candidate);
      else add_state(r + 2 * n * n, extra, n, n, own + 2 * n, candidate), open(2 * n, n);
    }
    for (i64 j = thread(); j < n; j += threads()) {
      C found[4] = {};
      for (i64 gate = 0; gate < net.gates; gate++) found[gate] = gates[gate * n + j];
      h[j] = closed<T>(net, d, j, found, net.kind == NET_GRU ? own[2 * n + j] : (C)0, h[j], c[j]);
      to[j] = narrow<T>(h[j]);
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

// Steps as launches. Of every direction and batch entry `work` then holds the state before and behind a step, which change
// places, the cell, and the state as a GRU has reset it.
template <class C> DEVICE C *state_of(const Network &net, i64 d, i64 b, i64 part) {
  return (C *)net.work + (d * net.batch + b) * (net.gates + 3) * net.hidden + part * net.hidden;
}
constexpr i64 CELL = 2, RESET = 3;

template <class T> DEVICE void begin(const Network &net) {
  using C = Compute<T>;
  i64 n = net.hidden;
  for (i64 at = global_thread(); at < net.directions * net.batch * n; at += global_threads()) {
    i64 entry = quotient(at, n), j = at - entry * n, d = quotient(entry, net.batch), b = entry - d * net.batch;
    length_of(net, b);
    state_of<C>(net, d, b, 0)[j] = first_of<T>(net.initial_h, net.state(d, b) + j);
    state_of<C>(net, d, b, CELL)[j] = first_of<T>(net.initial_c, net.state(d, b) + j);
  }
}

template <class T, int COUNT> DEVICE Vector<T, COUNT> load_many(const T *from) {
  constexpr int PART = COUNT < LANE_VECTOR<T> ? COUNT : LANE_VECTOR<T>;
  Vector<T, COUNT> all;
  UNROLL for (int i = 0; i < COUNT; i += PART) {
    auto part = load<T, PART>(from + i);
    UNROLL for (int j = 0; j < PART; j++) all[i + j] = part[j];
  }
  return all;
}

// Step `at`. A GRU that multiplies the reset state has two phases: z and r, then h. Grid: hidden units, directions, batch
// entries, ENTRIES a block. LANES lanes share a row of the weights; a block has all gates of some units.
template <class T> DEVICE void step(const Network &net, i64 at, i32 phase) {
  using C = Compute<T>;
  constexpr i32 LANES = 8, ROWS = 256 / LANES, ENTRIES = 4, V = 8;
  SHARED C found[ENTRIES][ROWS];
  i64 n = net.hidden, wide = net.gates * n, d = block_y(), first_entry = (i64)block_z() * ENTRIES;
  bool apart = net.kind == NET_GRU && !net.linear_before_reset;
  i32 first_gate = phase ? 2 : 0, gates = phase ? 1 : apart ? 2 : (i32)net.gates, units = ROWS / gates;
  i64 before = phase ? RESET : at % 2, behind = (at + 1) % 2;
  auto unit_of = [=](i32 row) { return (i64)block() * units + row / gates; };
  auto entry_of = [=, &net](i32 e) { return min(first_entry + e, net.batch - 1); };

  i32 row = (i32)thread() / LANES, part = (i32)thread() % LANES;
  const T *weights = (const T *)net.r + (d * wide + (first_gate + row % gates) * n + min(unit_of(row), n - 1)) * n;
  C sums[ENTRIES] = {};
  if (n % V == 0 && is_aligned(net.r, 16)) {
    for (i64 k = part * V; k < n; k += LANES * V) {
      auto w = load_many<T, V>(weights + k);
      UNROLL for (i32 e = 0; e < ENTRIES; e++) {
        auto h = load_many<C, V>(state_of<C>(net, d, entry_of(e), before) + k);
        UNROLL for (i32 i = 0; i < V; i++) sums[e] += widen(w[i]) * h[i];
      }
    }
  } else {
    for (i64 k = part; k < n; k += LANES)
      UNROLL for (i32 e = 0; e < ENTRIES; e++) sums[e] += widen(weights[k]) * state_of<C>(net, d, entry_of(e), before)[k];
  }
  UNROLL for (i32 e = 0; e < ENTRIES; e++) {
    C sum = sum_lanes<LANES>(sums[e]);
    if (part == 0) found[e][row] = sum;
  }
  barrier();

  // What the input has of a gate of an entry, as it runs through its sequence.
  auto time_of = [=, &net](i64 length) { return net.reversed || d == 1 ? length - 1 - at : at; };
  auto own_of = [=, &net](i64 b, i64 time, i64 gate, i64 j) {
    return ((const C *)net.projected)[((d * net.steps * net.batch + net.row(time, b)) * net.gates + gate) * n + j];
  };
  for (i32 item = (i32)thread(); item < ENTRIES * ROWS; item += (i32)threads()) {
    i32 e = item / ROWS, r = item % ROWS, gate = first_gate + r % gates;
    i64 j = unit_of(r), b = first_entry + e;
    if (r / gates >= units || j >= n || b >= net.batch) continue;
    i64 length = length_of(net, b);
    if (at >= length) continue;
    bool linear = net.kind == NET_GRU && gate == 2 && net.linear_before_reset;
    C sum = found[e][r] + (linear ? bias_of<T>(net, d, wide + 2 * n + j) : own_of(b, time_of(length), gate, j));
    found[e][r] = opened<T>(net, d, gate, j, sum, state_of<C>(net, d, b, CELL)[j]);
  }
  barrier();
  for (i32 item = (i32)thread(); item < ENTRIES * units; item += (i32)threads()) {
    i32 e = item / units, unit = item % units;
    i64 j = unit_of(unit * gates), b = first_entry + e;
    if (j >= n || b >= net.batch) continue;
    i64 length = length_of(net, b), time = at < length ? time_of(length) : at;
    C gate[4] = {}, h = state_of<C>(net, d, b, at % 2)[j], &cell = state_of<C>(net, d, b, CELL)[j];
    UNROLL for (i32 g = 0; g < 4; g++) gate[g] = g < gates ? found[e][unit * gates + g] : (C)0;
    if (apart && phase == 0) {
      // z waits where an LSTM has its cell.
      if (at < length) cell = gate[0], state_of<C>(net, d, b, RESET)[j] = gate[1] * h;
      continue;
    }
    if (phase) gate[2] = gate[0], gate[0] = cell;
    C made = (C)0;
    if (at < length) h = made = closed<T>(net, d, j, gate, net.kind == NET_GRU ? own_of(b, time, 2, j) : (C)0, h, cell);
    state_of<C>(net, d, b, behind)[j] = h;
    ((T *)net.y)[net.output(time, d, b) + j] = narrow<T>(made);
    if (at + 1 < net.steps) continue;
    ((T *)net.y_h)[net.state(d, b) + j] = narrow<T>(h);
    if (net.y_c) ((T *)net.y_c)[net.state(d, b) + j] = narrow<T>(cell);
  }
}

} // namespace

#define DEFINE(WORD, T)                                                                                                \
  KERNEL(256) rnn_project_tiles_##WORD(Network net) { project_tiles<T>(net); }
HIPC_FLOATS(DEFINE)
#undef DEFINE
#define DEFINE(WORD, T)                                                                                                \
  KERNEL(256) rnn_project_##WORD(Network net) { project<T>(net); }                                                     \
  KERNEL(1024) rnn_walk_##WORD(Network net) { walk<T>(net); }                                                          \
  KERNEL(256) rnn_begin_##WORD(Network net) { begin<T>(net); }                                                         \
  KERNEL(256) rnn_step_##WORD(Network net, i64 at, i32 phase) { step<T>(net, at, phase); }
HIPC_ALL_FLOATS(DEFINE)
