// y = a x ((w - zero) * scale) + bias with w of 2, 4 or 8 bits, as the model stores them: [n][blocks][block * bits / 8],
// lowest bits first; scales [n][blocks]; zero points packed like w, in the scales' place as numbers, or 2^(bits - 1).
#include "hipc_math.h"
#include "hipc_tiles.h"

using namespace hipc;

namespace {

constexpr int THREADS = 256, WAVES = THREADS / WAVE;

struct Weights {
  const u8 *bytes;
  const void *scales, *zeros;
  i64 n, k, block, blocks;
  // ONNX element types; that of zero points is u8 (2) when they are packed.
  i32 scale_dtype, zero_dtype;
};

DEVICE f32 number_of(const void *from, i32 dtype, i64 at) {
  switch (dtype) {
  case 10: return (f32)((const f16 *)from)[at];
  case 16: return (f32)((const bf16 *)from)[at];
  default: return ((const f32 *)from)[at];
  }
}
DEVICE f32 scale_of(const Weights &w, i64 row, i64 block) {
  return number_of(w.scales, w.scale_dtype, row * w.blocks + block);
}
template <int BITS> DEVICE f32 zero_of(const Weights &w, i64 row, i64 block) {
  if (!w.zeros) return (f32)(1 << (BITS - 1));
  if (w.zero_dtype != 2) return number_of(w.zeros, w.zero_dtype, row * w.blocks + block);
  i64 bits = block * BITS, stride = (w.blocks * BITS + 7) / 8;
  return (f32)(((const u8 *)w.zeros)[row * stride + bits / 8] >> (bits % 8) & ((1 << BITS) - 1));
}

// The 32 / BITS numbers of a word as floats.
template <int BITS> DEVICE void unpack(u32 word, f32 *to) {
#if defined(HIPC_AMD)
  // Bytes convert in one instruction.
  UNROLL for (int f = 0; f < 8 / BITS; f++) {
    u32 bytes = BITS == 8 ? word : word >> (BITS * f) & (0x01010101u * ((1 << BITS) - 1));
    UNROLL for (int i = 0; i < 4; i++) to[i * (8 / BITS) + f] = (f32)(bytes >> (8 * i) & 0xff);
  }
#else
  // 2^23 + q has q in its lowest bits.
  UNROLL for (int i = 0; i < 32 / BITS; i++)
    to[i] = bit_cast<f32>((word >> (BITS * i) & ((1u << BITS) - 1)) | 0x4b000000u) - 8388608.0f;
#endif
}


// ROWS columns of y by a wave for M rows of a; a lane takes COUNT numbers of a row at a time, 16 bytes where rows allow.
template <class T, int BITS, int COUNT, int M, int ROWS>
DEVICE void gemv(const T *a, const Weights &w, const T *bias, T *y, i32 split) {
  constexpr int CHUNKS = COUNT / 16, WORDS = COUNT * BITS / 32;
  SHARED f32 shared[WAVES][ROWS * M];
  int part = (int)wave() % split;
  i64 first = ((i64)block() * (WAVES / split) + wave() / split) * ROWS, padded = w.blocks * w.block;
  i64 row_bytes = padded * BITS / 8;
  bool whole = w.k % 8 == 0 && is_aligned(a, 16);
  f32 sums[ROWS][M] = {};
  i64 step = (i64)split * WAVE * COUNT;
  for (i64 at = ((i64)part * WAVE + lane()) * COUNT; at < padded; at += step) {
    u32 words[ROWS][WORDS];
    UNROLL for (int r = 0; r < ROWS; r++) {
      auto loaded = load_once<u32, WORDS>((const u32 *)(w.bytes + min(first + r, w.n - 1) * row_bytes + at * BITS / 8));
      UNROLL for (int i = 0; i < WORDS; i++) words[r][i] = loaded[i];
    }
    UNROLL for (int c = 0; c < CHUNKS; c++) {
      f32 x[M][16], total[M];
      UNROLL for (int m = 0; m < M; m++) {
        total[m] = 0;
        UNROLL for (int i = 0; i < 16; i += 8) {
          i64 from = at + c * 16 + i;
          if (whole && from < w.k) {
            constexpr int PART = LANE_VECTOR<T>;
            UNROLL for (int j = 0; j < 8; j += PART) {
              auto vector = load<T, PART>(a + m * w.k + from + j);
              UNROLL for (int v = 0; v < PART; v++) x[m][i + j + v] = widen(vector[v]);
            }
          } else {
            UNROLL for (int j = 0; j < 8; j++) x[m][i + j] = from + j < w.k ? widen(a[m * w.k + from + j]) : 0;
          }
        }
        UNROLL for (int i = 0; i < 16; i++) total[m] += x[m][i];
      }
      i64 block = (i64)((u32)(at + c * 16) / (u32)w.block);
      UNROLL for (int r = 0; r < ROWS; r++) {
        i64 row = min(first + r, w.n - 1);
        f32 scale = scale_of(w, row, block), zero = zero_of<BITS>(w, row, block), q[16];
        UNROLL for (int i = 0; i < BITS / 2; i++) unpack<BITS>(words[r][c * (BITS / 2) + i], q + i * (32 / BITS));
        UNROLL for (int m = 0; m < M; m++) {
          f32 sum = -zero * total[m];
          UNROLL for (int i = 0; i < 16; i++) sum += q[i] * x[m][i];
          sums[r][m] += scale * sum;
        }
      }
    }
  }
  UNROLL for (int r = 0; r < ROWS; r++) {
    UNROLL for (int m = 0; m < M; m++) sums[r][m] = sum_lanes(sums[r][m]);
  }
  if (split > 1) {
    if (lane() == 0) {
      UNROLL for (int r = 0; r < ROWS; r++) {
        UNROLL for (int m = 0; m < M; m++) shared[wave()][r * M + m] = sums[r][m];
      }
    }
    barrier();
    if (part != 0) return;
    UNROLL for (int r = 0; r < ROWS; r++) {
      UNROLL for (int m = 0; m < M; m++) {
        for (int other = 1; other < split; other++) sums[r][m] += shared[wave() + other][r * M + m];
      }
    }
  }
  UNROLL for (int r = 0; r < ROWS; r++) {
    UNROLL for (int m = 0; m < M; m++) {
      if ((int)lane() == r * M + m && first + r < w.n)
        y[m * w.n + first + r] = narrow<T>(sums[r][m] + (bias ? widen(bias[first + r]) : 0.0f));
    }
  }
}

// The right-hand side of the tiled product: EACH numbers of one block, as elements.
template <class T, int BITS> struct Unpacked {
  const Weights &w;

  __attribute__((device, always_inline)) Vector<T, EACH> fetch(i64 first_row, i64 first_depth, i64 end_depth) const {
    Vector<T, EACH> value;
    i64 row = first_row + tile_row(), depth = first_depth + tile_depth();
    UNROLL for (int i = 0; i < EACH; i++) value[i] = (T)0.0f;
    if (row >= w.n || depth >= end_depth) return value;
    i64 block = depth / w.block;
    f32 scale = scale_of(w, row, block), zero = zero_of<BITS>(w, row, block);
    const u8 *from = w.bytes + row * (w.blocks * w.block * BITS / 8) + depth * BITS / 8;
    u32 bits[2] = {};
    if constexpr (BITS == 2) bits[0] = *(const u16 *)from;
    else if constexpr (BITS == 4) bits[0] = *(const u32 *)from;
    else bits[0] = ((const u32 *)from)[0], bits[1] = ((const u32 *)from)[1];
    UNROLL for (int i = 0; i < EACH; i++) {
      u32 q = bits[i * BITS / 32] >> (i * BITS % 32) & ((1u << BITS) - 1);
      if (depth + i < end_depth) value[i] = narrow<T>(((f32)q - zero) * scale);
    }
    return value;
  }
  __attribute__((device, always_inline)) void put(T (*tile)[DEPTH + PAD], const Vector<T, EACH> &value) const {
    put_along_depth(tile, value);
  }
};

template <class T, int BITS> DEVICE void gemm(const T *a, const Weights &w, const T *bias, T *y, i64 m) {
  i64 across = ceil_div(w.n, (i64)TILE), first_row = block() / across * TILE, first_column = block() % across * TILE;
  Operand<T> A{a, m, w.k, 1, w.k % EACH == 0 && is_aligned(a, 16)};
  multiply_tiles<T>(A, Unpacked<T, BITS>{w}, first_row, first_column, w.k, [=](i64 row, i64 column, f32 sum) {
    if (row < m && column < w.n) y[row * w.n + column] = narrow<T>(sum + (bias ? widen(bias[column]) : 0.0f));
  });
}

} // namespace

#define GEMV(WORD, T, BITS, M, ROWS)                                                                                   \
  KERNEL(256) matmul_nbits_b##BITS##_m##M##_r##ROWS##_##WORD(const T *a, Weights w, const T *bias, T *y, i32 split) {  \
    gemv<T, BITS, 128 / BITS, M, ROWS>(a, w, bias, y, split);                                                          \
  }
#define DEFINE_BITS(WORD, T, BITS)                                                                                     \
  GEMV(WORD, T, BITS, 1, 1) GEMV(WORD, T, BITS, 1, 2) GEMV(WORD, T, BITS, 2, 2) GEMV(WORD, T, BITS, 4, 1)              \
  KERNEL(256) matmul_nbits_b##BITS##_narrow_##WORD(const T *a, Weights w, const T *bias, T *y, i32 split) {            \
    gemv<T, BITS, 16, 1, 1>(a, w, bias, y, split);                                                                     \
  }                                                                                                                    \
  KERNEL(256) matmul_nbits_b##BITS##_tiled_##WORD(const T *a, Weights w, const T *bias, T *y, i64 m) {                 \
    gemm<T, BITS>(a, w, bias, y, m);                                                                                   \
  }
#define DEFINE(WORD, T) DEFINE_BITS(WORD, T, 2) DEFINE_BITS(WORD, T, 4) DEFINE_BITS(WORD, T, 8)
HIPC_FLOATS(DEFINE)
