// The float32 matrix product that matmul and conv share: y = epilogue(a x b), with b in panels of 32 columns.
#pragma once
#include "hipc_simd.h"

namespace hipc {

// Columns of a panel: b is [ceil(N / 32)][K][32], zero-padded.
constexpr int PANEL = 32;

// In the order of ACTIVATIONS in hip_compiler/core/dialects/hip/matmul.py.
enum Activation : int32_t {
  ACT_NONE,
  ACT_RELU,
  ACT_GELU,
  ACT_GELU_TANH,
  ACT_SILU,
  ACT_SIGMOID,
  ACT_TANH,
  ACT_HARD_SWISH,
  ACT_HARD_SIGMOID,
  ACT_LEAKY_RELU,
  ACT_CLIP,
};

// y = activation(alpha * product + bias) + residual. Element type of all tensors: float32, float16 or bfloat16.
struct Epilogue {
  float alpha = 1;
  Activation activation = ACT_NONE;
  // Slope of leaky_relu; slope and offset of hard_sigmoid; bounds of clip.
  float activation_alpha = 0, activation_beta = 0;
  int32_t dtype = F32;
  // One value per column, or per row.
  const void *column_bias = nullptr, *row_bias = nullptr;
  // Like y.
  const void *residual = nullptr;
};

// One product of an [m, k] by a [k, n] matrix.
struct Product {
  int64_t m, n, k;
  const float *a;
  int64_t lda;
  // Row k of panel p starts at b + p * panel_stride + k * ldb.
  const float *b;
  int64_t panel_stride, ldb;
  void *y;
  int64_t ldy;
  Epilogue epilogue;
};

// Rows [m0, m1) and panels [p0, p1) of the product, on the calling thread.
void multiply_panels(const Product &product, int64_t m0, int64_t m1, int64_t p0, int64_t p1);

// Applies the epilogue to rows [m, m + rows), columns [n, n + columns) of the product, given in `tile` (row length `ld`),
// and stores them in y; the tile may lie in y itself. Rows of a tile outside y are touched up to a multiple of PANEL.
void finish(const Product &product, float *tile, int64_t ld, int64_t rows, int64_t columns, int64_t m, int64_t n);

// The whole product, on the threads of the context.
void multiply(hipc_context *context, const Product &product);

// Elements of any type of the epilogue as float.
void load_floats(int32_t dtype, const void *from, int64_t offset, int64_t count, float *to);
void store_floats(int32_t dtype, void *to, int64_t offset, int64_t count, const float *from);

// to[c * ldt + r] = from[r * ldf + c] for r < rows, c < columns.
void transpose(const float *from, int64_t ldf, float *to, int64_t ldt, int64_t rows, int64_t columns);

// A row length for copies of matrices with k columns that keeps rows off each other's cache sets.
inline int64_t padded_row(int64_t k) {
  int64_t row = round_up(max<int64_t>(k, 1), 16);
  return row % 256 == 0 ? row + 16 : row;
}

// Row lengths that put the rows of a tile on few cache sets.
inline bool rows_collide(int64_t ld) { return ld > 0 && ld * 4 % 1024 == 0; }

} // namespace hipc
