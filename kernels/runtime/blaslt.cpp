// Plans of hipBLASLt: descriptions, layouts and the algorithm of its heuristic, kept for every kind of product.
//
// The library counts columns first: a row-major y [m, n] is its n x m matrix, so that b comes first and a second.
#include "blaslt.h"

#include <stdlib.h>

using namespace hipc;

namespace hipc {

struct MatmulPlan {
  MatmulPlan *next;
  MatmulKey key;
  bool usable;
  hipblasLtMatmulDesc_t description;
  hipblasLtMatrixLayout_t a, b, y;
  HeuristicResult chosen;
};

} // namespace hipc

namespace {

constexpr size_t WORKSPACE_BYTES = 32 << 20;

int32_t check_blaslt(hipc_context *context, int32_t status, const char *what) {
  if (status == 0) return HIPC_OK;
  return hipc_error(context, HIPC_ERROR_DEVICE, "the matrix library failed on device %d: %s, status %d", context->device, what,
                    status);
}

int32_t open_library(hipc_context *context) {
  if (context->blaslt_handle) return HIPC_OK;
  if (!context->blaslt && !(context->blaslt = (BlasLt *)calloc(1, sizeof *context->blaslt)))
    return hipc_error(context, HIPC_ERROR_MEMORY, "no memory for the matrix library");
  HIPC_TRY(load_blaslt(context, context->blaslt));
  return check_blaslt(context, context->blaslt->hipblasLtCreate(&context->blaslt_handle), "opening it");
}

DataType data_type(int32_t dtype) { return dtype == F32 ? R_32F : dtype == F16 ? R_16F : R_16BF; }

int32_t make_layout(hipc_context *context, hipblasLtMatrixLayout_t *layout, const MatmulKey &key, int64_t rows,
                    int64_t columns, int64_t stride) {
  BlasLt &lt = *context->blaslt;
  int32_t status = lt.hipblasLtMatrixLayoutCreate(layout, data_type(key.dtype), (uint64_t)rows, (uint64_t)columns, rows);
  int32_t batch = (int32_t)key.batch;
  if (!status && batch > 1) {
    status = lt.hipblasLtMatrixLayoutSetAttribute(*layout, LAYOUT_BATCH, &batch, sizeof batch);
    if (!status) status = lt.hipblasLtMatrixLayoutSetAttribute(*layout, LAYOUT_BATCH_STRIDE, &stride, sizeof stride);
  }
  return check_blaslt(context, status, "describing a matrix");
}

int32_t describe(hipc_context *context, MatmulPlan *plan) {
  BlasLt &lt = *context->blaslt;
  const MatmulKey &key = plan->key;
  HIPC_TRY(check_blaslt(context, lt.hipblasLtMatmulDescCreate(&plan->description, COMPUTE_32F, R_32F), "describing a product"));
  int32_t first = key.trans_b ? OP_T : OP_N, second = key.trans_a ? OP_T : OP_N, type = data_type(key.dtype);
  auto set = [&](MatmulAttribute attribute, const void *value, size_t bytes) {
    return check_blaslt(context, lt.hipblasLtMatmulDescSetAttribute(plan->description, attribute, value, bytes),
                        "describing a product");
  };
  HIPC_TRY(set(MATMUL_TRANSA, &first, sizeof first));
  HIPC_TRY(set(MATMUL_TRANSB, &second, sizeof second));
  HIPC_TRY(set(MATMUL_EPILOGUE, &key.epilogue, sizeof key.epilogue));
  if (key.epilogue & EPILOGUE_BIAS) HIPC_TRY(set(MATMUL_BIAS_TYPE, &type, sizeof type));
  HIPC_TRY(make_layout(context, &plan->b, key, key.trans_b ? key.k : key.n, key.trans_b ? key.n : key.k, key.b_stride));
  HIPC_TRY(make_layout(context, &plan->a, key, key.trans_a ? key.m : key.k, key.trans_a ? key.k : key.m, key.a_stride));
  return make_layout(context, &plan->y, key, key.n, key.m, key.m * key.n);
}

// Asks the heuristic. That it finds nothing is no error: other kernels compute the product then.
int32_t choose_algorithm(hipc_context *context, MatmulPlan *plan) {
  BlasLt &lt = *context->blaslt;
  hipblasLtMatmulPreference_t preference = nullptr;
  size_t workspace = WORKSPACE_BYTES;
  int32_t found = 0;
  HIPC_TRY(check_blaslt(context, lt.hipblasLtMatmulPreferenceCreate(&preference), "asking for an algorithm"));
  int32_t status = lt.hipblasLtMatmulPreferenceSetAttribute(preference, PREFERENCE_WORKSPACE, &workspace, sizeof workspace);
#ifdef HIPC_PLATFORM_NVIDIA
  const uint32_t alignment = plan->key.alignment;
  for (int32_t which = 0; which < 4 && !status; which++)
    status = lt.hipblasLtMatmulPreferenceSetAttribute(preference, PREFERENCE_ALIGNMENT + which, &alignment, sizeof alignment);
#endif
  if (!status)
    // A status other than 0 says the same as no result: the library does not know this kind of product.
    plan->usable = lt.hipblasLtMatmulAlgoGetHeuristic(context->blaslt_handle, plan->description, plan->b, plan->a, plan->y,
                                                      plan->y, preference, 1, &plan->chosen, &found) == 0 &&
                   found > 0 && plan->chosen.status == 0 && plan->chosen.workspace_bytes <= workspace;
  lt.hipblasLtMatmulPreferenceDestroy(preference);
  return check_blaslt(context, status, "asking for an algorithm");
}

void free_plan(hipc_context *context, MatmulPlan *plan) {
  BlasLt &lt = *context->blaslt;
  if (plan->description) lt.hipblasLtMatmulDescDestroy(plan->description);
  const hipblasLtMatrixLayout_t layouts[] = {plan->a, plan->b, plan->y};
  for (hipblasLtMatrixLayout_t layout : layouts)
    if (layout) lt.hipblasLtMatrixLayoutDestroy(layout);
  free(plan);
}

} // namespace

MatmulPlan *hipc::find_plan(hipc_context *context, const MatmulKey &key, int32_t *status) {
  *status = HIPC_OK;
  for (MatmulPlan *plan = context->matmul_plans; plan; plan = plan->next)
    if (!memcmp(&plan->key, &key, sizeof key)) return plan->usable ? plan : nullptr;
  if ((*status = open_library(context))) return nullptr;
  MatmulPlan *plan = (MatmulPlan *)calloc(1, sizeof *plan);
  if (!plan) return *status = hipc_error(context, HIPC_ERROR_MEMORY, "no memory for a matrix product"), nullptr;
  plan->key = key;
  *status = describe(context, plan);
  if (!*status) *status = choose_algorithm(context, plan);
  if (!*status && plan->chosen.workspace_bytes &&
      !reserve_block(context, &context->workspace, WORKSPACE_BYTES, "workspace for matrix products"))
    *status = HIPC_ERROR_MEMORY;
  if (*status) return free_plan(context, plan), nullptr;
  plan->next = context->matmul_plans;
  context->matmul_plans = plan;
  return plan->usable ? plan : nullptr;
}

int32_t hipc::execute_matmul(hipc_context *context, const MatmulCommand *command) {
  BlasLt &lt = *context->blaslt;
  MatmulPlan *plan = command->plan;
  const MatmulKey &key = plan->key;
  float alpha = (float)key.alpha, beta = key.residual ? 1.0f : 0.0f;
  if (key.epilogue & EPILOGUE_BIAS)
    HIPC_TRY(check_blaslt(
        context, lt.hipblasLtMatmulDescSetAttribute(plan->description, MATMUL_BIAS, &command->bias, sizeof command->bias),
        "giving it the bias"));
  const void *addend = key.residual ? command->residual : command->y;
  return check_blaslt(context,
                      lt.hipblasLtMatmul(context->blaslt_handle, plan->description, &alpha, command->b, plan->b, command->a,
                                         plan->a, &beta, addend, plan->y, command->y, plan->y, &plan->chosen.algorithm,
                                         plan->chosen.workspace_bytes ? context->workspace.memory : nullptr,
                                         plan->chosen.workspace_bytes, context->stream),
                      "a product");
}

void hipc::free_matmul(hipc_context *context) {
  while (MatmulPlan *plan = context->matmul_plans) {
    context->matmul_plans = plan->next;
    free_plan(context, plan);
  }
  if (context->blaslt_handle) context->blaslt->hipblasLtDestroy(context->blaslt_handle);
  context->blaslt_handle = nullptr;
}
