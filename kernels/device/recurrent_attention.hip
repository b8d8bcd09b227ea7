// Linear attention and the causal convolution in front of it. Columns of a head's state are independent: a wave keeps one
// in its registers over all positions, the rows spread over its lanes.
#include "hipc_math.h"
#include "hipc_mixed.h"
#include "shared/recurrent.h"

using namespace hipc;

namespace {

constexpr u32 WAVES = 256 / WAVE;

// `EACH` rows of the state by a lane: heads of at most EACH * WAVE.
template <int EACH> DEVICE void linear_attention(const LinearAttention &op) {
  i64 columns = op.batch * op.kv_heads * op.v_size;
  for (i64 task = (i64)block() * WAVES + wave(); task < columns; task += (i64)blocks() * WAVES) {
    i64 column = task % op.v_size, head = task / op.v_size % op.kv_heads, b = task / op.v_size / op.kv_heads;
    i64 base = (b * op.kv_heads + head) * op.size * op.v_size + column;
    f32 state[EACH], key[EACH];
    UNROLL for (int i = 0; i < EACH; i++) {
      i64 row = (i64)i * WAVE + lane();
      state[i] = op.past && row < op.size ? mixed_at(op.past, op.past_dtype, base + row * op.v_size) : 0.0f;
    }
    for (i64 t = 0; t < op.positions; t++) {
      i64 line = b * op.positions + t, k_at = op.k_at.at(b, head, t);
      UNROLL for (int i = 0; i < EACH; i++) {
        i64 row = (i64)i * WAVE + lane();
        key[i] = row < op.size ? mixed_at(op.k, op.dtype, k_at + row) : 0.0f;
      }
      if (op.decay) {
        bool each = op.decay_columns != op.kv_heads;
        UNROLL for (int i = 0; i < EACH; i++) {
          i64 row = min((i64)i * WAVE + lane(), op.size - 1);
          state[i] *= exp_of(mixed_at(op.decay, op.decay_dtype, line * op.decay_columns + (each ? head * op.size + row : head)));
        }
      }
      f32 value = mixed_at(op.v, op.dtype, op.v_at.at(b, head, t) + column);
      if (op.beta) {
        f32 known = 0;
        UNROLL for (int i = 0; i < EACH; i++) known += state[i] * key[i];
        f32 rate = mixed_at(op.beta, op.beta_dtype, line * op.beta_columns + (op.beta_columns == 1 ? 0 : head));
        value = rate * (value - sum_lanes(known));
      }
      UNROLL for (int i = 0; i < EACH; i++) state[i] += key[i] * value;
      for (i64 g = 0; g < op.group; g++) {
        i64 q_at = op.q_at.at(b, head * op.group + g, t);
        f32 sum = 0;
        UNROLL for (int i = 0; i < EACH; i++) {
          i64 row = (i64)i * WAVE + lane();
          if (row < op.size) sum += state[i] * mixed_at(op.q, op.dtype, q_at + row);
        }
        sum = sum_lanes(sum);
        if (lane() == 0) put_mixed(op.y, op.dtype, op.y_at.at(b, head * op.group + g, t) + column, sum * op.scale);
      }
    }
    UNROLL for (int i = 0; i < EACH; i++) {
      i64 row = (i64)i * WAVE + lane();
      if (row < op.size) put_mixed(op.present, op.present_dtype, base + row * op.v_size, state[i]);
    }
  }
}

// A thread an element of y, then one an element of the next state.
template <class T> DEVICE void causal_conv(const CausalConv &op) {
  const T *x = (const T *)op.x, *past = (const T *)op.past, *w = (const T *)op.w, *bias = (const T *)op.bias;
  T *y = (T *)op.y, *present = (T *)op.present;
  i64 count = op.rows * op.length, kept = op.rows * op.carried;
  for (i64 at = global_thread(); at < count + kept; at += global_threads()) {
    bool is_state = at >= count;
    i64 own = is_state ? at - count : at, width = is_state ? op.carried : op.length;
    i64 row = own / width, column = own % width;
    // Element `place` of the row with what came before it, zeros at first.
    auto element = [&](i64 place) -> f32 {
      if (place >= op.carried) return widen(x[row * op.length + place - op.carried]);
      return past ? widen(past[row * op.carried + place]) : 0.0f;
    };
    if (is_state) {
      present[own] = narrow<T>(element(op.length + column));
      continue;
    }
    const T *weights = w + row % op.channels * op.taps;
    f32 sum = bias ? widen(bias[row % op.channels]) : 0.0f;
    for (i64 tap = 0; tap < op.taps; tap++) sum += widen(weights[tap]) * element(column + tap * op.dilation);
    y[own] = narrow<T>(op.silu ? sum * sigmoid_of(sum) : sum);
  }
}

} // namespace

KERNEL(256) linear_attention_small(LinearAttention op) { linear_attention<128 / WAVE>(op); }
KERNEL(256) linear_attention_large(LinearAttention op) { linear_attention<512 / WAVE>(op); }
#define DEFINE(WORD, T)                                                                                                \
  KERNEL(256) causal_conv_##WORD(CausalConv op) { causal_conv<T>(op); }
HIPC_FLOATS(DEFINE)
