// y = a x ((w - zero) * scale) + bias with w of 2, 4 or 8 bits, as the model stores them: [n][blocks][block * bits / 8],
// lowest bits first; scales [n][blocks]; zero points packed like w, in the scales' place as numbers, or 2^(bits - 1).
#include "hipc_math.h"
#include "hipc_mixed.h"
#include "hipc_tiles.h"

using namespace hipc;

namespace {

constexpr int THREADS = 256, WAVES = THREADS / WAVE;

using Weights = QuantizedWeights;

DEVICE f32 scale_of(const Weights &w, i64 row, i64 block) {
  return mixed_at(w.scales, w.scale_dtype, row * w.blocks + block);
}
// Zero points as the fast kernels take them: packed, or the middle.
template <int BITS> DEVICE f32 packed_zero(const Weights &w, i64 row, i64 block) {
  if (!w.zeros) return (f32)(1 << (BITS - 1));
  i64 bits = block * BITS, stride = (w.blocks * BITS + 7) / 8;
  return (f32)(((const u8 *)w.zeros)[row * stride + bits / 8] >> (bits % 8) & ((1 << BITS) - 1));
}

template <int BITS> DEVICE f32 zero_of(const Weights &w, i64 row, i64 block) {
  if (w.zeros && w.zero_dtype != 2) return mixed_at(w.zeros, w.zero_dtype, row * w.blocks + block);
  return packed_zero<BITS>(w, row, block);
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


// Sums of the waves that share a row of the weights, in the first of them.
template <int COUNT> DEVICE void add_waves(f32 *sums, int split, int part) {
  SHARED f32 shared[WAVES][COUNT];
  if (lane() == 0) {
    UNROLL for (int i = 0; i < COUNT; i++) shared[wave()][i] = sums[i];
  }
  barrier();
  if (part != 0) return;
  for (int other = 1; other < split; other++) {
    UNROLL for (int i = 0; i < COUNT; i++) sums[i] += shared[wave() + other][i];
  }
}

// ROWS columns of y by a wave for M rows of a; a lane takes 16 bytes of a row at a time. Scales have a's type, zero points
// are packed, k is a multiple of 8, and rows of the weights of 16 bytes.
template <class T, int BITS, int M, int ROWS>
DEVICE void gemv(const T *a, const Weights &w, const T *bias, T *y, i64 m, i32 split) {
  // Four rows by 64 numbers would not fit the registers.
  constexpr int COUNT = BITS == 2 && M > 1 ? 32 : 128 / BITS, WORDS = COUNT * BITS / 32, PART = LANE_VECTOR<T>;
  int part = (int)wave() % split;
  i64 first = ((i64)block() * (WAVES / split) + wave() / split) * ROWS, padded = w.blocks * w.block;
  i64 row_bytes = padded * BITS / 8, step = (i64)split * WAVE * COUNT;
  f32 sums[ROWS * M] = {};
  for (i64 at = ((i64)part * WAVE + lane()) * COUNT; at < padded; at += step) {
    Vector<u32, WORDS> words[ROWS];
    UNROLL for (int r = 0; r < ROWS; r++)
      words[r] = load_once<u32, WORDS>((const u32 *)(w.bytes + min(first + r, w.n - 1) * row_bytes + at * BITS / 8));
    UNROLL for (int c = 0; c < COUNT / 16; c++) {
      i64 from = at + c * 16, block = (i64)((u32)from / (u32)w.block);
      f32 x[M][16], total[M] = {};
      UNROLL for (int i = 0; i < 16; i += PART) {
        UNROLL for (int r = 0; r < M; r++) {
          // What lies beyond k has weights of no meaning; rows beyond m read the last one again.
          Vector<T, PART> vector = {};
          if (from + i < w.k) vector = load<T, PART>(a + min((i64)r, m - 1) * w.k + from + i);
          UNROLL for (int v = 0; v < PART; v++) x[r][i + v] = widen(vector[v]), total[r] += x[r][i + v];
        }
      }
      UNROLL for (int r = 0; r < ROWS; r++) {
        i64 row = min(first + r, w.n - 1);
        f32 scale = widen(((const T *)w.scales)[row * w.blocks + block]), zero = packed_zero<BITS>(w, row, block), q[16];
        UNROLL for (int i = 0; i < BITS / 2; i++) unpack<BITS>(words[r][c * (BITS / 2) + i], q + i * (32 / BITS));
        UNROLL for (int k = 0; k < M; k++) {
          f32 sum = -zero * total[k];
          UNROLL for (int i = 0; i < 16; i++) sum += q[i] * x[k][i];
          sums[r * M + k] += scale * sum;
        }
      }
    }
  }
  UNROLL for (int i = 0; i < ROWS * M; i++) sums[i] = sum_lanes(sums[i]);
  if (split > 1) {
    add_waves<ROWS * M>(sums, split, part);
    if (part != 0) return;
  }
  f32 own = 0;
  UNROLL for (int i = 0; i < ROWS * M; i++) own = (int)lane() == i ? sums[i] : own;
  i64 row = first + lane() / M, line = lane() % M;
  if (lane() < ROWS * M && row < w.n && line < m) y[line * w.n + row] = narrow<T>(own + (bias ? widen(bias[row]) : 0.0f));
}

// Any block, type of scales and zero points, and alignment: a wave an element of y.
template <class T, int BITS> DEVICE void gemv_any(const T *a, const Weights &w, const T *bias, T *y, i64 m) {
  i64 row_bytes = w.blocks * w.block * BITS / 8;
  for (i64 at = (i64)block() * WAVES + wave(); at < m * w.n; at += (i64)blocks() * WAVES) {
    i64 line = quotient(at, w.n), row = at - line * w.n;
    f32 sum = 0;
    for (i64 k = lane(); k < w.k; k += WAVE) {
      i64 block = quotient(k, w.block);
      f32 q = (f32)(w.bytes[row * row_bytes + k * BITS / 8] >> (k * BITS % 8) & ((1 << BITS) - 1));
      sum += (q - zero_of<BITS>(w, row, block)) * scale_of(w, row, block) * widen(a[line * w.k + k]);
    }
    sum = sum_lanes(sum);
    if (lane() == 0) y[at] = narrow<T>(sum + (bias ? widen(bias[row]) : 0.0f));
  }
}

// Eight numbers of a row from `depth` on, all of one block, as elements; zeros from `end` on.
template <class T, int BITS> DEVICE Vector<T, EACH> eight_of(const Weights &w, i64 row, i64 depth, i64 end) {
  static_assert(EACH == 8, "as many numbers as are read at once");
  Vector<T, EACH> value;
  i64 block = quotient(depth, w.block);
  f32 scale = scale_of(w, row, block), zero = zero_of<BITS>(w, row, block);
  const u8 *from = w.bytes + row * (w.blocks * w.block * BITS / 8) + depth * BITS / 8;
  u32 bits[2] = {};
  if constexpr (BITS == 2) bits[0] = *(const u16 *)from;
  else if constexpr (BITS == 4) bits[0] = *(const u32 *)from;
  else bits[0] = ((const u32 *)from)[0], bits[1] = ((const u32 *)from)[1];
  UNROLL for (int i = 0; i < EACH; i++) {
    u32 q = bits[i * BITS / 32] >> (i * BITS % 32) & ((1u << BITS) - 1);
    value[i] = depth + i < end ? narrow<T>(((f32)q - zero) * scale) : (T)0.0f;
  }
  return value;
}

// All of the weights as elements, [n][k].
template <class T, int BITS> DEVICE void unpack_all(const Weights &w, T *to) {
  u32 across = (u32)ceil_div(w.k, (i64)EACH);
  bool whole = w.k % EACH == 0;
  for (i64 i = global_thread(); i < w.n * across; i += global_threads()) {
    i64 row = quotient(i, across), depth = (i - row * across) * EACH;
    Vector<T, EACH> value = eight_of<T, BITS>(w, row, depth, w.k);
    T *place = to + row * w.k + depth;
    constexpr int PART = LANE_VECTOR<T>;
    if (whole) {
      UNROLL for (int at = 0; at < EACH; at += PART) {
        Vector<T, PART> part;
        UNROLL for (int j = 0; j < PART; j++) part[j] = value[at + j];
        store<T, PART>(place + at, part);
      }
    } else {
      UNROLL for (int j = 0; j < EACH; j++)
        if (depth + j < w.k) place[j] = value[j];
    }
  }
}

// The right-hand side of the tiled product: EACH numbers of one block, as elements.
template <class T, int BITS> struct Unpacked {
  const Weights &w;

  __attribute__((device, always_inline)) Vector<T, EACH> fetch(i64 first_row, i64 first_depth, i64 end_depth) const {
    i64 row = first_row + tile_row(), depth = first_depth + tile_depth();
    if (row < w.n && depth < end_depth) return eight_of<T, BITS>(w, row, depth, end_depth);
    Vector<T, EACH> value;
    UNROLL for (int i = 0; i < EACH; i++) value[i] = (T)0.0f;
    return value;
  }
  __attribute__((device, always_inline)) void put(T (*tile)[PITCH<T>], const Vector<T, EACH> &value) const {
    put_along_depth(tile, value);
  }
};

template <class T, int BITS> DEVICE void gemm(const T *a, const Weights &w, const T *bias, T *y, i64 m) {
  u32 across = (u32)ceil_div(w.n, (i64)TILE);
  i64 first_row = (i64)(block() / across) * TILE, first_column = (i64)(block() % across) * TILE;
  Operand<T> A{a, m, w.k, 1, w.k % EACH == 0 && is_aligned(a, 16)};
  multiply_tiles<T>(A, Unpacked<T, BITS>{w}, first_row, first_column, w.k, [=](i64 row, i64 column, f32 sum) {
    if (row < m && column < w.n) y[row * w.n + column] = narrow<T>(sum + (bias ? widen(bias[column]) : 0.0f));
  });
}

} // namespace

#define GEMV(WORD, T, BITS, M, ROWS)                                                                                   \
  KERNEL(256) matmul_nbits_b##BITS##_m##M##_##WORD(const T *a, Weights w, const T *bias, T *y, i64 m, i32 split) {     \
    gemv<T, BITS, M, ROWS>(a, w, bias, y, m, split);                                                                   \
  }
#define DEFINE_BITS(WORD, T, BITS)                                                                                     \
  GEMV(WORD, T, BITS, 1, 2) GEMV(WORD, T, BITS, 4, 1)                                                                  \
  KERNEL(256) matmul_nbits_b##BITS##_any_##WORD(const T *a, Weights w, const T *bias, T *y, i64 m) {                   \
    gemv_any<T, BITS>(a, w, bias, y, m);                                                                               \
  }                                                                                                                    \
  KERNEL(256) matmul_nbits_b##BITS##_unpack_##WORD(Weights w, T *to) { unpack_all<T, BITS>(w, to); }                   \
  KERNEL(256) matmul_nbits_b##BITS##_tiled_##WORD(const T *a, Weights w, const T *bias, T *y, i64 m) {                 \
    gemm<T, BITS>(a, w, bias, y, m);                                                                                   \
  }
#define DEFINE(WORD, T) DEFINE_BITS(WORD, T, 2) DEFINE_BITS(WORD, T, 4) DEFINE_BITS(WORD, T, 8)
HIPC_FLOATS(DEFINE)
