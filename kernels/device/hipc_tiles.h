// The tiled product that matmul, matmul_nbits and conv share: tiles of 64 x 64 by 256 threads, brought into LDS 32
// elements deep, the next one read while this one is multiplied.
#pragma once
#include "hipc_mma.h"

namespace hipc {

constexpr int TILE = 64, DEPTH = 32, TILE_THREADS = 256;
// Elements that a thread brings of each operand.
constexpr int EACH = TILE * DEPTH / TILE_THREADS;
// From a row of LDS to the next: 16 bytes more than a row has keep them off each other's banks.
template <class T> constexpr int PITCH = DEPTH + LANE_VECTOR<T>;

// Elements on their way. Those that are not wanted become zeros when they go into LDS; they were read from some place that
// exists, so that loads neither need branches nor wait for each other.
template <class T> struct Fetched {
  Vector<T, EACH> value;
  u32 wanted = 0;  // a bit for each

  __attribute__((device, always_inline)) void set(int i, T element, bool is_wanted) {
    value[i] = element;
    wanted |= (u32)is_wanted << i;
  }
  __attribute__((device, always_inline)) Vector<T, EACH> arrived() const {
    Vector<T, EACH> all;
    UNROLL for (int i = 0; i < EACH; i++) all[i] = wanted >> i & 1 ? value[i] : (T)0.0f;
    return all;
  }
};

// Where a thread's elements lie in a tile when they follow each other along the depth.
DEVICE int tile_row() { return (int)thread() / (DEPTH / EACH); }
DEVICE int tile_depth() { return (int)thread() % (DEPTH / EACH) * EACH; }
template <class T> DEVICE void put_along_depth(T (*tile)[PITCH<T>], const Vector<T, EACH> &value) {
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
template <class T> DEVICE void put_columns(T (*tile)[PITCH<T>], const Vector<T, EACH> &value) {
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
  __attribute__((device, always_inline)) void put(T (*tile)[PITCH<T>], const Vector<T, EACH> &value) const {
    if (depth_first()) return put_along_depth(tile, value);
    UNROLL for (int i = 0; i < EACH; i++) tile[row() + i][depth()] = value[i];
  }
};

// Sums of a tile by matrix instructions: 16 rows a wave, and some of the columns.
template <class T, bool MATRIX = has_mma<T>> struct TileSums {
  static constexpr int WAVES = TILE_THREADS / WAVE, COLUMNS = 16 / WAVES;  // tiles of 16 that a wave computes, side by side
  Tile at[COLUMNS];
  __attribute__((device, always_inline)) static int row() { return (int)wave() % 4 * 16; }
  __attribute__((device, always_inline)) static int column() { return (int)wave() / 4 * COLUMNS * 16; }

  __attribute__((device, always_inline)) void clear() {
    UNROLL for (int c = 0; c < COLUMNS; c++) at[c].clear();
  }
  __attribute__((device, always_inline)) void add(const T (*left)[PITCH<T>], const T (*right)[PITCH<T>]) {
    UNROLL for (int d = 0; d < DEPTH; d += 16) {
      Fragment<T> own = load_fragment(&left[row()][d], PITCH<T>);
      UNROLL for (int c = 0; c < COLUMNS; c++)
        multiply<T>(at[c], own, load_right(&right[column() + c * 16][d], PITCH<T>));
    }
  }
  __attribute__((device, always_inline)) void put(f32 (*sums)[TILE + 1]) const {
    UNROLL for (int c = 0; c < COLUMNS; c++)
      UNROLL for (int i = 0; i < Tile::COUNT; i++)
        sums[row() + Tile::row(i)][column() + c * 16 + Tile::column(i)] = at[c].at[i];
  }
};
// By multiplications and additions: every 16th row and column a thread, so that what it reads serves four times.
template <class T> struct TileSums<T, false> {
  static constexpr int EVERY = 16, SIDE = TILE / EVERY, PART = 4;
  f32 at[SIDE][SIDE];

  __attribute__((device, always_inline)) void clear() {
    UNROLL for (int i = 0; i < SIDE; i++)
      UNROLL for (int j = 0; j < SIDE; j++) at[i][j] = 0;
  }
  __attribute__((device, always_inline)) void add(const T (*left)[PITCH<T>], const T (*right)[PITCH<T>]) {
    int row = (int)thread() / EVERY, column = (int)thread() % EVERY;
    _Pragma("unroll 2") for (int d = 0; d < DEPTH; d += PART) {
      Vector<T, PART> a[SIDE], b[SIDE];
      UNROLL for (int i = 0; i < SIDE; i++) {
        a[i] = load<T, PART>(&left[row + i * EVERY][d]);
        b[i] = load<T, PART>(&right[column + i * EVERY][d]);
      }
      UNROLL for (int k = 0; k < PART; k++)
        UNROLL for (int i = 0; i < SIDE; i++)
          UNROLL for (int j = 0; j < SIDE; j++) at[i][j] = __builtin_fmaf(widen(a[i][k]), widen(b[j][k]), at[i][j]);
    }
  }
  __attribute__((device, always_inline)) void put(f32 (*sums)[TILE + 1]) const {
    int row = (int)thread() / EVERY, column = (int)thread() % EVERY;
    UNROLL for (int i = 0; i < SIDE; i++)
      UNROLL for (int j = 0; j < SIDE; j++) sums[row + i * EVERY][column + j * EVERY] = at[i][j];
  }
};

// The tile of a x b that begins at a row of a and a column of b. The operands have `fetch`, which is asked for depth after
// depth, and `put` as above; `keep(row, column, sum)` takes the elements, those beyond the matrices' ends included. All
// threads of a block of TILE_THREADS take part.
template <class T, class A, class B, class Keep>
DEVICE void multiply_tiles(const A &a, const B &b, i64 first_row, i64 first_column, i64 k, Keep keep) {
  // What has been multiplied makes room for the sums.
  union Memory {
    struct {
      T left[TILE][PITCH<T>], right[TILE][PITCH<T>];
    };
    f32 sums[TILE][TILE + 1];
  };
  SHARED Memory memory;
  auto &left = memory.left, &right = memory.right;
  TileSums<T> sums;
  sums.clear();
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
    sums.add(left, right);
    barrier();
  }
  sums.put(memory.sums);
  barrier();
  // One copy of what ends an element, neighbouring threads side by side.
  _Pragma("unroll 1") for (int at = (int)thread(); at < TILE * TILE; at += TILE_THREADS)
    keep(first_row + at / TILE, first_column + at % TILE, memory.sums[at / TILE][at % TILE]);
  barrier();
}

} // namespace hipc
