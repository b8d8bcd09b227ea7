// hipc_linear_attention: a state [key size, value size] per head, updated and read once per position.
// hipc_causal_conv: a depthwise convolution along time that carries its last inputs to the next run.
#include "recurrent.h"

using namespace hipc;

namespace {

constexpr const char *OP = "linear_attention";
constexpr int64_t COLUMNS = 64; // of the state that one task keeps: the columns are independent

struct Gate {
  const hipc_tensor *tensor;
  int64_t columns;
  float at(int64_t row, int64_t column) const {
    float value;
    load_floats(tensor->dtype, tensor->data, row * columns + column, 1, &value);
    return value;
  }
};

// Columns [first, first + count) of one head's state over all positions. state: [size][COLUMNS].
struct Recurrence {
  Heads q, k, v, y;
  Gate decay, beta;
  int64_t group, kv_heads, size;
  float scale;

  void run(int64_t b, int64_t head, int64_t first, int64_t count, float *state, float *key, float *query) const {
    float value[COLUMNS], sum[COLUMNS];
    for (int64_t t = 0; t < q.positions; t++) {
      int64_t row = b * q.positions + t;
      load_floats(k.dtype, k.data, k.at(b, head, t), size, key);
      load_floats(v.dtype, v.data, v.at(b, head, t) + first, count, value);
      if (decay.tensor) {
        bool each = decay.columns != kv_heads;
        float factor = each ? 0 : exp_f32(decay.at(row, head));
        for (int64_t d = 0; d < size; d++) {
          if (each) factor = exp_f32(decay.at(row, head * size + d));
          for (int64_t m = 0; m < count; m++) state[d * COLUMNS + m] *= factor;
        }
      }
      if (beta.tensor) {
        memset(sum, 0, sizeof sum);
        for (int64_t d = 0; d < size; d++)
          for (int64_t m = 0; m < count; m++) sum[m] += state[d * COLUMNS + m] * key[d];
        float rate = beta.at(row, beta.columns == 1 ? 0 : head);
        for (int64_t m = 0; m < count; m++) value[m] = rate * (value[m] - sum[m]);
      }
      for (int64_t d = 0; d < size; d++)
        for (int64_t m = 0; m < count; m++) state[d * COLUMNS + m] += key[d] * value[m];
      for (int64_t g = 0; g < group; g++) {
        load_floats(q.dtype, q.data, q.at(b, head * group + g, t), size, query);
        memset(sum, 0, sizeof sum);
        for (int64_t d = 0; d < size; d++)
          for (int64_t m = 0; m < count; m++) sum[m] += state[d * COLUMNS + m] * query[d];
        for (int64_t m = 0; m < count; m++) sum[m] *= scale;
        store_floats(y.dtype, y.data, y.at(b, head * group + g, t) + first, count, sum);
      }
    }
  }
};

int32_t read_gate(hipc_context *context, const char *what, const hipc_tensor *tensor, int64_t rows, int64_t one,
                  int64_t other, Gate *out) {
  if (!tensor) return HIPC_OK;
  int64_t columns = tensor->rank ? tensor->shape[tensor->rank - 1] : 1;
  if (!is_attention_type(tensor->dtype)) return unsupported_dtype(context, OP, tensor->dtype);
  if (elements(tensor) != rows * columns || (columns != one && columns != other))
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: %s has %lld columns; %lld or %lld are needed", OP, what,
                      (long long)columns, (long long)one, (long long)other);
  *out = {tensor, columns};
  return HIPC_OK;
}

} // namespace

HIPC_EXPORT int32_t hipc_linear_attention(hipc_context *context, const hipc_tensor *q, const hipc_tensor *k,
                                          const hipc_tensor *v, const hipc_tensor *past, const hipc_tensor *decay,
                                          const hipc_tensor *beta, hipc_tensor *y, hipc_tensor *present,
                                          int64_t q_heads, int64_t kv_heads, int64_t size, int64_t v_size, double scale) {
  HIPC_TRY(check_contiguous(context, OP, q, k, v, past, decay, beta, y, present));
  Recurrence op{};
  HIPC_TRY(read_heads(context, OP, "q", q, q_heads, size, 0, &op.q));
  HIPC_TRY(read_heads(context, OP, "k", k, kv_heads, size, 0, &op.k));
  HIPC_TRY(read_heads(context, OP, "v", v, kv_heads, v_size, 0, &op.v));
  HIPC_TRY(read_heads(context, OP, "y", y, q_heads, v_size, 0, &op.y));
  const hipc_tensor *all[] = {q, k, v, past, y, present};
  for (const hipc_tensor *tensor : all)
    if (tensor && !is_attention_type(tensor->dtype)) return unsupported_dtype(context, OP, tensor->dtype);
  int64_t batch = op.q.batch, states = batch * kv_heads * size * v_size;
  if (op.k.batch != batch || op.v.batch != batch || op.k.positions != op.q.positions || op.v.positions != op.q.positions ||
      kv_heads <= 0 || q_heads % kv_heads || elements(present) != states || (past && elements(past) != states))
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: the shapes of its operands do not agree", OP);
  int64_t rows = batch * op.q.positions;
  HIPC_TRY(read_gate(context, "decay", decay, rows, kv_heads, kv_heads * size, &op.decay));
  HIPC_TRY(read_gate(context, "beta", beta, rows, kv_heads, 1, &op.beta));
  op.group = q_heads / kv_heads, op.kv_heads = kv_heads, op.size = size, op.scale = (float)scale;
  int64_t parts = ceil_div(v_size, COLUMNS), floats = round_up(size * (COLUMNS + 2), 16);
  float *scratch = (float *)hipc_scratch(context, hipc_num_threads(context) * floats * (int64_t)sizeof(float));
  if (!scratch) return out_of_memory(context, OP);
  int64_t cost = op.q.positions * size * COLUMNS / 8 * (2 + op.group) + 1;
  parallel_for_threads(context, batch * kv_heads * parts, cost, [&](int64_t begin, int64_t end, int32_t thread) {
    float *state = scratch + thread * floats, *key = state + size * COLUMNS, *query = key + size;
    for (int64_t task = begin; task < end; task++) {
      int64_t head = task / parts, first = task % parts * COLUMNS, count = min(COLUMNS, v_size - first);
      int64_t base = head * size * v_size + first;
      for (int64_t d = 0; d < size; d++) {
        if (past) load_floats(past->dtype, past->data, base + d * v_size, count, state + d * COLUMNS);
        else memset(state + d * COLUMNS, 0, (size_t)count * sizeof(float));
      }
      op.run(head / kv_heads, head % kv_heads, first, count, state, key, query);
      for (int64_t d = 0; d < size; d++)
        store_floats(present->dtype, present->data, base + d * v_size, count, state + d * COLUMNS);
    }
  });
  return HIPC_OK;
}

HIPC_EXPORT int32_t hipc_causal_conv(hipc_context *context, const hipc_tensor *x, const hipc_tensor *w,
                                     const hipc_tensor *bias, const hipc_tensor *past, hipc_tensor *y,
                                     hipc_tensor *present, int64_t dilation, int64_t silu) {
  const char *op = "causal_conv";
  CausalConv call;
  HIPC_TRY(read_causal_conv(context, x, w, bias, past, y, present, dilation, silu, &call));
  int64_t channels = call.channels, length = call.length, taps = call.taps, carried = call.carried, rows = call.rows;
  int64_t whole = carried + length, floats = round_up(whole + length + taps, 16);
  float *scratch = (float *)hipc_scratch(context, hipc_num_threads(context) * floats * (int64_t)sizeof(float));
  if (!scratch) return out_of_memory(context, op);
  parallel_for_threads(context, rows, length * taps + 1, [&](int64_t begin, int64_t end, int32_t thread) {
    float *line = scratch + thread * floats, *sum = line + whole, *weight = sum + length;
    for (int64_t row = begin; row < end; row++) {
      int64_t channel = row % channels;
      if (past) load_floats(past->dtype, past->data, row * carried, carried, line);
      else memset(line, 0, (size_t)carried * sizeof(float));
      load_floats(x->dtype, x->data, row * length, length, line + carried);
      load_floats(w->dtype, w->data, channel * taps, taps, weight);
      float start = 0;
      if (bias) load_floats(bias->dtype, bias->data, channel, 1, &start);
      for (int64_t t = 0; t < length; t++) sum[t] = start;
      for (int64_t tap = 0; tap < taps; tap++)
        for (int64_t t = 0; t < length; t++) sum[t] += weight[tap] * line[t + tap * dilation];
      if (silu)
        for (int64_t t = 0; t < length; t++) sum[t] = sum[t] / (1 + exp_f32(-sum[t]));
      store_floats(y->dtype, y->data, row * length, length, sum);
      store_floats(present->dtype, present->data, row * carried, carried, line + length);
    }
  });
  return HIPC_OK;
}
