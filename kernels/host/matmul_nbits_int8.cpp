// The 8-bit integer kernels of hip.matmul_nbits: activations rounded block by block, as accuracy level 4 allows.
#include "matmul_nbits.h"

#if defined(__AVX512VNNI__) && defined(__AVX512BW__)
#include <immintrin.h>

using namespace hipc;

namespace {

// Sums of one block for ROWS rows and one strip: integers exact, then scaled.
template <int BITS, int ROWS, bool ZEROS>
__attribute__((noinline)) void strip_kernel(const PackedWeights &w, const QuantizedRows &a, int64_t m, int64_t strip,
                                            float *tile) {
  constexpr int FIELDS = 8 / BITS;
  const __m512i mask = _mm512_set1_epi8((char)((1 << BITS) - 1));
  const int64_t words = w.block * BITS / 32, blocks = w.blocks, row = w.padded_k();
  const uint8_t *word = w.strip_words(strip);
  const float *scale = w.strip_scales(strip), *zero = w.strip_zeros(strip);
  const int8_t *values = a.values + m * row;
  const float *scales = a.scales + m * blocks;
  const int32_t *sums = a.sums + m * blocks;
  __m512 total[ROWS];
  for (int i = 0; i < ROWS; i++) total[i] = _mm512_setzero_ps();
  for (int64_t b = 0; b < blocks; b++) {
    __m512i dot[ROWS];
    for (int i = 0; i < ROWS; i++)
      dot[i] = ZEROS ? _mm512_setzero_si512() : _mm512_set1_epi32(-(1 << (BITS - 1)) * sums[i * blocks + b]);
    const int8_t *at = values + b * w.block;
#pragma clang loop unroll_count(4)
    for (int64_t g = 0; g < words; g++, word += 64, at += 4 * FIELDS) {
      __m512i packed = _mm512_loadu_si512(word);
      _mm_prefetch((const char *)word + 2048, _MM_HINT_T0);
#pragma clang loop unroll(full)
      for (int f = 0; f < FIELDS; f++) {
        __m512i field = BITS == 8 ? packed : _mm512_and_si512(f ? _mm512_srli_epi16(packed, BITS * f) : packed, mask);
#pragma clang loop unroll(full)
        for (int i = 0; i < ROWS; i++) {
          int32_t four;
          memcpy(&four, at + i * row + 4 * f, 4);
          dot[i] = _mm512_dpbusd_epi32(dot[i], field, _mm512_set1_epi32(four));
        }
      }
    }
    __m512 by = _mm512_loadu_ps(scale + b * STRIP), offset = ZEROS ? _mm512_loadu_ps(zero + b * STRIP) : by;
    for (int i = 0; i < ROWS; i++) {
      __m512 sum = _mm512_cvtepi32_ps(dot[i]);
      if (ZEROS) sum = _mm512_fnmadd_ps(offset, _mm512_set1_ps((float)sums[i * blocks + b]), sum);
      total[i] = _mm512_fmadd_ps(_mm512_mul_ps(by, _mm512_set1_ps(scales[i * blocks + b])), sum, total[i]);
    }
  }
  for (int i = 0; i < ROWS; i++) _mm512_storeu_ps(tile + i * PANEL, total[i]);
}

// One row and both strips of a panel: four chains of sums hide the latency of the multiply-add.
template <int BITS, bool ZEROS>
__attribute__((noinline)) void row_kernel(const PackedWeights &w, const QuantizedRows &a, int64_t m, int64_t panel,
                                          float *tile) {
  constexpr int FIELDS = 8 / BITS;
  const __m512i mask = _mm512_set1_epi8((char)((1 << BITS) - 1));
  const int64_t words = w.block * BITS / 32, blocks = w.blocks;
  const uint8_t *word[2] = {w.strip_words(2 * panel), w.strip_words(2 * panel + 1)};
  const float *scale[2] = {w.strip_scales(2 * panel), w.strip_scales(2 * panel + 1)};
  const float *zero[2] = {w.strip_zeros(2 * panel), w.strip_zeros(2 * panel + 1)};
  const int8_t *at = a.values + m * w.padded_k();
  const float *scales = a.scales + m * blocks;
  const int32_t *sums = a.sums + m * blocks;
  __m512 total[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
  for (int64_t b = 0; b < blocks; b++) {
    __m512i dot[2][2];
    for (int s = 0; s < 2; s++) {
      dot[s][0] = ZEROS ? _mm512_setzero_si512() : _mm512_set1_epi32(-(1 << (BITS - 1)) * sums[b]);
      dot[s][1] = _mm512_setzero_si512();
    }
#pragma clang loop unroll_count(4)
    for (int64_t g = 0; g < words; g++, at += 4 * FIELDS) {
#pragma clang loop unroll(full)
      for (int s = 0; s < 2; s++) {
        __m512i packed = _mm512_loadu_si512(word[s]);
        _mm_prefetch((const char *)word[s] + 2048, _MM_HINT_T0);
        word[s] += 64;
#pragma clang loop unroll(full)
        for (int f = 0; f < FIELDS; f++) {
          __m512i field = BITS == 8 ? packed : _mm512_and_si512(f ? _mm512_srli_epi16(packed, BITS * f) : packed, mask);
          int32_t four;
          memcpy(&four, at + 4 * f, 4);
          int chain = FIELDS == 1 ? (int)(g & 1) : f & 1;
          dot[s][chain] = _mm512_dpbusd_epi32(dot[s][chain], field, _mm512_set1_epi32(four));
        }
      }
    }
    __m512 own = _mm512_set1_ps(scales[b]);
    for (int s = 0; s < 2; s++) {
      __m512 sum = _mm512_cvtepi32_ps(_mm512_add_epi32(dot[s][0], dot[s][1]));
      if (ZEROS) sum = _mm512_fnmadd_ps(_mm512_loadu_ps(zero[s] + b * STRIP), _mm512_set1_ps((float)sums[b]), sum);
      total[s] = _mm512_fmadd_ps(_mm512_mul_ps(own, _mm512_loadu_ps(scale[s] + b * STRIP)), sum, total[s]);
    }
  }
  for (int s = 0; s < 2; s++) _mm512_storeu_ps(tile + s * STRIP, total[s]);
}

using Kernel = void (*)(const PackedWeights &, const QuantizedRows &, int64_t, int64_t, float *);

template <int BITS, bool ZEROS>
void tile_with(const PackedWeights &w, const QuantizedRows &a, int64_t m, int64_t rows, int64_t panel, float *tile) {
  static constexpr Kernel kernels[INT8_ROWS] = {
      nullptr,
      strip_kernel<BITS, 2, ZEROS>, strip_kernel<BITS, 3, ZEROS>, strip_kernel<BITS, 4, ZEROS>,
      strip_kernel<BITS, 5, ZEROS>, strip_kernel<BITS, 6, ZEROS>, strip_kernel<BITS, 7, ZEROS>,
      strip_kernel<BITS, 8, ZEROS>,
  };
  if (rows == 1) return row_kernel<BITS, ZEROS>(w, a, m, panel, tile);
  for (int strip = 0; strip < 2; strip++) kernels[rows - 1](w, a, m, 2 * panel + strip, tile + strip * STRIP);
}

} // namespace

void hipc::quantize_row(const PackedWeights &w, const float *row, const QuantizedRows &to, int64_t m) {
  int8_t *values = to.values + m * w.padded_k();
  for (int64_t b = 0; b < w.blocks; b++) {
    const float *x = row + b * w.block;
    __m512 most = _mm512_setzero_ps();
    __mmask16 nan = 0;
    for (int64_t i = 0; i < w.block; i += 16) {
      __m512 value = _mm512_loadu_ps(x + i);
      most = _mm512_max_ps(most, _mm512_abs_ps(value));
      nan |= _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
    }
    float limit = _mm512_reduce_max_ps(most), by = limit > 0 ? 127 / limit : 0;
    __m512i sum = _mm512_setzero_si512();
    for (int64_t i = 0; i < w.block; i += 16) {
      __m512i rounded = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x + i), _mm512_set1_ps(by)));
      sum = _mm512_add_epi32(sum, rounded);
      _mm_storeu_si128((__m128i *)(values + b * w.block + i), _mm512_cvtsepi32_epi8(rounded));
    }
    // A NaN has no integer: the scale keeps it.
    to.scales[m * w.blocks + b] = nan ? __builtin_nanf("") : limit / 127;
    to.sums[m * w.blocks + b] = _mm512_reduce_add_epi32(sum);
  }
}

void hipc::int8_tile(const PackedWeights &w, const QuantizedRows &a, int64_t m, int64_t rows, int64_t panel, float *tile) {
  if (w.bits == 2) return w.zeros ? tile_with<2, true>(w, a, m, rows, panel, tile) : tile_with<2, false>(w, a, m, rows, panel, tile);
  if (w.bits == 4) return w.zeros ? tile_with<4, true>(w, a, m, rows, panel, tile) : tile_with<4, false>(w, a, m, rows, panel, tile);
  return w.zeros ? tile_with<8, true>(w, a, m, rows, panel, tile) : tile_with<8, false>(w, a, m, rows, panel, tile);
}
#endif
