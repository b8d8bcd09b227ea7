// hipc_linear: a product of a decoder with its norm, its gate and its residual. With few rows one kernel does all of it;
// with more, the parts are worth launches of their own, and the product is the library's.
#include "../host/gemm.h"
#include "gpu.h"

using namespace hipc;

extern "C" {
int32_t hipc_rms_norm(hipc_context *, const hipc_tensor *, const hipc_tensor *, hipc_tensor *, int64_t, double);
int32_t hipc_matmul(hipc_context *, const hipc_tensor *, const hipc_tensor *, const hipc_tensor *, const hipc_tensor *,
                    hipc_tensor *, int64_t, int64_t, double, int64_t, int64_t, int64_t, double, double);
int32_t hipc_matmul_nbits(hipc_context *, const hipc_tensor *, const hipc_tensor *, const hipc_tensor *,
                          const hipc_tensor *, const hipc_tensor *, hipc_tensor *, int64_t, int64_t, int64_t, int64_t,
                          int64_t, int64_t);
}

namespace {

constexpr const char *OP = "linear";
constexpr int64_t FEW_ROWS = 4;
constexpr int32_t MOST_COLUMNS = 128;  // of a block of linear.hip

struct Weights {
  const hipc_tensor *matrix, *scales, *zeros;
};
struct Linear {
  const hipc_tensor *x, *norm, *bias, *residual;
  hipc_tensor *y;
  Weights gate, up;
  int64_t n, k, bits, block;
  double epsilon;
  int32_t activation;
  bool gated() const { return up.matrix != nullptr; }
};

// The words of LINEAR_ACTIVATIONS in hip_compiler/core/dialects/hip/linear.py.
constexpr int32_t ACTIVATIONS[] = {ACT_NONE, ACT_SILU, ACT_GELU, ACT_GELU_TANH};

// As kernels/device/hipc_math.h declares it.
struct Epilogue {
  const void *bias, *residual;
  float alpha, first, second;
  int32_t activation;
};

const void *address(const hipc_tensor *tensor) { return tensor ? tensor->data : nullptr; }

bool is_aligned(const void *address) { return (uintptr_t)address % 16 == 0; }

bool fits_one_kernel(const Linear &op) {
  int64_t vector = 16 / element_size(op.x->dtype);
  return op.x->shape[0] <= FEW_ROWS && op.bits == 0 && op.n % vector == 0 && is_aligned(op.gate.matrix->data) &&
         is_aligned(address(op.up.matrix)) && op.n * op.k < 0x7fffffff;
}

// Vectors of columns of a block: as many as leave every compute unit two blocks.
int32_t groups_of(hipc_context *context, int64_t vectors, int64_t vector) {
  int32_t groups = 2;
  while (groups * 2 * vector <= MOST_COLUMNS && vectors / (groups * 2) >= 2 * (int64_t)compute_units(context)) groups *= 2;
  return groups;
}

int32_t one_kernel(hipc_context *context, const Linear &op) {
  int64_t size = element_size(op.x->dtype), vector = 16 / size;
  int32_t groups = groups_of(context, op.n / vector, vector);
  for (int64_t row = 0; row < op.x->shape[0];) {
    int64_t left = op.x->shape[0] - row, rows = left >= 4 ? 4 : left >= 2 ? 2 : 1;
    char family[32];
    snprintf(family, sizeof family, op.gated() ? "linear_gated_m%d" : "linear_m%d", (int)rows);
    Epilogue end{address(op.bias), nullptr, 1.0f, 0.0f, 0.0f, op.activation};
    if (op.residual) end.residual = (const char *)op.residual->data + row * op.n * size;
    Launch grid;
    grid.grid[0] = (uint32_t)ceil_div(op.n, groups * vector);
    grid.block[0] = 256;
    HIPC_TRY(launch(context, kernel_name(family, op.x->dtype), grid, (const char *)op.x->data + row * op.k * size,
                    address(op.norm), address(op.gate.matrix), address(op.up.matrix), (char *)op.y->data + row * op.n * size,
                    end, (int32_t)op.n, (int32_t)op.k, groups, (float)op.epsilon));
    row += rows;
  }
  return HIPC_OK;
}

hipc_tensor matrix_of(const hipc_tensor *like, void *data, int64_t rows, int64_t columns) {
  hipc_tensor made{};
  made.data = data, made.dtype = like->dtype, made.rank = 2;
  made.shape[0] = rows, made.shape[1] = columns;
  made.strides[0] = columns, made.strides[1] = 1;
  return made;
}

int32_t multiply(hipc_context *context, const Linear &op, const hipc_tensor *x, const Weights &w, const hipc_tensor *bias,
                 const hipc_tensor *residual, hipc_tensor *y) {
  if (op.bits == 0)
    return hipc_matmul(context, x, w.matrix, bias, residual, y, 0, 0, 1.0, ACT_NONE, 0, 0, 0.0, 0.0);
  return hipc_matmul_nbits(context, x, w.matrix, w.scales, w.zeros, bias, y, op.n, op.k, op.bits, op.block, 0, 0);
}

// y = activation(gate) * up + bias + residual; `up` may be missing.
int32_t combine(hipc_context *context, const Linear &op, const void *gate, const void *up) {
  Epilogue end{op.gated() ? address(op.bias) : nullptr, address(op.residual), 1.0f, 0.0f, 0.0f, op.activation};
  int64_t count = op.x->shape[0] * op.n;
  return launch(context, kernel_name("linear_combine", op.x->dtype), over(context, count), gate, up, op.y->data, end, count,
                op.n);
}

int32_t in_parts(hipc_context *context, const Linear &op) {
  int64_t rows = op.x->shape[0], size = element_size(op.x->dtype);
  int64_t normed_bytes = op.norm ? round_up(rows * op.k * size, 256) : 0, part = round_up(rows * op.n * size, 256);
  bool apart = op.gated() || (op.bits != 0 && op.residual);
  int64_t bytes = normed_bytes + (op.gated() ? 2 : apart ? 1 : 0) * part;
  char *scratch = bytes ? (char *)device_scratch(context, bytes) : nullptr;
  if (bytes && !scratch) return out_of_memory(context, OP);
  hipc_tensor normed = matrix_of(op.x, scratch, rows, op.k);
  const hipc_tensor *x = op.x;
  if (op.norm) {
    HIPC_TRY(hipc_rms_norm(context, op.x, op.norm, &normed, 1, op.epsilon));
    x = &normed;
  }
  if (!apart) return multiply(context, op, x, op.gate, op.bias, op.residual, op.y);
  hipc_tensor gate = matrix_of(op.x, scratch + normed_bytes, rows, op.n);
  hipc_tensor up = matrix_of(op.x, scratch + normed_bytes + part, rows, op.n);
  HIPC_TRY(multiply(context, op, x, op.gate, op.gated() ? nullptr : op.bias, nullptr, &gate));
  if (op.gated()) HIPC_TRY(multiply(context, op, x, op.up, nullptr, nullptr, &up));
  return combine(context, op, gate.data, op.gated() ? up.data : nullptr);
}

} // namespace

HIPC_EXPORT int32_t hipc_linear(hipc_context *context, const hipc_tensor *x, const hipc_tensor *norm,
                                const hipc_tensor *weight, const hipc_tensor *scales, const hipc_tensor *zeros,
                                const hipc_tensor *up, const hipc_tensor *up_scales, const hipc_tensor *up_zeros,
                                const hipc_tensor *bias, const hipc_tensor *residual, hipc_tensor *y, int64_t n, int64_t k,
                                int64_t bits, int64_t block, double epsilon, int64_t activation) {
  HIPC_TRY(check_contiguous(context, OP, x, norm, weight, scales, zeros, up, up_scales, up_zeros, bias, residual, y));
  if (x->dtype != F32 && x->dtype != F16 && x->dtype != BF16) return unsupported_dtype(context, OP, x->dtype);
  if (x->shape[1] != k || y->shape[0] != x->shape[0] || y->shape[1] != n || (residual && !same_shape(residual, y)) ||
      (norm && elements(norm) != k) || (bias && elements(bias) != n))
    return hipc_error(context, HIPC_ERROR_SHAPE, "linear: the shapes of x, y, norm, bias and residual do not agree");
  if (elements(y) == 0) return HIPC_OK;
  Linear op{x, norm, bias, residual, y, {weight, scales, zeros}, {up, up_scales, up_zeros}, n, k, bits, block, epsilon,
            ACTIVATIONS[activation]};
  return fits_one_kernel(op) ? one_kernel(context, op) : in_parts(context, op);
}
