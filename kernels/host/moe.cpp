// hipc_moe: every token goes through the k experts that its router scores highest, and gets their results' weighted sum.
//
// Tokens are sorted by expert, so that each expert is two or three products of its own rows; experts without tokens are
// not read. Weights are float32 panels, or of few bits, packed as hip.matmul and hip.matmul_nbits have them, one expert
// after the other. Sums are float32.
#include "experts.h"
#include "matmul_nbits.h"

using namespace hipc;

namespace {

constexpr const char *OP = "moe";

static_assert(PANEL == EXPERT_PANEL, "experts are packed as matrices are");

struct Layer : ExpertOperands {
  PackedWeights packed(int64_t expert) const {
    int64_t blocks = ceil_div(k, block), cells = panels() * PANEL * blocks;
    const float *zero = zeros ? data<float>(zeros) + expert * cells : nullptr;
    return {data<uint8_t>(weights) + expert * (cells * block * bits / 8), data<float>(scales) + expert * cells, zero,
            n, k, bits, block, blocks};
  }
};

struct Moe {
  const hipc_tensor *x, *router, *router_weights;
  hipc_tensor *y;
  Layer first, second, third;
  int64_t tokens, hidden, inner, experts, k, level;
  int64_t activation, fusion;
  float alpha, beta, limit;
  bool normalize;
};

Product product_of(const Layer &layer, const float *a, int64_t m, float *y, int64_t expert) {
  Product p{};
  p.m = m, p.n = layer.n, p.k = layer.k, p.a = a, p.lda = layer.k, p.y = y, p.ldy = layer.n;
  p.epilogue.column_bias = layer.bias ? data<float>(layer.bias) + expert * layer.n : nullptr;
  return p;
}

void run_layer(hipc_context *context, const Layer &layer, int64_t expert, const float *a, int64_t m, float *y, int64_t level,
               char *scratch) {
  Product p = product_of(layer, a, m, y, expert);
  if (layer.bits) return multiply_quantized(context, layer.packed(expert), {a, F32}, p, level, scratch);
  p.b = data<float>(layer.weights) + expert * layer.panels() * layer.k * PANEL;
  p.panel_stride = layer.k * PANEL, p.ldb = PANEL;
  multiply(context, p);
}

int64_t scratch_of(hipc_context *context, const Layer &layer, int64_t m, int64_t level) {
  if (!layer.weights || !layer.bits) return 0;
  int64_t most = 0;
  // One row has a kernel of its own, with scratch of its own.
  const int64_t counts[] = {1, m};
  for (int64_t rows : counts)
    most = max(most, quantized_scratch(context, layer.packed(0), F32, product_of(layer, nullptr, rows, nullptr, 0), level));
  return most;
}

// The k best experts of a token, best first, and their weights; of equal scores the last expert's is better, as in ONNX Runtime.
void choose(const Moe &op, const float *scores, const float *weights, int32_t *chosen, float *shares) {
  for (int64_t i = 0; i < op.k; i++) {
    int32_t best = -1;
    for (int32_t e = 0; e < op.experts; e++) {
      bool taken = false;
      for (int64_t j = 0; j < i; j++) taken = taken || chosen[j] == e;
      if (!taken && (best < 0 || !(scores[e] < scores[best]))) best = e;
    }
    chosen[i] = best;
  }
  float total = 0;
  if (weights) {
    for (int64_t i = 0; i < op.k; i++) total += shares[i] = weights[chosen[i]];
  } else {
    float all = 0, greatest = scores[chosen[0]];
    for (int64_t e = 0; e < op.experts; e++) all += exp_f32(scores[e] - greatest);
    for (int64_t i = 0; i < op.k; i++) total += shares[i] = exp_f32(scores[chosen[i]] - greatest) / all;
  }
  if (op.normalize)
    for (int64_t i = 0; i < op.k; i++) shares[i] /= total;
}

// The approximation with tanh, which ONNX Runtime means by gelu here.
float gelu(float x) { return 0.5f * x * (1 + vtanh(splat(0.79788456f * (x + 0.044715f * x * x * x)))[0]); }
float sigmoid(float x) { return 1 / (1 + exp_f32(-x)); }
float clamp(float x, float low, float high) { return x < low ? low : x > high ? high : x; }

// One row of fc1's result, with fc3's where that is apart, to a row of `inner` columns.
void activate(const Moe &op, const float *first, const float *third, float *to) {
  for (int64_t i = 0; i < op.inner; i++) {
    if (op.activation == EXPERT_SWIGLU) {
      float gate = op.fusion == FUSED_INTERLEAVED ? first[2 * i] : first[i];
      float linear = op.fusion == FUSED_APART ? third[i] : op.fusion == FUSED_INTERLEAVED ? first[2 * i + 1] : first[op.inner + i];
      gate = clamp(gate, -__builtin_inff(), op.limit), linear = clamp(linear, -op.limit, op.limit);
      to[i] = gate * sigmoid(op.alpha * gate) * (linear + op.beta);
      continue;
    }
    float x = first[i];
    if (op.activation == EXPERT_RELU) x = x < 0 ? 0 : x;
    else if (op.activation == EXPERT_GELU) x = gelu(x);
    else if (op.activation == EXPERT_SILU) x = x * sigmoid(x);
    to[i] = third ? x * third[i] : x;
  }
}

int32_t run(hipc_context *context, const Moe &op) {
  const int64_t rows = op.tokens * op.k, tokens = op.tokens;
  bool apart = op.third.weights;
  ScratchPlan plan;
  int64_t chosen_at = plan.add(rows * 4), shares_at = plan.add(rows * 4), begins_at = plan.add((op.experts + 1) * 8);
  int64_t order_at = plan.add(rows * 4), sums_at = plan.add(tokens * op.hidden * 4);
  int64_t x_at = plan.add(tokens * op.hidden * 4), first_at = plan.add(tokens * op.first.n * 4);
  int64_t third_at = apart ? plan.add(tokens * op.inner * 4) : 0;
  int64_t inner_at = plan.add(tokens * op.inner * 4), second_at = plan.add(tokens * op.hidden * 4);
  int64_t products = 0;
  const Layer *const layers[] = {&op.first, &op.second, &op.third};
  for (const Layer *layer : layers)
    products = max(products, scratch_of(context, *layer, tokens, op.level));
  int64_t router_at = plan.add(2 * op.experts * 4), products_at = plan.add(products);
  char *scratch = (char *)hipc_scratch(context, plan.bytes);
  if (!scratch) return out_of_memory(context, OP);
  int32_t *chosen = (int32_t *)(scratch + chosen_at), *order = (int32_t *)(scratch + order_at);
  float *shares = (float *)(scratch + shares_at), *sums = (float *)(scratch + sums_at), *x = (float *)(scratch + x_at);
  float *first = (float *)(scratch + first_at), *third = apart ? (float *)(scratch + third_at) : nullptr;
  float *inner = (float *)(scratch + inner_at), *second = (float *)(scratch + second_at);
  float *scores = (float *)(scratch + router_at), *weights = scores + op.experts;
  int64_t *begins = (int64_t *)(scratch + begins_at);

  memset(begins, 0, (size_t)(op.experts + 1) * 8);
  for (int64_t t = 0; t < tokens; t++) {
    load_floats(op.router->dtype, op.router->data, t * op.experts, op.experts, scores);
    if (op.router_weights)
      load_floats(op.router_weights->dtype, op.router_weights->data, t * op.experts, op.experts, weights);
    choose(op, scores, op.router_weights ? weights : nullptr, chosen + t * op.k, shares + t * op.k);
    for (int64_t i = 0; i < op.k; i++) begins[chosen[t * op.k + i] + 1]++;
  }
  for (int64_t e = 0; e < op.experts; e++) begins[e + 1] += begins[e];
  // Entries by expert; within one in the order of the tokens. `begins[e]` walks to the begin of e + 1 meanwhile.
  for (int64_t i = 0; i < rows; i++) order[begins[chosen[i]]++] = (int32_t)i;
  for (int64_t e = op.experts; e > 0; e--) begins[e] = begins[e - 1];
  begins[0] = 0;

  memset(sums, 0, (size_t)(tokens * op.hidden) * 4);
  for (int64_t e = 0; e < op.experts; e++) {
    const int32_t *entries = order + begins[e];
    int64_t count = begins[e + 1] - begins[e];
    if (!count) continue;
    for (int64_t i = 0; i < count; i++)
      load_floats(op.x->dtype, op.x->data, entries[i] / op.k * op.hidden, op.hidden, x + i * op.hidden);
    run_layer(context, op.first, e, x, count, first, op.level, scratch + products_at);
    if (apart) run_layer(context, op.third, e, x, count, third, op.level, scratch + products_at);
    parallel_for(context, count, op.inner * 8, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++)
        activate(op, first + i * op.first.n, third ? third + i * op.inner : nullptr, inner + i * op.inner);
    });
    run_layer(context, op.second, e, inner, count, second, op.level, scratch + products_at);
    for (int64_t i = 0; i < count; i++) {
      float share = shares[entries[i]], *to = sums + entries[i] / op.k * op.hidden;
      for (int64_t c = 0; c < op.hidden; c++) to[c] += share * second[i * op.hidden + c];
    }
  }
  store_floats(op.y->dtype, op.y->data, 0, tokens * op.hidden, sums);
  return HIPC_OK;
}

} // namespace

HIPC_EXPORT int32_t hipc_moe(hipc_context *context, const hipc_tensor *x, const hipc_tensor *router,
                             const hipc_tensor *router_weights, const hipc_tensor *fc1, const hipc_tensor *fc1_scales,
                             const hipc_tensor *fc1_zeros, const hipc_tensor *fc1_bias, const hipc_tensor *fc2,
                             const hipc_tensor *fc2_scales, const hipc_tensor *fc2_zeros, const hipc_tensor *fc2_bias,
                             const hipc_tensor *fc3, const hipc_tensor *fc3_scales, const hipc_tensor *fc3_zeros,
                             const hipc_tensor *fc3_bias, hipc_tensor *y, int64_t experts, int64_t inner, int64_t k,
                             int64_t activation, int64_t fusion, double alpha, double beta, double limit, int64_t normalize,
                             int64_t fc1_bits, int64_t fc1_block, int64_t fc2_bits, int64_t fc2_block, int64_t fc3_bits,
                             int64_t fc3_block, int64_t level) {
  HIPC_TRY(check_contiguous(context, OP, x, router, router_weights, fc1, fc1_scales, fc1_zeros, fc1_bias, fc2, fc2_scales,
                            fc2_zeros, fc2_bias, fc3, fc3_scales, fc3_zeros, fc3_bias, y));
  Moe op{};
  op.x = x, op.router = router, op.router_weights = router_weights, op.y = y;
  op.hidden = x->rank ? x->shape[x->rank - 1] : 0, op.tokens = extent(x, 0, x->rank - 1);
  op.inner = inner, op.experts = experts, op.k = k, op.level = level;
  op.activation = activation, op.fusion = fusion;
  op.alpha = (float)alpha, op.beta = (float)beta, op.limit = (float)limit, op.normalize = normalize;
  op.first = {{fc1, fc1_scales, fc1_zeros, fc1_bias, fusion == FUSED_APART ? inner : 2 * inner, op.hidden, fc1_bits, fc1_block}};
  op.second = {{fc2, fc2_scales, fc2_zeros, fc2_bias, op.hidden, inner, fc2_bits, fc2_block}};
  op.third = {{fc3, fc3_scales, fc3_zeros, fc3_bias, inner, op.hidden, fc3_bits, fc3_block}};
  HIPC_TRY(check_mixture(context, {x, router, router_weights, y, experts, inner, k, activation, fusion}, op.first, op.second,
                         op.third));
  if (op.tokens == 0) return HIPC_OK;
  return run(context, op);
}
