// Arguments of hip.matmul, shared by its two implementations.
#pragma once
#include "gemm.h"

namespace hipc {

struct MatMul {
  const hipc_tensor *a, *b, *bias, *residual;
  hipc_tensor *y;
  bool trans_a, trans_b, packed;
  double alpha;
  Activation activation;
  double activation_alpha, activation_beta;
  int64_t m, n, k;
  int64_t a_matrices, b_matrices, y_matrices;
};

// Element offsets of the matrices of one product.
struct Offsets {
  int64_t a, b, y;
};

// Offsets of matrix number i of y and of the matrices of a and b that broadcast to it.
class MatMulWalk {
public:
  explicit MatMulWalk(const MatMul &op)
      : op(op), single(op.y_matrices == 1), walk(single ? 0 : op.y->rank - 2, op.y->shape) {
    if (single) return;
    stride(0, op.a, op.m * op.k);
    if (!op.packed) stride(1, op.b, op.n * op.k);
  }
  Offsets at(int64_t i) {
    if (single) return {0, 0, 0};
    walk.seek(i);
    return {walk.offsets[0], walk.offsets[1], i * op.m * op.n};
  }

private:
  void stride(int which, const hipc_tensor *tensor, int64_t matrix) {
    int32_t rank = tensor->rank - 2, extra = rank - walk.rank;
    int64_t strides[HIPC_MAX_RANK];
    for (int32_t i = rank - 1; i >= 0; i--) {
      strides[i] = matrix;
      matrix *= tensor->shape[i];
    }
    // Leading extents beyond the rank of y are 1.
    extra = max(extra, 0);
    walk.broadcast(which, rank - extra, tensor->shape + extra, strides + extra);
  }

  const MatMul &op;
  bool single;
  Walk<2> walk;
};

// Plain loops for float64 and the integer types.
int32_t matmul_plain(hipc_context *context, const MatMul &op);

} // namespace hipc
