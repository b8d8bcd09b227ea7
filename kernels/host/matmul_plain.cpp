// hip.matmul for float64 and the integer types: plain loops over blocks of columns.
#include "activation_double.h"
#include "matmul.h"

using namespace hipc;

namespace {

constexpr int64_t BLOCK = 128;

// Integer sums wrap, as ONNX integer arithmetic does; unsigned types make that well defined.
template <class T> struct Sum {
  using Type = uint64_t;
};
template <> struct Sum<double> {
  using Type = double;
};

template <class T> T finish(const MatMul &op, typename Sum<T>::Type sum, int64_t y, int64_t n) {
  if constexpr (TypeInfo<T>::is_float) {
    T x = sum * op.alpha + (op.bias ? data<T>(op.bias)[n] : 0);
    return activate(op.activation, x, op.activation_alpha, op.activation_beta) + (op.residual ? data<T>(op.residual)[y] : 0);
  } else {
    T x = (T)(sum + (op.bias ? (uint64_t)data<T>(op.bias)[n] : 0));
    if (op.activation == ACT_RELU && x < (T)0) x = 0;
    return (T)((uint64_t)x + (op.residual ? (uint64_t)data<T>(op.residual)[y] : 0));
  }
}

// Columns [n0, n1) of row m of one product.
template <class T> void run_block(const MatMul &op, const Offsets &at, int64_t m, int64_t n0, int64_t n1) {
  using S = typename Sum<T>::Type;
  const T *a = data<T>(op.a) + at.a, *b = data<T>(op.b) + at.b;
  S sums[BLOCK] = {};
  for (int64_t k = 0; k < op.k; k++) {
    S left = (S)(op.trans_a ? a[k * op.m + m] : a[m * op.k + k]);
    if (op.packed)
      for (int64_t n = n0; n < n1; n++) sums[n - n0] += left * (S)b[(n / PANEL * op.k + k) * PANEL + n % PANEL];
    else if (op.trans_b)
      for (int64_t n = n0; n < n1; n++) sums[n - n0] += left * (S)b[n * op.k + k];
    else
      for (int64_t n = n0; n < n1; n++) sums[n - n0] += left * (S)b[k * op.n + n];
  }
  for (int64_t n = n0; n < n1; n++) {
    int64_t y = at.y + m * op.n + n;
    data<T>(op.y)[y] = finish<T>(op, sums[n - n0], y, n);
  }
}

template <class T> int32_t run(hipc_context *context, const MatMul &op) {
  if (!TypeInfo<T>::is_float && (op.alpha != 1 || (op.activation != ACT_NONE && op.activation != ACT_RELU)))
    return hipc_error(context, HIPC_ERROR_UNSUPPORTED, "matmul of %s with a scale or an activation other than relu",
                      dtype_name(op.a->dtype));
  int64_t blocks = ceil_div(op.n, BLOCK);
  parallel_for(context, op.y_matrices * op.m * blocks, op.k * BLOCK / 2, [&](int64_t begin, int64_t end) {
    MatMulWalk walk(op);
    for (int64_t i = begin; i < end; i++) {
      int64_t n0 = i % blocks * BLOCK, row = i / blocks;
      run_block<T>(op, walk.at(row / op.m), row % op.m, n0, min(n0 + BLOCK, op.n));
    }
  });
  return HIPC_OK;
}

} // namespace

int32_t hipc::matmul_plain(hipc_context *context, const MatMul &op) {
  auto body = [&]<class T>() { return run<T>(context, op); };
  if (op.a->dtype == F64) return body.template operator()<double>();
  return dispatch_int(context, "matmul", op.a->dtype, body);
}
