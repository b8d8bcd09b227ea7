// Products of a decoder with few rows, with all that surrounds them: norm(x) W + bias + residual, or
// activation(norm(x) W) * (norm(x) Up) + residual. W is [K, N] of x's type. What limits them is reading the weights once.
//
// A block owns `groups` vectors of columns, at most 128 columns; its threads split K between them. The scale of the root-mean-square norm is
// one number per row, so it is applied to the sums: x times the norm's weights is what the products are made of.
#include "hipc_math.h"

using namespace hipc;

namespace {

constexpr int BLOCK = 256, CHUNK = 2048;

template <class T, int M, bool GATED>
DEVICE void linear(const T *x, const T *norm, const T *weight, const T *up, T *y, Epilogue end, i32 n, i32 k, i32 groups,
                   f32 epsilon) {
  constexpr int V = LANE_VECTOR<T>, S = GATED ? 2 : 1, K_CHUNK = CHUNK / M;
  SHARED f32 factors[M][K_CHUNK];
  SHARED f32 partial[BLOCK / WAVE][BLOCK / 2];
  SHARED f32 shared[MOST_WAVES];
  i32 group = thread() % groups, slice = thread() / groups, slices = BLOCK / groups;
  i32 column = (block() * groups + group) * V;
  bool inside = column < n;
  f32 sums[S][M][V] = {}, squares[M] = {};
  for (i32 first = 0; first < k; first += K_CHUNK) {
    i32 count = min(K_CHUNK, k - first);
    if (first) barrier();
    for (i32 i = thread(); i < count; i += BLOCK) {
      f32 scale = norm ? widen(norm[first + i]) : 1.0f;
      UNROLL for (int m = 0; m < M; m++) {
        f32 value = widen(x[(i64)m * k + first + i]);
        squares[m] += value * value;
        factors[m][i] = value * scale;
      }
    }
    barrier();
    if (!inside) continue;
    const T *from = weight + (i64)first * n + column, *up_from = GATED ? up + (i64)first * n + column : nullptr;
    constexpr int AHEAD = GATED ? 4 : 8;
    i32 i = slice;
    for (; i + (AHEAD - 1) * slices < count; i += AHEAD * slices) {
      Vector<T, V> w[S][AHEAD];
      UNROLL for (int a = 0; a < AHEAD; a++) {
        w[0][a] = load_once<T, V>(from + (i64)(i + a * slices) * n);
        if constexpr (GATED) w[1][a] = load_once<T, V>(up_from + (i64)(i + a * slices) * n);
      }
      UNROLL for (int a = 0; a < AHEAD; a++)
        UNROLL for (int m = 0; m < M; m++) {
          f32 factor = factors[m][i + a * slices];
          UNROLL for (int s = 0; s < S; s++)
            UNROLL for (int v = 0; v < V; v++) sums[s][m][v] = __builtin_fmaf(factor, widen(w[s][a][v]), sums[s][m][v]);
        }
    }
    for (; i < count; i += slices) {
      Vector<T, V> w[S];
      w[0] = load_once<T, V>(from + (i64)i * n);
      if constexpr (GATED) w[1] = load_once<T, V>(up_from + (i64)i * n);
      UNROLL for (int m = 0; m < M; m++) {
        f32 factor = factors[m][i];
        UNROLL for (int s = 0; s < S; s++)
          UNROLL for (int v = 0; v < V; v++) sums[s][m][v] = __builtin_fmaf(factor, widen(w[s][v]), sums[s][m][v]);
      }
    }
  }
  // Lanes of one vector of columns, then waves; one row and one matrix at a time, which keeps the shared memory small.
  f32 result[S];
  i32 width = groups * V;
  UNROLL for (int m = 0; m < M; m++) {
    f32 inverse = norm ? rsqrt_of(sum_block(squares[m], shared) / (f32)k + epsilon) : 1.0f;
    UNROLL for (int s = 0; s < S; s++) {
      UNROLL for (int v = 0; v < V; v++) {
        f32 sum = sums[s][m][v];
        for (u32 mask = groups; mask < WAVE; mask <<= 1) sum += from_lane(sum, lane() ^ mask);
        sums[s][m][v] = sum;
      }
      barrier();
      if (lane() < (u32)groups)
        UNROLL for (int v = 0; v < V; v++) partial[wave()][group * V + v] = sums[s][m][v];
      barrier();
      result[s] = 0;
      if ((i32)thread() < width)
        for (u32 row = 0; row < BLOCK / WAVE; row++) result[s] += partial[row][thread()];
    }
    i32 at = block() * width + thread();
    if ((i32)thread() < width && at < n) {
      f32 value = result[0] * inverse;
      if constexpr (GATED) value = activate(value, end) * (result[1] * inverse);
      if (end.bias) value += widen(((const T *)end.bias)[at]);
      if (end.residual) value += widen(((const T *)end.residual)[(i64)m * n + at]);
      y[(i64)m * n + at] = narrow<T>(value);
    }
  }
}

// What products of many rows end with: y = activation(gate) * up + bias + residual; `up` may be missing.
template <class T> DEVICE void combine(const T *gate, const T *up, T *y, Epilogue end, i64 count, i64 n) {
  for (i64 i = global_thread(); i < count; i += global_threads()) {
    f32 value = activate(widen(gate[i]), end);
    if (up) value *= widen(up[i]);
    if (end.bias) value += widen(((const T *)end.bias)[i % n]);
    if (end.residual) value += widen(((const T *)end.residual)[i]);
    y[i] = narrow<T>(value);
  }
}

} // namespace

#define COMBINE(WORD, T)                                                                                               \
  KERNEL(BLOCK) linear_combine_##WORD(const T *gate, const T *up, T *y, Epilogue end, i64 count, i64 n) {              \
    combine<T>(gate, up, y, end, count, n);                                                                            \
  }
HIPC_FLOATS(COMBINE)

#define LINEAR(WORD, T, M)                                                                                             \
  KERNEL(BLOCK) linear_m##M##_##WORD(const T *x, const T *norm, const T *weight, const T *up, T *y, Epilogue end,      \
                                     i32 n, i32 k, i32 groups, f32 epsilon) {                                          \
    linear<T, M, false>(x, norm, weight, up, y, end, n, k, groups, epsilon);                                             \
  }                                                                                                                    \
  KERNEL(BLOCK) linear_gated_m##M##_##WORD(const T *x, const T *norm, const T *weight, const T *up, T *y,              \
                                           Epilogue end, i32 n, i32 k, i32 groups, f32 epsilon) {                      \
    linear<T, M, true>(x, norm, weight, up, y, end, n, k, groups, epsilon);                                              \
  }
#define LINEAR_ROWS(WORD, T) LINEAR(WORD, T, 1) LINEAR(WORD, T, 2) LINEAR(WORD, T, 4)
HIPC_FLOATS(LINEAR_ROWS)
