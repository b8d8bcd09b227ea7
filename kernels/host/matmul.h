// Arguments of hip.matmul, shared by its implementations on the host and on GPUs.
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

inline int32_t extents_differ(hipc_context *context, const char *what, int64_t found, int64_t expected) {
  return hipc_error(context, HIPC_ERROR_SHAPE, "matmul: %s is %lld, expected %lld", what, (long long)found,
                    (long long)expected);
}

// Fills in the extents and checks everything against them. `n` is that of a packed b.
inline int32_t read_matmul(hipc_context *context, MatMul &op, int64_t n) {
  const hipc_tensor *a = op.a, *b = op.b, *y = op.y;
  if (b->dtype != a->dtype || y->dtype != a->dtype)
    return hipc_error(context, HIPC_ERROR_UNSUPPORTED, "matmul of %s by %s to %s", dtype_name(a->dtype),
                      dtype_name(b->dtype), dtype_name(y->dtype));
  if (a->rank < 2 || b->rank < 2 || y->rank < 2 || (op.packed && b->rank != 3))
    return hipc_error(context, HIPC_ERROR_SHAPE, "matmul: ranks %d and %d to %d", a->rank, b->rank, y->rank);
  op.m = a->shape[a->rank - (op.trans_a ? 1 : 2)];
  op.k = a->shape[a->rank - (op.trans_a ? 2 : 1)];
  op.n = op.packed ? n : b->shape[b->rank - (op.trans_b ? 2 : 1)];
  int64_t depth = op.packed ? b->shape[1] : b->shape[b->rank - (op.trans_b ? 1 : 2)];
  if (depth != op.k) return extents_differ(context, "the inner extent of b", depth, op.k);
  if (op.packed && (b->shape[0] != ceil_div(n, PANEL) || b->shape[2] != PANEL))
    return extents_differ(context, "the number of panels of b", b->shape[0], ceil_div(n, PANEL));
  if (y->shape[y->rank - 2] != op.m) return extents_differ(context, "the number of rows of y", y->shape[y->rank - 2], op.m);
  if (y->shape[y->rank - 1] != op.n)
    return extents_differ(context, "the number of columns of y", y->shape[y->rank - 1], op.n);
  const hipc_tensor *operands[] = {a, op.packed ? nullptr : b};
  int32_t batch_rank = y->rank - 2;
  for (const hipc_tensor *operand : operands) {
    if (!operand) continue;
    for (int32_t i = 0; i < operand->rank - 2; i++) {
      int32_t axis = batch_rank - (operand->rank - 2) + i;
      int64_t own = operand->shape[i];
      if (axis < 0 ? own != 1 : own != 1 && own != y->shape[axis])
        return extents_differ(context, "a batch extent", own, axis < 0 ? 1 : y->shape[axis]);
    }
  }
  op.a_matrices = extent(a, 0, a->rank - 2);
  op.b_matrices = op.packed ? 1 : extent(b, 0, b->rank - 2);
  op.y_matrices = extent(y, 0, batch_rank);
  if (op.bias && (elements(op.bias) != op.n || op.bias->dtype != y->dtype))
    return extents_differ(context, "the number of elements of bias", elements(op.bias), op.n);
  if (op.residual && (elements(op.residual) != elements(y) || op.residual->dtype != y->dtype))
    return extents_differ(context, "the number of elements of residual", elements(op.residual), elements(y));
  return HIPC_OK;
}

// Plain loops for float64 and the integer types.
int32_t matmul_plain(hipc_context *context, const MatMul &op);

} // namespace hipc
