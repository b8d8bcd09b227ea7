// hipc_matmul_nbits on GPUs: few rows read the weights once, more go through tiles that are unpacked in LDS, and many are
// worth unpacking all of them for the matrix library.
#include "gpu.h"
#include "shared/products.h"

using namespace hipc;

extern "C" int32_t hipc_matmul(hipc_context *, const hipc_tensor *, const hipc_tensor *, const hipc_tensor *,
                               const hipc_tensor *, hipc_tensor *, int64_t, int64_t, double, int64_t, int64_t, int64_t,
                               double, double);

namespace {

constexpr const char *OP = "matmul_nbits";
constexpr int64_t TILE = 64, FEW_ROWS = 4, MANY_ROWS = 32, MOST_UNPACKED = 512 << 20;

using Weights = QuantizedWeights;

int32_t wrong(hipc_context *context, const char *what, const hipc_tensor *tensor, int64_t expected) {
  return hipc_error(context, HIPC_ERROR_SHAPE, "matmul_nbits: %s has %lld elements of %s, expected %lld", what,
                    (long long)elements(tensor), dtype_name(tensor->dtype), (long long)expected);
}

bool is_half_or_float(int32_t dtype) { return dtype == F32 || dtype == F16 || dtype == BF16; }

KernelName name_of(int64_t bits, const char *variant, int32_t dtype) {
  return kernel_name(KernelName("matmul_nbits_b").append(bits).append("_").append(variant), dtype);
}

// Waves of a block that share rows of the weights: enough waves in all to keep the device reading.
int32_t split_of(hipc_context *context, int64_t row_groups, int64_t steps) {
  int64_t waves = 256 / wave_size(context), split = 1;
  while (split < waves && split < steps && row_groups * split < (int64_t)compute_units(context) * 32) split *= 2;
  return (int32_t)split;
}

// y = a w' + bias by way of w in a's type, [n, k].
int32_t multiply_unpacked(hipc_context *context, const hipc_tensor *a, const Weights &w, const hipc_tensor *bias,
                          hipc_tensor *y, int64_t bits) {
  hipc_tensor matrix{};
  matrix.data = device_unpacked(context, w.n * w.k * element_size(a->dtype));
  if (!matrix.data) return HIPC_ERROR_MEMORY;
  matrix.dtype = a->dtype, matrix.rank = 2;
  matrix.shape[0] = w.n, matrix.shape[1] = matrix.strides[0] = w.k, matrix.strides[1] = 1;
  HIPC_TRY(launch(context, name_of(bits, "unpack", a->dtype), over(context, w.n * ceil_div(w.k, (int64_t)8)), w, matrix.data));
  return hipc_matmul(context, a, &matrix, bias, nullptr, y, 0, 1, 1.0, 0, 0, 0, 0.0, 0.0);
}

int32_t run(hipc_context *context, const hipc_tensor *a, const Weights &w, const hipc_tensor *bias, hipc_tensor *y, int64_t m,
            int64_t bits) {
  const void *addend = bias ? bias->data : nullptr;
  int64_t row_bytes = w.blocks * w.block * bits / 8;
  bool fast = m <= FEW_ROWS && w.k % 8 == 0 && w.k < 0x7fffffff && row_bytes % 16 == 0 && w.scale_dtype == a->dtype &&
              (!w.zeros || w.zero_dtype == U8) && ((uintptr_t)a->data | (uintptr_t)w.bytes) % 16 == 0;
  if (fast) {
    int64_t rows_of_wave = m == 1 ? 2 : 1, groups = ceil_div(w.n, rows_of_wave);
    int32_t split = split_of(context, groups, ceil_div(row_bytes, (int64_t)wave_size(context) * 16));
    Launch grid;
    grid.block[0] = 256;
    grid.grid[0] = (uint32_t)ceil_div(groups, (int64_t)256 / wave_size(context) / split);
    return launch(context, name_of(bits, m == 1 ? "m1" : "m4", a->dtype), grid, a->data, w, addend, y->data, m, split);
  }
  // Eight numbers of a row are read at once.
  if (m > MANY_ROWS && (uintptr_t)w.bytes % 8 == 0 && w.n * w.k * element_size(a->dtype) <= MOST_UNPACKED)
    return multiply_unpacked(context, a, w, bias, y, bits);
  bool tiled = m > FEW_ROWS && (uintptr_t)w.bytes % 8 == 0;
  Launch grid = over(context, m * w.n * wave_size(context));
  if (tiled) {
    grid = Launch{};
    grid.block[0] = 256;
    grid.grid[0] = (uint32_t)(ceil_div(m, TILE) * ceil_div(w.n, TILE));
  }
  return launch(context, name_of(bits, tiled ? "tiled" : "any", a->dtype), grid, a->data, w, addend, y->data, m);
}

} // namespace

HIPC_EXPORT int32_t hipc_matmul_nbits(hipc_context *context, const hipc_tensor *a, const hipc_tensor *w,
                                      const hipc_tensor *scales, const hipc_tensor *zeros, const hipc_tensor *bias,
                                      hipc_tensor *y, int64_t n, int64_t k, int64_t bits, int64_t block, int64_t level,
                                      int64_t packed) {
  (void)level;  // of accuracy: products of float32 satisfy every one
  HIPC_TRY(check_contiguous(context, OP, a, w, scales, zeros, bias, y));
  if (!is_half_or_float(a->dtype) || y->dtype != a->dtype || (bias && bias->dtype != a->dtype))
    return unsupported_dtype(context, OP, a->dtype);
  if (packed) return hipc_error(context, HIPC_ERROR_UNSUPPORTED, "matmul_nbits: weights packed for the host");
  if ((bits != 2 && bits != 4 && bits != 8) || block < 16 || block % 16 || n <= 0 || k <= 0)
    return hipc_error(context, HIPC_ERROR_VALUE, "matmul_nbits: %lld bits in blocks of %lld, %lld x %lld", (long long)bits,
                      (long long)block, (long long)k, (long long)n);
  if (a->rank < 1 || a->shape[a->rank - 1] != k) return wrong(context, "a", a, k);
  int64_t m = extent(a, 0, a->rank - 1), blocks = ceil_div(k, block), cells = n * blocks;
  if (elements(y) != m * n) return wrong(context, "y", y, m * n);
  if (elements(w) * element_size(w->dtype) != cells * block * bits / 8)
    return wrong(context, "the weights", w, cells * block * bits / 8);
  if (elements(scales) != cells) return wrong(context, "scales", scales, cells);
  if (bias && elements(bias) != n) return wrong(context, "bias", bias, n);
  bool byte_zeros = zeros && element_size(zeros->dtype) == 1;
  int64_t expected_zeros = byte_zeros ? n * ceil_div(blocks * bits, (int64_t)8) : cells;
  if (zeros && elements(zeros) != expected_zeros) return wrong(context, "zero points", zeros, expected_zeros);
  if (!is_half_or_float(scales->dtype)) return unsupported_dtype(context, OP, scales->dtype);
  if (zeros && !byte_zeros && !is_half_or_float(zeros->dtype)) return unsupported_dtype(context, OP, zeros->dtype);
  if (m == 0) return HIPC_OK;
  Weights weights{data<uint8_t>(w), scales->data, zeros ? zeros->data : nullptr, n, k, block, blocks, scales->dtype,
                  byte_zeros || !zeros ? (int32_t)U8 : zeros->dtype};
  return run(context, a, weights, bias, y, m, bits);
}
