// Mixtures of experts: every token chooses its experts, each of its entries goes through the layers of one, and their
// results are added up by the token's shares. A block computes 32 columns of one entry's layer; sums are float32.
#include "hipc_math.h"
#include "hipc_mixed.h"
#include "shared/experts.h"

using namespace hipc;

namespace {

constexpr u32 PARTS = 8;  // of the depth, which threads of a block share for each of the 32 columns

// The k best experts of a token, best first; of equal scores the last expert's is better, as in ONNX Runtime.
DEVICE void choose_experts(const Experts &op, i64 token) {
  i32 *chosen = op.chosen + token * op.k;
  f32 *shares = op.shares + token * op.k, total = 0, all = 0, greatest = 0;
  auto score = [&](i64 e) { return mixed_at(op.router, op.router_dtype, token * op.experts + e); };
  for (i64 i = 0; i < op.k; i++) {
    i32 best = -1;
    f32 best_score = 0;
    for (i32 e = 0; e < op.experts; e++) {
      bool taken = false;
      for (i64 j = 0; j < i; j++) taken = taken || chosen[j] == e;
      f32 own = score(e);
      if (!taken && (best < 0 || !(own < best_score))) best = e, best_score = own;
    }
    chosen[i] = best;
    if (i == 0) greatest = best_score;
  }
  if (!op.router_weights)
    for (i64 e = 0; e < op.experts; e++) all += exp_of(score(e) - greatest);
  for (i64 i = 0; i < op.k; i++) {
    if (op.router_weights) shares[i] = mixed_at(op.router_weights, op.weights_dtype, token * op.experts + chosen[i]);
    else shares[i] = exp_of(score(chosen[i]) - greatest) / all;
    total += shares[i];
  }
  if (op.normalize)
    for (i64 i = 0; i < op.k; i++) shares[i] /= total;
}

// The part of a column's product that one thread sums; `value(at)` is the left-hand side at a depth.
template <int BITS, class Value>
DEVICE f32 part_of_column(const ExpertLayer &layer, i64 expert, i64 column, u32 part, Value value) {
  f32 sum = 0;
  if constexpr (BITS == 0) {
    const f32 *panel = layer.floats + (expert * layer.panels() + column / EXPERT_PANEL) * layer.k * EXPERT_PANEL;
    for (i64 at = part; at < layer.k; at += PARTS) sum += value(at) * panel[at * EXPERT_PANEL + column % EXPERT_PANEL];
  } else {
    constexpr int FIELDS = 32 / BITS;
    i64 strip = expert * layer.panels() * 2 + column / EXPERT_STRIP, lane = column % EXPERT_STRIP;
    i64 words = layer.blocks * layer.block / FIELDS;
    const u32 *from = (const u32 *)layer.words + strip * words * EXPERT_STRIP + lane;
    for (i64 word = part; word < words; word += PARTS) {
      i64 cell = (strip * layer.blocks + word * FIELDS / layer.block) * EXPERT_STRIP + lane;
      u32 bits = from[word * EXPERT_STRIP];
      f32 zero = layer.zeros ? layer.zeros[cell] : (f32)(1 << (BITS - 1)), total = 0;
      // Field f of byte t is 4 f + t deep in the word's part of the column.
      UNROLL for (int i = 0; i < FIELDS; i++) {
        i64 at = word * FIELDS + i;
        f32 level = (f32)(bits >> (8 * (i % 4) + BITS * (i / 4)) & ((1u << BITS) - 1));
        if (at < layer.k) total += value(at) * (level - zero);
      }
      sum += total * layer.scales[cell];
    }
  }
  return sum;
}

// Grid: panels, entries. `from` is x with a token's row, or a row for every entry.
template <int BITS> DEVICE void layer_row(const Experts &op, const ExpertLayer &layer, const f32 *from, f32 *to) {
  SHARED f32 shared[PARTS][EXPERT_PANEL];
  i64 column = (i64)block() * EXPERT_PANEL + thread() % EXPERT_PANEL;
  u32 part = thread() / EXPERT_PANEL;
  for (i64 entry = block_y(); entry < op.tokens * op.k; entry += blocks_y()) {
    i64 expert = op.chosen[entry], row = entry / op.k * op.hidden;
    // Columns beyond n are padding of the weights.
    f32 sum = part_of_column<BITS>(layer, expert, column, part, [&](i64 at) {
      return from ? from[entry * layer.k + at] : mixed_at(op.x, op.dtype, row + at);
    });
    shared[part][thread() % EXPERT_PANEL] = sum;
    barrier();
    if (part == 0 && column < layer.n) {
      for (u32 other = 1; other < PARTS; other++) sum += shared[other][thread()];
      to[entry * layer.n + column] = sum + (layer.bias ? layer.bias[expert * layer.n + column] : 0.0f);
    }
    barrier();
  }
}

// The approximation with tanh, which ONNX Runtime means by gelu here.
DEVICE f32 gelu(f32 x) { return 0.5f * x * (1 + tanh_of(0.79788456f * (x + 0.044715f * x * x * x))); }

DEVICE f32 activated(const Experts &op, i64 entry, i64 i) {
  i64 width = op.fusion == FUSED_APART ? op.inner : 2 * op.inner;
  const f32 *first = op.first + entry * width, *third = op.third ? op.third + entry * op.inner : nullptr;
  if (op.activation == EXPERT_SWIGLU) {
    f32 gate = op.fusion == FUSED_INTERLEAVED ? first[2 * i] : first[i];
    f32 linear = op.fusion == FUSED_APART ? third[i] : op.fusion == FUSED_INTERLEAVED ? first[2 * i + 1] : first[op.inner + i];
    gate = clamp_of(gate, -__builtin_inff(), op.limit), linear = clamp_of(linear, -op.limit, op.limit);
    return gate * sigmoid_of(op.alpha * gate) * (linear + op.beta);
  }
  f32 x = first[i];
  if (op.activation == EXPERT_RELU) x = x < 0 ? 0 : x;
  else if (op.activation == EXPERT_GELU) x = gelu(x);
  else if (op.activation == EXPERT_SILU) x = x * sigmoid_of(x);
  return third ? x * third[i] : x;
}

} // namespace

KERNEL(256) moe_route(Experts op) {
  for (i64 token = global_thread(); token < op.tokens; token += global_threads()) choose_experts(op, token);
}
KERNEL(256) moe_activate(Experts op) {
  for (i64 at = global_thread(); at < op.tokens * op.k * op.inner; at += global_threads())
    op.inner_rows[at] = activated(op, at / op.inner, at % op.inner);
}
KERNEL(256) moe_combine(Experts op) {
  for (i64 at = global_thread(); at < op.tokens * op.hidden; at += global_threads()) {
    i64 token = at / op.hidden, column = at % op.hidden;
    f32 sum = 0;
    for (i64 i = 0; i < op.k; i++) sum += op.shares[token * op.k + i] * op.second[(token * op.k + i) * op.hidden + column];
    put_mixed(op.y, op.dtype, at, sum);
  }
}
#define DEFINE(BITS)                                                                                                   \
  KERNEL(256) moe_layer_b##BITS(Experts op, ExpertLayer layer, const f32 *from, f32 *to) {                             \
    layer_row<BITS>(op, layer, from, to);                                                                              \
  }
DEFINE(0) DEFINE(2) DEFINE(4) DEFINE(8)
