// hipc_lstm, hipc_gru, hipc_rnn. The input's part of every gate is one matrix product over all time steps; each step then
// adds the state's part. Half precision computes in float and rounds at the outputs.
#include "network.h"
#include "hipc_simd.h"

using namespace hipc;

namespace {

// ---- products ---------------------------------------------------------------------------------------------------
template <class C, int ROWS, int COLUMNS>
HIPC_INLINE void product_tile(const C *a, int64_t a_stride, const C *b, int64_t depth, C *out, int64_t out_stride) {
  C sum[ROWS][COLUMNS] = {};
  {
#pragma clang fp reassociate(on)
    for (int64_t k = 0; k < depth; k++)
#pragma clang loop unroll(full)
      for (int i = 0; i < ROWS; i++)
#pragma clang loop unroll(full)
        for (int j = 0; j < COLUMNS; j++) sum[i][j] += a[i * a_stride + k] * b[j * depth + k];
  }
  for (int i = 0; i < ROWS; i++)
    for (int j = 0; j < COLUMNS; j++) out[i * out_stride + j] += sum[i][j];
}

// out[i][j] += a[i] . b[j] for `rows` rows of a and `columns` rows of b, all `depth` long.
template <class C>
void add_products(hipc_context *context, const C *a, int64_t rows, const C *b, int64_t columns, int64_t depth, C *out,
                  int64_t out_stride) {
  constexpr int64_t TILE = 16;
  parallel_for(context, ceil_div(columns, TILE), rows * TILE * depth, [=](int64_t begin, int64_t end) {
    int64_t last = min(end * TILE, columns);
    for (int64_t i = 0; i < rows; i += 2)
      for (int64_t j = begin * TILE; j < last;) {
        const C *from = a + i * depth, *line = b + j * depth;
        C *to = out + i * out_stride + j;
        bool pair = i + 1 < rows;
        if (j + 4 <= last) {
          if (pair)
            product_tile<C, 2, 4>(from, depth, line, depth, to, out_stride);
          else
            product_tile<C, 1, 4>(from, depth, line, depth, to, out_stride);
          j += 4;
        } else {
          if (pair)
            product_tile<C, 2, 1>(from, depth, line, depth, to, out_stride);
          else
            product_tile<C, 1, 1>(from, depth, line, depth, to, out_stride);
          j += 1;
        }
      }
  });
}

// ---- activations ------------------------------------------------------------------------------------------------
HIPC_INLINE void tanh_all(float *v, int64_t count) {
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES) store(v + i, vtanh(load(v + i)));
  if (i < count) store_first(v + i, vtanh(load_first(v + i, count - i)), count - i);
}
HIPC_INLINE void tanh_all(double *v, int64_t count) {
  for (int64_t i = 0; i < count; i++) v[i] = ::tanh(v[i]);
}

// A NaN stays: comparisons are written so that it fails them.
template <class C> void activate(NetworkActivation f, double clip, C *v, int64_t count) {
  C alpha = (C)f.alpha, beta = (C)f.beta, limit = (C)clip;
  if (clip > 0)
    for (int64_t i = 0; i < count; i++) v[i] = v[i] > limit ? limit : v[i] < -limit ? -limit : v[i];
  switch (f.function) {
  case NET_RELU:
    for (int64_t i = 0; i < count; i++) v[i] = v[i] < 0 ? 0 : v[i];
    return;
  case NET_TANH:
    tanh_all(v, count);
    return;
  case NET_SIGMOID:
    for (int64_t i = 0; i < count; i++) v[i] = 1 / (1 + exp_of(-v[i]));
    return;
  case NET_AFFINE:
    for (int64_t i = 0; i < count; i++) v[i] = alpha * v[i] + beta;
    return;
  case NET_LEAKY_RELU:
    for (int64_t i = 0; i < count; i++) v[i] = v[i] < 0 ? alpha * v[i] : v[i];
    return;
  case NET_THRESHOLDED_RELU:
    for (int64_t i = 0; i < count; i++) v[i] = v[i] <= alpha ? 0 : v[i];
    return;
  case NET_SCALED_TANH:
    for (int64_t i = 0; i < count; i++) v[i] *= beta;
    tanh_all(v, count);
    for (int64_t i = 0; i < count; i++) v[i] *= alpha;
    return;
  case NET_HARD_SIGMOID:
    for (int64_t i = 0; i < count; i++) {
      C line = alpha * v[i] + beta;
      v[i] = line < 0 ? 0 : line > 1 ? 1 : line;
    }
    return;
  case NET_ELU:
    for (int64_t i = 0; i < count; i++) v[i] = v[i] < 0 ? alpha * (C)::expm1((double)v[i]) : v[i];
    return;
  case NET_SOFTSIGN:
    for (int64_t i = 0; i < count; i++) v[i] = v[i] / (1 + (v[i] < 0 ? -v[i] : v[i]));
    return;
  default: // softplus; the exponential never overflows
    for (int64_t i = 0; i < count; i++) {
      double x = (double)v[i];
      v[i] = (C)(::log1p(::exp(x > 0 ? -x : x)) + (x < 0 ? 0 : x));
    }
  }
}

// ---- the network ------------------------------------------------------------------------------------------------
struct Sizes : NetworkSizes {
  int64_t row(int64_t t, int64_t b) const { return layout ? b * steps + t : t * batch + b; }
  int64_t output(int64_t t, int64_t d, int64_t b) const {
    return (layout ? (b * steps + t) * directions + d : (t * directions + d) * batch + b) * hidden;
  }
  int64_t state(int64_t d, int64_t b) const { return (layout ? b * directions + d : d * batch + b) * hidden; }
};

struct Settings {
  NetworkActivation functions[2][NETWORK_FUNCTIONS];
  double clip;
  int64_t direction;
  bool input_forget, linear_before_reset;
};

enum class Kind { lstm, gru, rnn };

// Working memory of one direction, in arithmetic numbers.
template <class C> struct Work {
  C *x, *w, *r, *input_bias, *state_bias, *peepholes; // weights [gates * hidden][...]
  C *projected;                                       // [steps * batch][gates * hidden]
  C *gates;                                           // [batch][gates * hidden]
  C *extra;                                           // [batch][hidden]
  C *h, *c;                                           // [batch][hidden]
};

// Every part of the scratch block: with a null base, only the size is found.
template <class C> Work<C> lay_out(char *base, const Sizes &s, ScratchPlan *plan) {
  auto take = [&](int64_t count) {
    int64_t at = plan->add(count * (int64_t)sizeof(C));
    return base ? (C *)(base + at) : (C *)nullptr;
  };
  int64_t wide = s.gates * s.hidden, state = s.batch * s.hidden;
  Work<C> work;
  work.x = take(s.steps * s.batch * s.input);
  work.w = take(wide * s.input);
  work.r = take(wide * s.hidden);
  work.input_bias = take(wide);
  work.state_bias = take(wide);
  work.peepholes = take(3 * s.hidden);
  work.projected = take(s.steps * s.batch * wide);
  work.gates = take(s.batch * wide);
  work.extra = take(state);
  work.h = take(state);
  work.c = take(state);
  return work;
}

template <class T> void widen_all(const T *from, Compute<T> *to, int64_t count) {
  for (int64_t i = 0; i < count; i++) to[i] = widen(from[i]);
}

// Weights, bias and initial state of one direction.
template <class T> void load_direction(const NetworkOperands &o, const Sizes &s, int64_t d, Work<Compute<T>> &work) {
  using C = Compute<T>;
  int64_t wide = s.gates * s.hidden;
  widen_all(data<T>(o.w) + d * wide * s.input, work.w, wide * s.input);
  widen_all(data<T>(o.r) + d * wide * s.hidden, work.r, wide * s.hidden);
  for (int64_t i = 0; i < wide; i++) {
    work.input_bias[i] = o.bias ? widen(data<T>(o.bias)[d * 2 * wide + i]) : (C)0;
    work.state_bias[i] = o.bias ? widen(data<T>(o.bias)[(d * 2 + 1) * wide + i]) : (C)0;
  }
  for (int64_t i = 0; i < 3 * s.hidden; i++)
    work.peepholes[i] = o.peepholes ? widen(data<T>(o.peepholes)[d * 3 * s.hidden + i]) : (C)0;
  for (int64_t b = 0; b < s.batch; b++)
    for (int64_t j = 0; j < s.hidden; j++) {
      int64_t at = s.state(d, b) + j;
      work.h[b * s.hidden + j] = o.initial_h ? widen(data<T>(o.initial_h)[at]) : (C)0;
      work.c[b * s.hidden + j] = o.initial_c ? widen(data<T>(o.initial_c)[at]) : (C)0;
    }
}

// Gates i, o, f, c of one sequence become its new cell and hidden state.
template <class C>
void lstm_cell(const Sizes &s, const Settings &settings, const NetworkActivation *f, const C *peepholes, C *gates, C *h, C *c,
               C *squashed) {
  int64_t n = s.hidden;
  C *in = gates, *out = gates + n, *forget = gates + 2 * n, *candidate = gates + 3 * n;
  for (int64_t j = 0; j < n; j++) in[j] += peepholes[j] * c[j];
  for (int64_t j = 0; j < n; j++) forget[j] += peepholes[2 * n + j] * c[j];
  activate(f[0], settings.clip, in, n);
  activate(f[0], settings.clip, forget, n);
  if (settings.input_forget)
    for (int64_t j = 0; j < n; j++) forget[j] = 1 - in[j];
  activate(f[1], settings.clip, candidate, n);
  for (int64_t j = 0; j < n; j++) c[j] = forget[j] * c[j] + in[j] * candidate[j];
  for (int64_t j = 0; j < n; j++) out[j] += peepholes[n + j] * c[j];
  activate(f[0], settings.clip, out, n);
  for (int64_t j = 0; j < n; j++) squashed[j] = c[j];
  activate(f[2], settings.clip, squashed, n);
  for (int64_t j = 0; j < n; j++) h[j] = out[j] * squashed[j];
}

// One step of all sequences; `active` tells which have not ended. `work.gates` holds the input's part.
template <class C, class Active>
void step(hipc_context *context, Kind kind, const Sizes &s, const Settings &settings, const NetworkActivation *f,
          Work<C> &work, Active &&active) {
  int64_t n = s.hidden, wide = s.gates * n;
  if (kind != Kind::gru) {
    add_products(context, work.h, s.batch, work.r, wide, n, work.gates, wide);
    for (int64_t b = 0; b < s.batch; b++) {
      C *gates = work.gates + b * wide, *h = work.h + b * n;
      if (!active(b)) continue;
      if (kind == Kind::lstm) {
        lstm_cell(s, settings, f, work.peepholes, gates, h, work.c + b * n, work.extra + b * n);
      } else {
        activate(f[0], settings.clip, gates, n);
        for (int64_t j = 0; j < n; j++) h[j] = gates[j];
      }
    }
    return;
  }
  // Gates z, r, h.
  add_products(context, work.h, s.batch, work.r, 2 * n, n, work.gates, wide);
  for (int64_t b = 0; b < s.batch; b++) activate(f[0], settings.clip, work.gates + b * wide, 2 * n);
  const C *hidden_weights = work.r + 2 * n * n, *hidden_bias = work.state_bias + 2 * n;
  if (settings.linear_before_reset) {
    for (int64_t b = 0; b < s.batch; b++)
      for (int64_t j = 0; j < n; j++) work.extra[b * n + j] = hidden_bias[j];
    add_products(context, work.h, s.batch, hidden_weights, n, n, work.extra, n);
    for (int64_t b = 0; b < s.batch; b++)
      for (int64_t j = 0; j < n; j++)
        work.gates[b * wide + 2 * n + j] += work.gates[b * wide + n + j] * work.extra[b * n + j];
  } else {
    for (int64_t b = 0; b < s.batch; b++)
      for (int64_t j = 0; j < n; j++) work.extra[b * n + j] = work.gates[b * wide + n + j] * work.h[b * n + j];
    add_products(context, work.extra, s.batch, hidden_weights, n, n, work.gates + 2 * n, wide);
  }
  for (int64_t b = 0; b < s.batch; b++) {
    C *gates = work.gates + b * wide, *h = work.h + b * n;
    activate(f[1], settings.clip, gates + 2 * n, n);
    if (active(b))
      for (int64_t j = 0; j < n; j++) h[j] = (1 - gates[j]) * gates[2 * n + j] + gates[j] * h[j];
  }
}

template <class T>
void run_direction(hipc_context *context, Kind kind, const NetworkOperands &o, const Sizes &s, const Settings &settings,
                   int64_t d, Work<Compute<T>> &work) {
  using C = Compute<T>;
  int64_t n = s.hidden, wide = s.gates * n, rows = s.steps * s.batch;
  bool backwards = settings.direction == REVERSE || d == 1;
  load_direction<T>(o, s, d, work);
  // The state's bias joins the input's, except where the reset gate multiplies it.
  int64_t joined = settings.linear_before_reset ? 2 * n : wide;
  for (int64_t row = 0; row < rows; row++)
    for (int64_t j = 0; j < wide; j++)
      work.projected[row * wide + j] = work.input_bias[j] + (j < joined ? work.state_bias[j] : (C)0);
  add_products(context, work.x, rows, work.w, wide, s.input, work.projected, wide);
  const int32_t *lengths = o.lengths ? data<int32_t>(o.lengths) : nullptr;
  auto length = [&](int64_t b) { return lengths ? (int64_t)lengths[b] : s.steps; };
  T *y = data<T>(o.y);
  for (int64_t at = 0; at < s.steps; at++) {
    auto active = [&](int64_t b) { return at < length(b); };
    // A reversed sequence starts at its own end.
    auto time = [&](int64_t b) { return backwards && active(b) ? length(b) - 1 - at : at; };
    for (int64_t b = 0; b < s.batch; b++)
      memcpy(work.gates + b * wide, work.projected + s.row(time(b), b) * wide, (size_t)wide * sizeof(C));
    step(context, kind, s, settings, settings.functions[d], work, active);
    for (int64_t b = 0; b < s.batch; b++) {
      T *to = y + s.output(time(b), d, b);
      for (int64_t j = 0; j < n; j++) to[j] = active(b) ? (T)work.h[b * n + j] : (T)(C)0;
    }
  }
  for (int64_t b = 0; b < s.batch; b++)
    for (int64_t j = 0; j < n; j++) {
      data<T>(o.y_h)[s.state(d, b) + j] = (T)work.h[b * n + j];
      if (o.y_c) data<T>(o.y_c)[s.state(d, b) + j] = (T)work.c[b * n + j];
    }
}

int32_t run_network(hipc_context *context, Kind kind, const NetworkOperands &o, const NetworkFunctions &functions, int64_t layout,
                    Settings settings) {
  Sizes s;
  int64_t gates = kind == Kind::lstm ? 4 : kind == Kind::gru ? 3 : 1;
  int64_t each = kind == Kind::lstm ? 3 : kind == Kind::gru ? 2 : 1;
  HIPC_TRY(read_network(context, o, gates, layout, settings.direction, &s));
  for (int64_t b = 0; o.lengths && b < s.batch; b++)
    if (data<int32_t>(o.lengths)[b] < 0 || data<int32_t>(o.lengths)[b] > s.steps)
      return hipc_error(context, HIPC_ERROR_VALUE, "%s: sequence length %d is outside [0, %lld]", o.op,
                        data<int32_t>(o.lengths)[b], (long long)s.steps);
  HIPC_TRY(read_functions(context, o.op, functions, s.directions, each, settings.functions));
  return dispatch_float(context, o.op, o.x->dtype, [&]<class T>() -> int32_t {
    using C = Compute<T>;
    ScratchPlan size, place;
    lay_out<C>(nullptr, s, &size);
    char *memory = (char *)hipc_scratch(context, max(size.bytes, (int64_t)64));
    if (!memory) return out_of_memory(context, o.op);
    Work<C> work = lay_out<C>(memory, s, &place);
    widen_all(data<T>(o.x), work.x, elements(o.x));
    for (int64_t d = 0; d < s.directions; d++) run_direction<T>(context, kind, o, s, settings, d, work);
    return HIPC_OK;
  });
}

} // namespace

HIPC_EXPORT int32_t hipc_lstm(hipc_context *context, const hipc_tensor *x, const hipc_tensor *w, const hipc_tensor *r,
                              const hipc_tensor *b, const hipc_tensor *sequence_lens, const hipc_tensor *initial_h,
                              const hipc_tensor *initial_c, const hipc_tensor *p, hipc_tensor *y, hipc_tensor *y_h,
                              hipc_tensor *y_c, const int64_t *activations, int64_t num_activations,
                              const double *alpha, int64_t num_alpha, const double *beta, int64_t num_beta,
                              double clip, int64_t direction, int64_t layout, int64_t input_forget) {
  return run_network(context, Kind::lstm,
                     {"lstm", x, w, r, b, sequence_lens, initial_h, initial_c, p, y, y_h, y_c},
                     {activations, num_activations, alpha, num_alpha, beta, num_beta}, layout,
                     {{}, clip, direction, input_forget != 0, false});
}

HIPC_EXPORT int32_t hipc_gru(hipc_context *context, const hipc_tensor *x, const hipc_tensor *w, const hipc_tensor *r,
                             const hipc_tensor *b, const hipc_tensor *sequence_lens, const hipc_tensor *initial_h,
                             hipc_tensor *y, hipc_tensor *y_h, const int64_t *activations, int64_t num_activations,
                             const double *alpha, int64_t num_alpha, const double *beta, int64_t num_beta, double clip,
                             int64_t direction, int64_t layout, int64_t linear_before_reset) {
  return run_network(context, Kind::gru,
                     {"gru", x, w, r, b, sequence_lens, initial_h, nullptr, nullptr, y, y_h, nullptr},
                     {activations, num_activations, alpha, num_alpha, beta, num_beta}, layout,
                     {{}, clip, direction, false, linear_before_reset != 0});
}

HIPC_EXPORT int32_t hipc_rnn(hipc_context *context, const hipc_tensor *x, const hipc_tensor *w, const hipc_tensor *r,
                             const hipc_tensor *b, const hipc_tensor *sequence_lens, const hipc_tensor *initial_h,
                             hipc_tensor *y, hipc_tensor *y_h, const int64_t *activations, int64_t num_activations,
                             const double *alpha, int64_t num_alpha, const double *beta, int64_t num_beta, double clip,
                             int64_t direction, int64_t layout) {
  return run_network(context, Kind::rnn,
                     {"rnn", x, w, r, b, sequence_lens, initial_h, nullptr, nullptr, y, y_h, nullptr},
                     {activations, num_activations, alpha, num_alpha, beta, num_beta}, layout,
                     {{}, clip, direction, false, false});
}
