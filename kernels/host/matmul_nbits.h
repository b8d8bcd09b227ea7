// Products with a right-hand side of 2, 4 or 8 bits, in blocks along K that share a scale and a zero point.
#pragma once
#include "gemm.h"

namespace hipc {

// Columns of a strip of packed weights.
constexpr int STRIP = 16;

// Packed weights, made by hip_compiler/core/passes/pack_quantized.py:
//   words  [strips][blocks][block * bits / 32][STRIP] of 32 bits: field f of byte t of word g (from the lowest bits up)
//          belongs to k = g * 32 / bits + 4 * f + t of its block;
//   scales [strips][blocks][STRIP], and zeros of the same shape or NULL for 2^(bits - 1).
// The number of strips is even, so that two of them make a panel of the float32 product; what lies beyond N is zero.
struct PackedWeights {
  const uint8_t *words;
  const float *scales, *zeros;
  int64_t n, k, bits, block, blocks;

  int64_t strips() const { return ceil_div(n, PANEL) * 2; }
  int64_t block_bytes() const { return block * bits / 32 * STRIP * 4; }
  int64_t padded_k() const { return blocks * block; }
  const uint8_t *strip_words(int64_t strip) const { return words + strip * blocks * block_bytes(); }
  const float *strip_scales(int64_t strip) const { return scales + strip * blocks * STRIP; }
  const float *strip_zeros(int64_t strip) const { return zeros ? zeros + strip * blocks * STRIP : nullptr; }
};

// Rows of the left-hand side, one after the other.
struct LeftRows {
  const void *data;
  int32_t dtype;
};

// p.y = epilogue(a x w), on the threads of the context; p.a and p.b are not read. The scratch is as large as told.
int64_t quantized_scratch(hipc_context *context, const PackedWeights &w, int32_t dtype, const Product &p, int64_t level);
void multiply_quantized(hipc_context *context, const PackedWeights &w, const LeftRows &a, const Product &p, int64_t level,
                        char *scratch);

// Whether this CPU level multiplies 8-bit integers; the float32 kernels serve the others.
#if defined(__AVX512VNNI__) && defined(__AVX512BW__)
constexpr bool HAS_INT8_PRODUCT = true;
#else
constexpr bool HAS_INT8_PRODUCT = false;
#endif

// Rows of a rounded to 8 bits, a scale per block.
struct QuantizedRows {
  int8_t *values;  // [m][padded_k]
  float *scales;   // [m][blocks]
  int32_t *sums;   // [m][blocks], of the values
};

// One row of `w.padded_k()` floats into row m.
void quantize_row(const PackedWeights &w, const float *row, const QuantizedRows &to, int64_t m);

// tile[i][0..PANEL) = row (m + i) of the product for one panel, i < rows <= INT8_ROWS.
constexpr int INT8_ROWS = 8;
void int8_tile(const PackedWeights &w, const QuantizedRows &a, int64_t m, int64_t rows, int64_t panel, float *tile);

} // namespace hipc
