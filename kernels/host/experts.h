// What the runtimes check of a mixture of experts before they compute it.
#pragma once
#include "hipc_ops.h"
#include "shared/experts.h"

namespace hipc {

// The matrices of one of an expert's products, [k] to [n], over all experts.
struct ExpertOperands {
  const hipc_tensor *weights, *scales, *zeros, *bias;
  int64_t n, k, bits, block;

  int64_t panels() const { return ceil_div(n, EXPERT_PANEL); }
};

inline int32_t check_experts(hipc_context *context, const char *name, const ExpertOperands &layer, int64_t experts) {
  if (!layer.weights) return HIPC_OK;
  bool known = layer.bits == 0 || layer.bits == 2 || layer.bits == 4 || layer.bits == 8;
  if (!known || (layer.bits && (layer.block < 16 || layer.block % 16 || !layer.scales)))
    return hipc_error(context, HIPC_ERROR_VALUE, "moe: %s has %lld bits in blocks of %lld", name, (long long)layer.bits,
                      (long long)layer.block);
  int64_t columns = experts * layer.panels() * EXPERT_PANEL;
  int64_t cells = layer.bits ? columns * ceil_div(layer.k, layer.block) : 0;
  bool fits = elements(layer.weights) == (layer.bits ? cells * layer.block * layer.bits / 8 : columns * layer.k);
  fits = fits && element_size(layer.weights->dtype) == (layer.bits ? 1 : 4);
  fits = fits && (!layer.bias || (elements(layer.bias) == experts * layer.n && layer.bias->dtype == F32));
  const hipc_tensor *const cell_tensors[] = {layer.scales, layer.zeros};
  for (const hipc_tensor *cell : cell_tensors)
    fits = fits && (!cell || (elements(cell) == cells && cell->dtype == F32));
  if (fits) return HIPC_OK;
  return hipc_error(context, HIPC_ERROR_SHAPE, "moe: the weights of %s are not those of %lld experts, %lld to %lld", name,
                    (long long)experts, (long long)layer.k, (long long)layer.n);
}

// Operands of the operation; layers are in the order fc1, fc2, fc3.
struct MixtureOperands {
  const hipc_tensor *x, *router, *router_weights, *y;
  int64_t experts, inner, k, activation, fusion;
};

inline int32_t check_mixture(hipc_context *context, const MixtureOperands &op, const ExpertOperands &first,
                             const ExpertOperands &second, const ExpertOperands &third) {
  const hipc_tensor *const floats[] = {op.x, op.router, op.router_weights, op.y};
  for (const hipc_tensor *tensor : floats)
    if (tensor && tensor->dtype != F32 && tensor->dtype != F16 && tensor->dtype != BF16)
      return unsupported_dtype(context, "moe", tensor->dtype);
  if (op.y->dtype != op.x->dtype) return unsupported_dtype(context, "moe", op.y->dtype);
  if (op.x->rank < 1 || op.experts < 1 || op.k < 1 || op.k > op.experts || op.inner < 1)
    return hipc_error(context, HIPC_ERROR_VALUE, "moe: %lld of %lld experts", (long long)op.k, (long long)op.experts);
  if (op.activation == EXPERT_SWIGLU && op.fusion == FUSED_APART && !third.weights)
    return hipc_error(context, HIPC_ERROR_SHAPE, "moe: the linear half of the gate is missing");
  int64_t tokens = extent(op.x, 0, op.x->rank - 1), scores = tokens * op.experts;
  if (elements(op.x) != elements(op.y) || elements(op.router) != scores ||
      (op.router_weights && elements(op.router_weights) != scores))
    return hipc_error(context, HIPC_ERROR_SHAPE, "moe: %lld router scores for %lld tokens and %lld experts",
                      (long long)elements(op.router), (long long)tokens, (long long)op.experts);
  HIPC_TRY(check_experts(context, "fc1", first, op.experts));
  HIPC_TRY(check_experts(context, "fc2", second, op.experts));
  return check_experts(context, "fc3", third, op.experts);
}

} // namespace hipc
