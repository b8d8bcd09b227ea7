// Products of 16 x 16 tiles in LDS by one wave, on the matrix instructions of the architecture: WMMA of gfx11 and gfx12,
// MFMA of gfx9, mma of sm_80; multiplications and additions elsewhere and for float32. Sums are float32.
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
template <class T> DEVICE void mma_16x8(f32 *c, const u32 *a, const u32 *b) {
  if constexpr (same<T, f16>::value)
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif

// sums += a x b^T: `a` has 16 rows and `b` 16 columns, both of 16 elements along the depth; rows of halves begin at
// multiples of 16 bytes. All lanes of the wave take part.
template <class T> DEVICE void multiply_tile(Tile &sums, const T *a, int lda, const T *b, int ldb) {
  [[maybe_unused]] int l = (int)lane();
  if constexpr (!has_mma<T>) {
    // Elements lie as the matrix instructions of the architecture have them: on some a lane has several columns.
    _Pragma("unroll 4") for (int k = 0; k < 16; k++)
      UNROLL for (int i = 0; i < Tile::COUNT; i++)
        sums.at[i] += widen(a[Tile::row(i) * lda + k]) * widen(b[Tile::column(i) * ldb + k]);
  } else {
#if defined(HIPC_MMA_WMMA11)
    typedef f32 v8f __attribute__((ext_vector_type(8)));
    struct alignas(16) Row { T at[16]; };
    Row left = *(const Row *)(a + l % 16 * lda), right = *(const Row *)(b + l % 16 * ldb);
    v8f c = __builtin_bit_cast(v8f, sums);
    if constexpr (same<T, f16>::value) {
      typedef f16 v16h __attribute__((ext_vector_type(16)));
      c = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(bit_cast<v16h>(left), bit_cast<v16h>(right), c);
    } else {
      typedef i16 v16s __attribute__((ext_vector_type(16)));
      c = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(bit_cast<v16s>(left), bit_cast<v16s>(right), c);
    }
    UNROLL for (int i = 0; i < 8; i++) sums.at[i] = c[i];
#elif defined(HIPC_MMA_WMMA12)
    typedef f32 v8f __attribute__((ext_vector_type(8)));
    auto left = load<T, 8>(a + l % 16 * lda + l / 16 * 8), right = load<T, 8>(b + l % 16 * ldb + l / 16 * 8);
    v8f c = __builtin_bit_cast(v8f, sums);
    if constexpr (same<T, f16>::value) {
      typedef f16 v8h __attribute__((ext_vector_type(8)));
      c = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(bit_cast<v8h>(left), bit_cast<v8h>(right), c);
    } else {
      typedef i16 v8s __attribute__((ext_vector_type(8)));
      c = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(bit_cast<v8s>(left), bit_cast<v8s>(right), c);
    }
    UNROLL for (int i = 0; i < 8; i++) sums.at[i] = c[i];
#elif defined(HIPC_MMA_MFMA)
    typedef f32 v4f __attribute__((ext_vector_type(4)));
    auto left = load<T, 4>(a + l % 16 * lda + l / 16 * 4), right = load<T, 4>(b + l % 16 * ldb + l / 16 * 4);
    v4f c = __builtin_bit_cast(v4f, sums);
    if constexpr (same<T, f16>::value) {
      typedef f16 v4h __attribute__((ext_vector_type(4)));
      c = __builtin_amdgcn_mfma_f32_16x16x16f16(bit_cast<v4h>(left), bit_cast<v4h>(right), c, 0, 0, 0);
    } else {
#if !defined(__gfx908__)
      typedef i16 v4s __attribute__((ext_vector_type(4)));
      c = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(bit_cast<v4s>(left), bit_cast<v4s>(right), c, 0, 0, 0);
#endif
    }
    UNROLL for (int i = 0; i < 4; i++) sums.at[i] = c[i];
#elif defined(HIPC_MMA_PTX)
    const T *row = a + l / 4 * lda + l % 4 * 2, *column = b + l / 4 * ldb + l % 4 * 2;
    u32 left[4] = {*(const u32 *)row, *(const u32 *)(row + 8 * lda), *(const u32 *)(row + 8),
                   *(const u32 *)(row + 8 * lda + 8)};
    UNROLL for (int half = 0; half < 2; half++) {
      const T *from = column + half * 8 * ldb;
      u32 right[2] = {*(const u32 *)from, *(const u32 *)(from + 8)};
      mma_16x8<T>(sums.at + 4 * half, left, right);
    }
#endif
  }
}

} // namespace hipc
