// The tiled product that matmul, matmul_nbits and conv share: tiles of 64 x 64 by 256 threads, brought into LDS 32
// elements deep, the next one read while this one is multiplied.
#pragma once
#include "hipc_mma.h"

namespace hipc {

constexpr int TILE = 64, DEPTH = 32, TILE_THREADS = 256;
// Elements that a thread brings of each operand, and the pad that keeps rows of LDS off each other's banks.
constexpr int EACH = TILE * DEPTH / TILE_THREADS, PAD = 8;

// Where a thread's elements lie in a tile when they follow each other along the depth.
DEVICE int tile_row() { return (int)thread() / (DEPTH / EACH); }
DEVICE int tile_depth() { return (int)thread() % (DEPTH / EACH) * EACH; }
template <class T> DEVICE void put_along_depth(T (*tile)[DEPTH + PAD], const Vector<T, EACH> &value) {
  T *to = &tile[tile_row()][tile_depth()];
  constexpr int PART = LANE_VECTOR<T>;
  UNROLL for (int i = 0; i < EACH; i += PART) {
    Vector<T, PART> part;
    UNROLL for (int j = 0; j < PART; j++) part[j] = value[i + j];
    store<T, PART>(to + i, part);
  }
}

// Where they lie when neighbouring threads have neighbouring columns and a wave has one depth, and their place in a tile.
DEVICE int tile_column() { return (int)thread() % TILE; }
DEVICE int depth_of_wave() {
  int depth = (int)thread() / TILE * EACH;
#if defined(HIPC_AMD)
  return __builtin_amdgcn_readfirstlane(depth);
#else
  return depth;
#endif
}
template <class T> DEVICE void put_columns(T (*tile)[DEPTH + PAD], const Vector<T, EACH> &value) {
  T *to = &tile[tile_column()][depth_of_wave()];
  constexpr int PART = LANE_VECTOR<T>;
  UNROLL for (int i = 0; i < EACH; i += PART) {
    Vector<T, PART> part;
    UNROLL for (int j = 0; j < PART; j++) part[j] = value[i + j];
    store<T, PART>(to + i, part);
  }
}

// A matrix as rows (or columns) along the depth; one of the strides is 1.
template <class T> struct Operand {
  const T *data;
  i64 rows, row_stride, depth_stride;
  bool vectors;  // every vector of EACH elements along the stride of 1 is aligned and whole

  __attribute__((device, always_inline)) bool depth_first() const { return depth_stride == 1; }
  // Where a thread's elements lie in a tile: along the depth, or along the rows.
  __attribute__((device, always_inline)) int row() const {
    return depth_first() ? tile_row() : (int)thread() % (TILE / EACH) * EACH;
  }
  __attribute__((device, always_inline)) int depth() const {
    return depth_first() ? tile_depth() : (int)thread() / (TILE / EACH);
  }
  __attribute__((device, always_inline)) Vector<T, EACH> fetch(i64 first_row, i64 first_depth, i64 end_depth) const {
    Vector<T, EACH> value;
    i64 r = first_row + row(), d = first_depth + depth();
    const T *from = data + r * row_stride + d * depth_stride;
    bool whole = depth_first() ? r < rows && d + EACH <= end_depth : d < end_depth && r + EACH <= rows;
    if (vectors && whole) {
      constexpr int PART = LANE_VECTOR<T>;
      UNROLL for (int i = 0; i < EACH; i += PART) {
        auto part = load<T, PART>(from + i);
        UNROLL for (int j = 0; j < PART; j++) value[i + j] = part[j];
      }
      return value;
    }
    UNROLL for (int i = 0; i < EACH; i++) {
      bool inside = depth_first() ? r < rows && d + i < end_depth : d < end_depth && r + i < rows;
      value[i] = inside ? from[i] : (T)0.0f;
    }
    return value;
  }
  __attribute__((device, always_inline)) void put(T (*tile)[DEPTH + PAD], const Vector<T, EACH> &value) const {
    if (depth_first()) return put_along_depth(tile, value);
    UNROLL for (int i = 0; i < EACH; i++) tile[row() + i][depth()] = value[i];
  }
};

// The tile of a x b that begins at a row of a and a column of b. The operands have `fetch` and `put` as above;
// `keep(row, column, sum)` takes the elements, those beyond the matrices' ends included. All threads of a block of
// TILE_THREADS take part.
template <class T, class A, class B, class Keep>
DEVICE void multiply_tiles(const A &a, const B &b, i64 first_row, i64 first_column, i64 k, Keep keep) {
  // What has been multiplied makes room for the sums.
  union Memory {
    struct {
      T left[TILE][DEPTH + PAD], right[TILE][DEPTH + PAD];
    };
    f32 sums[TILE][TILE + 1];
  };
  SHARED Memory memory;
  auto &left = memory.left, &right = memory.right;
  constexpr int WAVES = TILE_THREADS / WAVE, COLUMNS = 16 / WAVES;  // tiles of 16 that a wave computes, side by side
  int own_row = (int)wave() % 4 * 16, own_column = (int)wave() / 4 * COLUMNS * 16;
  Tile sums[COLUMNS];
  UNROLL for (int c = 0; c < COLUMNS; c++) sums[c].clear();
  auto next_a = a.fetch(first_row, 0, k);
  auto next_b = b.fetch(first_column, 0, k);
  for (i64 depth = 0; depth < k; depth += DEPTH) {
    a.put(left, next_a);
    b.put(right, next_b);
    barrier();
    if (depth + DEPTH < k) {
      next_a = a.fetch(first_row, depth + DEPTH, k);
      next_b = b.fetch(first_column, depth + DEPTH, k);
    }
    UNROLL for (int d = 0; d < DEPTH; d += 16) {
      UNROLL for (int c = 0; c < COLUMNS; c++)
        multiply_tile<T>(sums[c], &left[own_row][d], DEPTH + PAD, &right[own_column + c * 16][d], DEPTH + PAD);
    }
    barrier();
  }
  UNROLL for (int c = 0; c < COLUMNS; c++) {
    UNROLL for (int i = 0; i < Tile::COUNT; i++)
      memory.sums[own_row + Tile::row(i)][own_column + c * 16 + Tile::column(i)] = sums[c].at[i];
  }
  barrier();
  // One copy of what ends an element, neighbouring threads side by side.
  _Pragma("unroll 1") for (int at = (int)thread(); at < TILE * TILE; at += TILE_THREADS)
    keep(first_row + at / TILE, first_column + at % TILE, memory.sums[at / TILE][at % TILE]);
  barrier();
}

} // namespace hipc
