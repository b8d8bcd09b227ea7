// hipc_linear: a product of a decoder with its norm, its gate and its residual. With few rows one kernel does all of it;
// with more, the parts are worth launches of their own, and the product is the library's.
#include "../host/gemm.h"
#include "gpu.h"
#include "shared/products.h"

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
constexpr uint32_t BLOCK = 128;         // threads of linear.hip
constexpr uint32_t ROW_BLOCK = 256;     // threads of linear_row.hip
constexpr int64_t MOST_FACTORS = 8192;  // float32 in shared memory

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
  bool transposed;
  bool gated() const { return up.matrix != nullptr; }
};

// The words of LINEAR_ACTIVATIONS in hip_compiler/core/dialects/hip/linear.py.
constexpr int32_t ACTIVATIONS[] = {ACT_NONE, ACT_SILU, ACT_GELU, ACT_GELU_TANH};

const void *address(const hipc_tensor *tensor) { return tensor ? tensor->data : nullptr; }

bool fits_one_kernel(const Linear &op) {
  int64_t vector = 16 / element_size(op.x->dtype);
  const void *operands[] = {op.x->data, address(op.norm), op.gate.matrix->data, address(op.up.matrix)};
  bool aligned = true;
  for (const void *operand : operands) aligned = aligned && (uintptr_t)operand % 16 == 0;
  return aligned && op.transposed && op.bits == 0 && op.x->shape[0] <= FEW_ROWS && op.k % vector == 0;
}

// The operands from a row of x on.
LinearArguments operands_of(const Linear &op, int64_t row) {
  int64_t size = element_size(op.x->dtype);
  LinearArguments operands{};
  operands.x = (const char *)op.x->data + row * op.k * size;
  operands.norm = address(op.norm), operands.weight = op.gate.matrix->data, operands.up = address(op.up.matrix);
  operands.y = (char *)op.y->data + row * op.n * size;
  operands.end = ProductEnd{address(op.bias), nullptr, 1.0f, 0.0f, 0.0f, op.activation};
  if (op.residual) operands.end.residual = (const char *)op.residual->data + row * op.n * size;
  operands.n = (int32_t)op.n, operands.k = (int32_t)op.k, operands.epsilon = (float)op.epsilon;
  return operands;
}

int32_t row_kernel(hipc_context *context, const Linear &op, int64_t row) {
  // Waves share a row where there are too few rows to keep every compute unit reading, or rows are long.
  int64_t vectors = op.k * element_size(op.x->dtype) / 16;
  bool few = op.n < 64 * (int64_t)compute_units(context), longs = vectors >= 32 * wave_size(context);
  int64_t shared_by = op.gated() || !few ? 1 : longs && !op.norm ? 4 : 2;
  KernelName family("linear_row");
  family.append(op.norm ? "_norm" : "").append(op.gated() ? "_gated" : "");
  family.append(shared_by == 4 ? "_by4" : shared_by == 2 ? "_by2" : "");
  Launch grid;
  grid.block[0] = ROW_BLOCK;
  grid.grid[0] = (uint32_t)ceil_div(op.n * shared_by, (int64_t)ROW_BLOCK / wave_size(context));
  return launch(context, kernel_name(family, op.x->dtype), grid, operands_of(op, row));
}

int32_t one_kernel(hipc_context *context, const Linear &op) {
  int64_t waves = BLOCK / wave_size(context);
  // Two rows of weights a wave where every compute unit still has waves enough to hide what it waits for.
  int64_t rows_of_wave = !op.gated() && op.n >= 32 * (int64_t)compute_units(context) ? 2 : 1;
  for (int64_t row = 0; row < op.x->shape[0];) {
    int64_t left = op.x->shape[0] - row, rows = left >= 4 ? 4 : left >= 2 ? 2 : 1;
    if (rows == 1) return row_kernel(context, op, row);
    KernelName family(op.gated() ? "linear_gated_m" : rows_of_wave == 2 ? "linear_wide_m" : "linear_m");
    family.append(rows);
    LinearArguments operands = operands_of(op, row);
    operands.chunk = (int32_t)min(round_up(op.k, 8), MOST_FACTORS / rows);
    Launch grid;
    grid.grid[0] = (uint32_t)ceil_div(op.n, waves * rows_of_wave);
    grid.block[0] = BLOCK;
    grid.shared = (uint32_t)(rows * operands.chunk * (int64_t)sizeof(float));
    HIPC_TRY(launch(context, kernel_name(family, op.x->dtype), grid, operands));
    row += rows;
  }
  return HIPC_OK;
}

constexpr uint32_t QUANTISED_BLOCK = 256;

bool fits_quantised_kernel(const Linear &op) {
  const void *operands[] = {op.x->data, address(op.norm), op.gate.matrix->data, address(op.up.matrix)};
  bool aligned = true;
  for (const void *operand : operands) aligned = aligned && (uintptr_t)operand % 16 == 0;
  return aligned && op.x->shape[0] == 1 && op.x->dtype == F16 && op.bits == 4 && op.block == 32 && op.k % 32 == 0 &&
         op.gate.scales->dtype == F16 && !op.gate.zeros && op.k * 2 <= MOST_FACTORS * (int64_t)sizeof(float);
}

int32_t quantised_kernel(hipc_context *context, const Linear &op) {
  int64_t waves = QUANTISED_BLOCK / wave_size(context);
  bool wide = !op.gated() && op.n >= 32 * (int64_t)compute_units(context);
  QuantizedLinearArguments operands{op.x->data, address(op.norm), op.gate.matrix->data, address(op.up.matrix),
                             op.gate.scales->data, address(op.up.scales), op.y->data,
                             ProductEnd{address(op.bias), address(op.residual), 1.0f, 0.0f, 0.0f, op.activation},
                             (int32_t)op.n, (int32_t)(op.k / 32), (float)op.epsilon};
  Launch grid;
  grid.grid[0] = (uint32_t)ceil_div(op.n, waves * (wide ? 2 : 1));
  grid.block[0] = QUANTISED_BLOCK;
  grid.shared = (uint32_t)(op.k * 2);
  const char *family = op.gated() ? "linear_q4_gated" : wide ? "linear_q4_wide" : "linear_q4";
  return launch(context, kernel_name(family, F16), grid, operands);
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
    return hipc_matmul(context, x, w.matrix, bias, residual, y, 0, op.transposed, 1.0, ACT_NONE, 0, 0, 0.0, 0.0);
  return hipc_matmul_nbits(context, x, w.matrix, w.scales, w.zeros, bias, y, op.n, op.k, op.bits, op.block, 0, 0);
}

// y = activation(gate) * up + bias + residual; `up` may be missing.
int32_t combine(hipc_context *context, const Linear &op, const void *gate, const void *up) {
  ProductEnd end{op.gated() ? address(op.bias) : nullptr, address(op.residual), 1.0f, 0.0f, 0.0f, op.activation};
  int64_t count = op.x->shape[0] * op.n;
  int64_t vector = 16 / element_size(op.x->dtype);
  bool wide = op.n % vector == 0 && (uintptr_t)op.y->data % 16 == 0 && (uintptr_t)end.residual % 16 == 0;
  return launch(context, kernel_name(wide ? "linear_combine" : "linear_combine_each", op.x->dtype),
                over(context, wide ? count / vector : count), gate, up, op.y->data, end, count, op.n);
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
                                int64_t bits, int64_t block, double epsilon, int64_t activation,
                                int64_t transposed) {
  HIPC_TRY(check_contiguous(context, OP, x, norm, weight, scales, zeros, up, up_scales, up_zeros, bias, residual, y));
  if (x->dtype != F32 && x->dtype != F16 && x->dtype != BF16) return unsupported_dtype(context, OP, x->dtype);
  if (x->shape[1] != k || y->shape[0] != x->shape[0] || y->shape[1] != n || (residual && !same_shape(residual, y)) ||
      (norm && elements(norm) != k) || (bias && elements(bias) != n))
    return hipc_error(context, HIPC_ERROR_SHAPE, "linear: the shapes of x, y, norm, bias and residual do not agree");
  if (elements(y) == 0) return HIPC_OK;
  Linear op{x, norm, bias, residual, y, {weight, scales, zeros}, {up, up_scales, up_zeros}, n, k, bits, block, epsilon,
            ACTIVATIONS[activation], transposed != 0};
  if (fits_quantised_kernel(op)) return quantised_kernel(context, op);
  return fits_one_kernel(op) ? one_kernel(context, op) : in_parts(context, op);
}
