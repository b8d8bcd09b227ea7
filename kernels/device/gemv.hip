// Products of a few rows by a matrix, as in decoding: bound by reading the matrix once. Eight or sixteen bytes a lane and
// load; several rows of the matrix a wave keep enough loads in flight; where rows are few, waves of a block share one.
#include "hipc_math.h"

using namespace hipc;

namespace {

constexpr int THREADS = 256, WAVES = THREADS / WAVE;

template <class T, int COUNT> DEVICE f32 dot(const Vector<T, COUNT> &a, const Vector<T, COUNT> &b, f32 sum) {
  UNROLL for (int i = 0; i < COUNT; i++) sum += widen(a[i]) * widen(b[i]);
  return sum;
}

// b is [n][k]. A wave computes ROWS columns of y for M rows of a; `split` waves of a block share them along the depth.
// k is a multiple of the vector, and rows are aligned to it.
template <class T, int M, int ROWS>
DEVICE void gemv_rows(const T *a, const T *b, T *y, i64 n, i64 k, i32 split, Epilogue epilogue) {
  constexpr int COUNT = LANE_VECTOR<T>;
  SHARED f32 shared[WAVES][ROWS * M];
  int part = (int)wave() % split;
  i64 first = ((i64)block() * (WAVES / split) + wave() / split) * ROWS;
  f32 sums[ROWS][M] = {};
  const T *rows[ROWS];
  // Rows beyond the end read the last one again; they are not stored.
  UNROLL for (int r = 0; r < ROWS; r++) rows[r] = b + min(first + r, n - 1) * k;
  i64 step = (i64)split * WAVE * COUNT;
  _Pragma("unroll 2") for (i64 at = ((i64)part * WAVE + lane()) * COUNT; at < k; at += step) {
    Vector<T, COUNT> weights[ROWS];
    UNROLL for (int r = 0; r < ROWS; r++) weights[r] = load_once<T, COUNT>(rows[r] + at);
    UNROLL for (int m = 0; m < M; m++) {
      auto x = load<T, COUNT>(a + m * k + at);
      UNROLL for (int r = 0; r < ROWS; r++) sums[r][m] = dot<T, COUNT>(weights[r], x, sums[r][m]);
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
  // Every lane has all sums: each ends one.
  f32 own = 0;
  UNROLL for (int r = 0; r < ROWS; r++) {
    UNROLL for (int m = 0; m < M; m++) own = (int)lane() == r * M + m ? sums[r][m] : own;
  }
  i64 column = first + lane() / M, row = lane() % M;
  if (lane() < ROWS * M && column < n) y[row * n + column] = finish<T>(epilogue, own, row * n + column, column);
}

// b is [k][n]. A lane sums COUNT neighbouring columns over the depths of its wave; waves of a block and blocks along y
// share the depth. With more than one block along y the sums go to `parts` [blocks][M][n], to be added by gemv_finish.
template <class T, int M>
DEVICE void gemv_columns(const T *a, const T *b, T *y, f32 *parts, i64 n, i64 k, i64 depth, Epilogue epilogue) {
  constexpr int COUNT = LANE_VECTOR<T>, WIDTH = WAVE * COUNT;
  SHARED f32 shared[WAVES][WIDTH];
  i64 column = (i64)block() * WIDTH + lane() * COUNT;
  i64 begin = (i64)block_y() * depth, end = min(k, begin + depth);
  f32 sums[M][COUNT] = {};
  if (column < n) {
    _Pragma("unroll 4") for (i64 d = begin + wave(); d < end; d += WAVES) {
      auto weights = load_once<T, COUNT>(b + d * n + column);
      UNROLL for (int m = 0; m < M; m++) {
        f32 x = widen(a[m * k + d]);
        UNROLL for (int i = 0; i < COUNT; i++) sums[m][i] += x * widen(weights[i]);
      }
    }
  }
  UNROLL for (int m = 0; m < M; m++) {
    UNROLL for (int i = 0; i < COUNT; i++) shared[wave()][lane() * COUNT + i] = sums[m][i];
    barrier();
    for (int c = (int)thread(); c < WIDTH; c += THREADS) {
      i64 at = (i64)block() * WIDTH + c;
      f32 sum = 0;
      UNROLL for (int w = 0; w < WAVES; w++) sum += shared[w][c];
      if (at >= n) continue;
      if (parts) parts[((i64)block_y() * M + m) * n + at] = sum;
      else y[m * n + at] = finish<T>(epilogue, sum, m * n + at, at);
    }
    barrier();
  }
}

// Adds the parts of gemv_columns.
template <class T> DEVICE void gemv_finish(const f32 *parts, T *y, i64 m, i64 n, i64 count, Epilogue epilogue) {
  i64 all = m * n;
  for (i64 at = global_thread(); at < all; at += global_threads()) {
    f32 sum = 0;
    for (i64 part = 0; part < count; part++) sum += parts[part * all + at];
    y[at] = finish<T>(epilogue, sum, at, at % n);
  }
}

} // namespace

#define ROWS_KERNEL(WORD, T, M, ROWS)                                                                                  \
  KERNEL(256) gemv_rows_m##M##_r##ROWS##_##WORD(const T *a, const T *b, T *y, i64 n, i64 k, i32 split,                 \
                                                Epilogue epilogue) {                                                   \
    gemv_rows<T, M, ROWS>(a, b, y, n, k, split, epilogue);                                                             \
  }
#define COLUMNS_KERNEL(WORD, T, M)                                                                                     \
  KERNEL(256) gemv_columns_m##M##_##WORD(const T *a, const T *b, T *y, f32 *parts, i64 n, i64 k, i64 depth,            \
                                         Epilogue epilogue) {                                                          \
    gemv_columns<T, M>(a, b, y, parts, n, k, depth, epilogue);                                                         \
  }
#define DEFINE(WORD, T)                                                                                                \
  ROWS_KERNEL(WORD, T, 1, 1) ROWS_KERNEL(WORD, T, 1, 2) ROWS_KERNEL(WORD, T, 1, 4) ROWS_KERNEL(WORD, T, 2, 2)          \
  ROWS_KERNEL(WORD, T, 4, 2)                                                                                           \
  COLUMNS_KERNEL(WORD, T, 1) COLUMNS_KERNEL(WORD, T, 2) COLUMNS_KERNEL(WORD, T, 4)                                     \
  KERNEL(256) gemv_finish_##WORD(const f32 *parts, T *y, i64 m, i64 n, i64 count, Epilogue epilogue) {                 \
    gemv_finish<T>(parts, y, m, n, count, epilogue);                                                                   \
  }
HIPC_FLOATS(DEFINE)
