// hipc_moe on GPUs: routing, the layers of the chosen experts, and the weighted sum, all on the device.
#include "../host/experts.h"
#include "gpu.h"

using namespace hipc;

namespace {

constexpr const char *OP = "moe";

struct Layer : ExpertOperands {
  ExpertLayer argument() const {
    auto floats = [](const hipc_tensor *tensor) { return tensor ? data<const float>(tensor) : nullptr; };
    return {bits ? data<const uint8_t>(weights) : nullptr, bits ? nullptr : data<const float>(weights), floats(scales),
            floats(zeros), floats(bias), n, k, bits, block, bits ? ceil_div(k, block) : 0};
  }
};

int32_t run_layer(hipc_context *context, const Experts &op, const Layer &layer, const float *from, float *to) {
  char name[32];
  snprintf(name, sizeof name, "moe_layer_b%lld", (long long)layer.bits);
  Launch grid;
  grid.grid[0] = (uint32_t)ceil_div(layer.n, EXPERT_PANEL);
  grid.grid[1] = (uint32_t)min<int64_t>(op.tokens * op.k, 0xffff);
  grid.block[0] = 256;
  return launch(context, name, grid, op, layer.argument(), from, to);
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
  (void)level;  // of accuracy: products of float32 satisfy every one
  HIPC_TRY(check_contiguous(context, OP, x, router, router_weights, fc1, fc1_scales, fc1_zeros, fc1_bias, fc2, fc2_scales,
                            fc2_zeros, fc2_bias, fc3, fc3_scales, fc3_zeros, fc3_bias, y));
  Experts op{};
  op.hidden = x->rank ? x->shape[x->rank - 1] : 0, op.tokens = extent(x, 0, x->rank - 1);
  op.inner = inner, op.experts = experts, op.k = k;
  op.activation = (int32_t)activation, op.fusion = (int32_t)fusion, op.normalize = normalize != 0;
  op.alpha = (float)alpha, op.beta = (float)beta, op.limit = (float)limit;
  op.x = x->data, op.router = router->data, op.router_weights = router_weights ? router_weights->data : nullptr, op.y = y->data;
  op.dtype = x->dtype, op.router_dtype = router->dtype, op.weights_dtype = router_weights ? router_weights->dtype : F32;
  Layer first{{fc1, fc1_scales, fc1_zeros, fc1_bias, fusion == FUSED_APART ? inner : 2 * inner, op.hidden, fc1_bits, fc1_block}};
  Layer second{{fc2, fc2_scales, fc2_zeros, fc2_bias, op.hidden, inner, fc2_bits, fc2_block}};
  Layer third{{fc3, fc3_scales, fc3_zeros, fc3_bias, inner, op.hidden, fc3_bits, fc3_block}};
  HIPC_TRY(check_mixture(context, {x, router, router_weights, y, experts, inner, k, activation, fusion}, first, second, third));
  if (elements(y) == 0) return HIPC_OK;
  int64_t entries = op.tokens * k;
  ScratchPlan plan;
  int64_t chosen_at = plan.add(entries * 4), shares_at = plan.add(entries * 4), first_at = plan.add(entries * first.n * 4);
  int64_t third_at = plan.add(fc3 ? entries * inner * 4 : 0), inner_at = plan.add(entries * inner * 4);
  int64_t second_at = plan.add(entries * op.hidden * 4);
  char *scratch = (char *)device_scratch(context, plan.bytes);
  if (!scratch) return out_of_memory(context, OP);
  op.chosen = (int32_t *)(scratch + chosen_at), op.shares = (float *)(scratch + shares_at);
  op.first = (float *)(scratch + first_at), op.third = fc3 ? (float *)(scratch + third_at) : nullptr;
  op.inner_rows = (float *)(scratch + inner_at), op.second = (float *)(scratch + second_at);
  HIPC_TRY(launch(context, "moe_route", over(context, op.tokens), op));
  HIPC_TRY(run_layer(context, op, first, nullptr, op.first));
  if (fc3) HIPC_TRY(run_layer(context, op, third, nullptr, op.third));
  HIPC_TRY(launch(context, "moe_activate", over(context, entries * inner), op));
  HIPC_TRY(run_layer(context, op, second, op.inner_rows, op.second));
  return launch(context, "moe_combine", over(context, op.tokens * op.hidden), op);
}
