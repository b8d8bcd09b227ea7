// Products of 16 x 16 tiles by one wave, on the matrix instructions of the architecture: WMMA of gfx11 and gfx12, MFMA of
// gfx9, mma of sm_80; multiplications and additions elsewhere and for float32. Sums are float32.
#pragma once
#include "hipc_device.h"

namespace hipc {

#if defined(__GFX11__)
#define HIPC_MMA_WMMA11 1
#elif defined(__GFX12__)
#define HIPC_MMA_WMMA12 1
#elif defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx942__) || defined(__gfx950__) || defined(__gfx9_4_generic__)
#define HIPC_MMA_MFMA 1
#elif defined(HIPC_NVIDIA)
#define HIPC_MMA_PTX 1
#endif

// gfx908 has no such instruction for bfloat16 that takes four numbers a lane.
template <class T> constexpr bool has_mma =
#if defined(HIPC_MMA_MFMA) && defined(__gfx908__)
    same<T, f16>::value;
#elif defined(HIPC_MMA_WMMA11) || defined(HIPC_MMA_WMMA12) || defined(HIPC_MMA_MFMA) || defined(HIPC_MMA_PTX)
    is_half<T>;
#else
    false;
#endif

// A tile's sums, spread over the lanes of a wave: element i of a lane is at (row(i), column(i)).
struct Tile {
  static constexpr int COUNT = 256 / WAVE;
  f32 at[COUNT];

  __attribute__((device, always_inline)) static int row(int i) {
    int l = (int)lane();
#if defined(HIPC_MMA_WMMA12)
    return l / 16 * 8 + i;
#elif defined(HIPC_MMA_MFMA)
    return l / 16 * 4 + i;
#elif defined(HIPC_MMA_PTX)
    return l / 4 + (i & 2 ? 8 : 0);
#else
    return i * (int)(WAVE / 16) + l / 16;
#endif
  }
  __attribute__((device, always_inline)) static int column(int i) {
    int l = (int)lane();
#if defined(HIPC_MMA_PTX)
    return (i & 4 ? 8 : 0) + l % 4 * 2 + (i & 1);
#else
    (void)i;
    return l % 16;
#endif
  }
  __attribute__((device, always_inline)) void clear() {
    UNROLL for (int i = 0; i < COUNT; i++) at[i] = 0;
  }
};

#if defined(HIPC_MMA_PTX)
// Four matrices of 8 x 8 halves; lane l gives the address of row l % 8 of matrix l / 8. TRANSPOSED: of its column.
template <bool TRANSPOSED> DEVICE u32x4 load_matrices(const void *row) {
  u32x4 m;
  u32 at = (u32)(u64)(LdsPointer)row;
  if constexpr (TRANSPOSED)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3]) : "r"(at) : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3]) : "r"(at) : "memory");
  return m;
}
template <class T> DEVICE void mma_16x8(f32 *c, u32x4 a, u32 b0, u32 b1) {
  if constexpr (same<T, f16>::value)
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#endif

// 16 rows (or columns) of 16 elements along the depth, as the matrix instructions take them; all lanes of the wave have a
// part. Left and right operands look alike but on NVIDIA's, where the inner quarters have changed places. Without such
// instructions it stays where it is.
template <class T, bool MATRIX = has_mma<T>> struct Fragment {
  const T *from;
  int stride;
  __attribute__((device, always_inline)) f32 at(int row, int depth) const { return widen(from[row * stride + depth]); }
};
template <class T> struct Fragment<T, true> {
#if defined(HIPC_MMA_WMMA11)
  static constexpr int COUNT = 16;  // both halves of the wave hold the whole row
#elif defined(HIPC_MMA_MFMA)
  static constexpr int COUNT = 4;
#else
  static constexpr int COUNT = 8;
#endif
  alignas(COUNT * sizeof(T) < 16 ? COUNT * sizeof(T) : 16) T at[COUNT];
};

// From LDS, where rows of halves begin at multiples of 16 bytes.
template <class T> DEVICE Fragment<T> load_fragment(const T *from, int stride) {
  if constexpr (!has_mma<T>) {
    return {from, stride};
  } else {
    [[maybe_unused]] int l = (int)lane();
#if defined(HIPC_MMA_PTX)
    return bit_cast<Fragment<T>>(load_matrices<false>(from + l % 16 * stride + l / 16 * 8));
#elif defined(HIPC_MMA_WMMA11)
    return *(const Fragment<T> *)(from + l % 16 * stride);
#else
    return *(const Fragment<T> *)(from + l % 16 * stride + l / 16 * Fragment<T>::COUNT);
#endif
  }
}

// The same as the right operand.
template <class T> DEVICE Fragment<T> load_right(const T *from, int stride) {
#if defined(HIPC_MMA_PTX)
  // Registers of one instruction lie side by side.
  if constexpr (has_mma<T>) {
    int l = (int)lane();
    return bit_cast<Fragment<T>>(load_matrices<false>(from + (l % 8 + l / 16 * 8) * stride + l / 8 % 2 * 8));
  } else
#endif
    return load_fragment(from, stride);
}

// sums += a x b^T: rows of the tile are those of `a`, columns those of `b`. All lanes of the wave take part.
template <class T> DEVICE void multiply(Tile &sums, const Fragment<T> &a, const Fragment<T> &b) {
  if constexpr (!has_mma<T>) {
    // Elements lie as the matrix instructions of the architecture have them: on some a lane has several columns.
    _Pragma("unroll 4") for (int k = 0; k < 16; k++)
      UNROLL for (int i = 0; i < Tile::COUNT; i++)
        sums.at[i] += a.at(Tile::row(i), k) * b.at(Tile::column(i), k);
  } else {
    [[maybe_unused]] constexpr bool HALF = same<T, f16>::value;
#if defined(HIPC_MMA_PTX)
    u32x4 left = bit_cast<u32x4>(a), right = bit_cast<u32x4>(b);
    mma_16x8<T>(sums.at, left, right[0], right[1]);
    mma_16x8<T>(sums.at + 4, left, right[2], right[3]);
#else
    typedef f32 Sums __attribute__((ext_vector_type(Tile::COUNT)));
    [[maybe_unused]] typedef f16 Halves __attribute__((ext_vector_type(Fragment<T>::COUNT)));
    [[maybe_unused]] typedef i16 Words __attribute__((ext_vector_type(Fragment<T>::COUNT)));
    Sums c = bit_cast<Sums>(sums);
#if defined(HIPC_MMA_WMMA11)
    if constexpr (HALF) c = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(bit_cast<Halves>(a), bit_cast<Halves>(b), c);
    else c = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(bit_cast<Words>(a), bit_cast<Words>(b), c);
#elif defined(HIPC_MMA_WMMA12)
    if constexpr (HALF) c = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(bit_cast<Halves>(a), bit_cast<Halves>(b), c);
    else c = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(bit_cast<Words>(a), bit_cast<Words>(b), c);
#elif defined(HIPC_MMA_MFMA)
    if constexpr (HALF) c = __builtin_amdgcn_mfma_f32_16x16x16f16(bit_cast<Halves>(a), bit_cast<Halves>(b), c, 0, 0, 0);
#if !defined(__gfx908__)
    else c = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(bit_cast<Words>(a), bit_cast<Words>(b), c, 0, 0, 0);
#endif
#endif
    sums = bit_cast<Tile>(c);
#endif
  }
}
} // namespace hipc
