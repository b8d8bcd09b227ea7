// Arguments of the kernels of mixtures of experts.
#pragma once
#include "arguments.h"

namespace hipc {

// In the order of the choices in hip_compiler/core/dialects/hip/moe.py.
enum ExpertFunction : i32 { EXPERT_RELU, EXPERT_GELU, EXPERT_SILU, EXPERT_SWIGLU, EXPERT_IDENTITY };
enum ExpertFusion : i32 { FUSED_APART, FUSED_INTERLEAVED, FUSED_CONCATENATED };

constexpr i64 EXPERT_PANEL = 32, EXPERT_STRIP = 16;

// One product of all experts, [k] to [n]. Weights are float32 in panels of columns, [experts][panels][k][32]; or of few
// bits, as kernels/host/matmul_nbits.h has them, one expert after the other.
struct ExpertLayer {
  const u8 *words;
  const f32 *floats, *scales, *zeros, *bias;
  i64 n, k, bits, block, blocks;

  HIPC_METHOD i64 panels() const { return (n + EXPERT_PANEL - 1) / EXPERT_PANEL; }
};

// A row of work is a token's entry for one of its `k` experts.
struct Experts {
  const void *x, *router, *router_weights;
  void *y;
  i32 *chosen;      // [tokens][k]
  f32 *shares;      // [tokens][k]
  f32 *first, *third, *inner_rows, *second;  // [tokens * k] rows of each layer
  i64 tokens, hidden, inner, experts, k;
  f32 alpha, beta, limit;
  i32 activation, fusion, normalize, dtype, router_dtype, weights_dtype;
};

} // namespace hipc
