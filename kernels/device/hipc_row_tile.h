// Tiles of sums whose rows stay with a lane, one or two a lane: what belongs to a row, such as the greatest of its elements,
// then takes few exchanges or none, and a tile becomes an operand without a way through LDS.
//
// NVIDIA's layout is such by itself. AMD's keep columns, so products there are computed transposed.
#pragma once
#include "hipc_mma.h"

namespace hipc {

struct RowTile : Tile {
#if defined(HIPC_MMA_PTX)
  static constexpr int ROWS = 2, NEIGHBOURS = 2;
  __attribute__((device, always_inline)) static int row(int slot) { return (int)lane() / 4 + 8 * slot; }
  __attribute__((device, always_inline)) static constexpr int slot(int i) { return i >> 1 & 1; }
  __attribute__((device, always_inline)) static int column(int i) { return Tile::column(i); }
#else
  static constexpr int ROWS = 1;
#if defined(HIPC_MMA_WMMA12) || defined(HIPC_MMA_MFMA)
  static constexpr int NEIGHBOURS = COUNT;
#else
  static constexpr int NEIGHBOURS = 1;
#endif
  __attribute__((device, always_inline)) static int row(int) { return (int)lane() % 16; }
  __attribute__((device, always_inline)) static constexpr int slot(int) { return 0; }
  __attribute__((device, always_inline)) static int column(int i) { return Tile::row(i); }
#endif
  // ROWS: rows that a lane has elements of. NEIGHBOURS: elements that follow each other in a row, from a multiple of that.
};

// sums += rows x columns^T.
template <class T> DEVICE void multiply_rows(RowTile &sums, const Fragment<T> &rows, const Fragment<T> &columns) {
#if defined(HIPC_MMA_PTX)
  multiply<T>(sums, rows, columns);
#else
  multiply<T>(sums, columns, rows);
#endif
}

// Combines what the lanes of a row have found; all of them get the result.
template <class Combine> DEVICE f32 combine_row(f32 value, Combine combine) {
#if defined(HIPC_MMA_PTX)
  value = combine(value, exchange<1>(value));
  return combine(value, exchange<2>(value));
#else
  value = combine(value, exchange<16>(value));
  if constexpr (WAVE == 64) value = combine(value, exchange<32>(value));
  return value;
#endif
}

// The tile's elements as an operand whose depth are the tile's columns. `scratch` is LDS of the wave, 16 rows a `stride`
// apart, that only architectures without matrix instructions use; there, all threads of the block take part.
template <class T> DEVICE Fragment<T> as_fragment(const RowTile &tile, T *scratch, int stride) {
  if constexpr (!has_mma<T>) {
    UNROLL for (int i = 0; i < Tile::COUNT; i++) scratch[RowTile::row(0) * stride + RowTile::column(i)] = narrow<T>(tile.at[i]);
    barrier();
    return {scratch, stride};
  } else {
#if defined(HIPC_MMA_PTX)
    u32x4 words;
    UNROLL for (int i = 0; i < 4; i++) words[i] = narrow_two<T>(tile.at[2 * i], tile.at[2 * i + 1]);
    return bit_cast<Fragment<T>>(words);
#elif defined(HIPC_MMA_WMMA11)
    // Of a lane's row the other half of the wave has every second element.
    bool second = lane() >= 16;
    u32 words[Tile::COUNT];
    UNROLL for (int i = 0; i < Tile::COUNT; i += 2) {
      u32 own = narrow_two<T>(tile.at[i], tile.at[i + 1]), other = exchange<16>(own);
      u32 even = second ? other : own, odd = second ? own : other;
      words[i] = (even & 0xffff) | odd << 16, words[i + 1] = even >> 16 | (odd & 0xffff0000);
    }
    return __builtin_bit_cast(Fragment<T>, words);
#else
    Fragment<T> fragment;
    UNROLL for (int i = 0; i < Tile::COUNT; i++) fragment.at[i] = narrow<T>(tile.at[i]);
    return fragment;
#endif
  }
}

} // namespace hipc
