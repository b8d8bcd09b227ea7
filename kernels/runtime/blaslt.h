// Matrix products by hipBLASLt.
#pragma once
#include "../host/matmul.h"
#include "gpu_context.h"

namespace hipc {

// What decides which algorithm computes a product, but for the addresses.
struct MatmulKey {
  int64_t m, n, k, batch, a_stride, b_stride;
  int32_t dtype;
  uint32_t epilogue;
  double alpha;
  uint32_t alignment;  // of every matrix, in bytes
  uint8_t trans_a, trans_b, residual, unused[1];
};

// The plan of a key, made when it is first asked for; null with HIPC_OK in `status`: the library has no algorithm for it.
MatmulPlan *find_plan(hipc_context *context, const MatmulKey &key, int32_t *status);

} // namespace hipc
