// Products of a decoder with few rows, with all that surrounds them: norm(x) W' + bias + residual, or
// activation(norm(x) W') * (norm(x) Up') + residual. W is [N, K] of x's type. What limits them is reading the weights once.
// linear_row.hip has those of a single row.
//
// A wave owns ROWS rows of W, its lanes split K between them; x lies in shared memory, a chunk of K at a time. The scale of
// the root-mean-square norm is one number per row of x, so it is applied to the sums: x times the norm's weights is what
// the products are made of. The first weights are on their way before x is there.
#include "hipc_linear.h"

using namespace hipc;

namespace {

constexpr int BLOCK = 128;

extern "C" __attribute__((shared, device, aligned(16))) f32 linear_factors[];

// Place of the group of four factors that begins at element `part * 4` of vector `number`, in row m. Lanes read a vector 16
// bytes at a time, so that its groups lie apart: consecutive lanes then read consecutive 16 bytes.
template <int V> DEVICE u32 place_of(u32 m, u32 number, u32 part, u32 chunk) {
  return m * chunk + part * (chunk / (V / 4)) + number * 4;
}

template <int S, int ROWS, class T>
DEVICE void fetch(u32x4 (&w)[S][ROWS], const T *const (&from)[S][ROWS], i32 place, i32 k) {
  if (place >= k) return;
  UNROLL for (int s = 0; s < S; s++)
    UNROLL for (int r = 0; r < ROWS; r++) w[s][r] = __builtin_nontemporal_load((const u32x4 *)(from[s][r] + place));
}

DEVICE f32 sum_of(const f32 (&sums)[4]) { return sum_lanes((sums[0] + sums[1]) + (sums[2] + sums[3])); }

template <class T, int M, bool GATED, int ROWS> DEVICE void linear(const LinearArguments &op) {
  constexpr int V = LANE_VECTOR<T>, S = GATED ? 2 : 1, STEP = V * (int)WAVE, AHEAD = GATED || ROWS > 1 ? 2 : 4;
  SHARED f32 shared[M][BLOCK / WAVE];
  const T *x = (const T *)op.x, *norm = (const T *)op.norm;
  i32 first_row = (block() * (BLOCK / WAVE) + wave()) * ROWS, k = op.k;
  const T *from[S][ROWS];
  UNROLL for (int r = 0; r < ROWS; r++) {
    i64 row = min(first_row + r, op.n - 1);
    from[0][r] = (const T *)op.weight + row * k;
    if constexpr (GATED) from[1][r] = (const T *)op.up + row * k;
  }
  // Four sums each, so that no product waits for the one before it.
  f32 sums[S][ROWS][M][4] = {}, squares[M] = {};
  u32x4 w[AHEAD][S][ROWS];
  i32 at = lane() * V;
  UNROLL for (int a = 0; a < AHEAD; a++) fetch(w[a], from, at + a * STEP, k);
  for (i32 first = 0; first < k; first += op.chunk) {
    i32 count = min(op.chunk, k - first);
    if (first) barrier();
    for (i32 i = thread() * V; i < count; i += BLOCK * V) {
      Vector<T, V> scale;
      if (norm) scale = load<T, V>(norm + first + i);
      UNROLL for (int m = 0; m < M; m++) {
        Vector<T, V> values = load<T, V>(x + (i64)m * k + first + i);
        UNROLL for (int v = 0; v < V; v += 4) {
          Vector<f32, 4> group;
          UNROLL for (int j = 0; j < 4; j++) {
            f32 value = widen(values[v + j]);
            squares[m] += value * value;
            group[j] = norm ? value * widen(scale[v + j]) : value;
          }
          store<f32, 4>(linear_factors + place_of<V>(m, i / V, v / 4, op.chunk), group);
        }
      }
    }
    if (norm && first + count == k)
      UNROLL for (int m = 0; m < M; m++) {
        f32 sum = sum_lanes(squares[m]);
        if (lane() == 0) shared[m][wave()] = sum;
      }
    barrier();
    for (; at < first + count; at += AHEAD * STEP)
      UNROLL for (int a = 0; a < AHEAD; a++) {
        i32 place = at + a * STEP;
        if (place < first + count) {
          u32 number = (u32)(place - first) / V;
          UNROLL for (int m = 0; m < M; m++)
            UNROLL for (int part = 0; part < V / 4; part++) {
              Vector<f32, 4> factors = load<f32, 4>(linear_factors + place_of<V>(m, number, part, op.chunk));
              UNROLL for (int s = 0; s < S; s++)
                UNROLL for (int r = 0; r < ROWS; r++)
                  UNROLL for (int j = 0; j < 4; j++)
                    sums[s][r][m][j] =
                        __builtin_fmaf(factors[j], element_of<T>(w[a][s][r], part * 4 + j), sums[s][r][m][j]);
            }
        }
        fetch(w[a], from, place + AHEAD * STEP, k);
      }
  }
  UNROLL for (int r = 0; r < ROWS; r++)
    UNROLL for (int m = 0; m < M; m++) {
      f32 value = sum_of(sums[0][r][m]), other = 1, inverse = 1;
      if constexpr (GATED) other = sum_of(sums[1][r][m]);
      if (norm) {
        f32 squared = 0;
        for (u32 i = 0; i < BLOCK / WAVE; i++) squared += shared[m][i];
        inverse = rsqrt_of(squared / (f32)k + op.epsilon);
      }
      i32 column = first_row + r;
      if (lane() != 0 || column >= op.n) continue;
      i64 to = (i64)m * op.n + column;
      value *= inverse;
      if constexpr (GATED) value = activate(value, op.end) * (other * inverse);
      if (op.end.bias) value += widen(((const T *)op.end.bias)[column]);
      if (op.end.residual) value += widen(((const T *)op.end.residual)[to]);
      ((T *)op.y)[to] = narrow<T>(value);
    }
}

// What products of many rows end with: y = activation(gate) * up + bias + residual; `up` may be missing. In vectors where
// n is a multiple of them; those of uncommon activations are short, since every element has a copy of all activations.
template <class T, int V, class Finish> DEVICE void combine_vectors(const T *gate, const T *up, T *y, i64 count, Finish finish) {
  for (i64 i = global_thread() * V; i < count; i += global_threads() * V) {
    Vector<T, V> g = load<T, V>(gate + i), u, made;
    if (up) u = load<T, V>(up + i);
    finish(i, g, u, made);
    store<T, V>(y + i, made);
  }
}
template <class T> DEVICE void combine(const T *gate, const T *up, T *y, const Epilogue &end, i64 count, i64 n) {
  constexpr int V = LANE_VECTOR<T>;
  if (up && end.activation == ACT_SILU && !end.bias && !end.residual)
    combine_vectors<T, V>(gate, up, y, count, [](i64, const auto &g, const auto &u, auto &made) {
      UNROLL for (int v = 0; v < V; v++) made[v] = narrow<T>(silu_of(widen(g[v])) * widen(u[v]));
    });
  else if (!up && end.activation == ACT_NONE && !end.bias && end.residual)
    combine_vectors<T, V>(gate, up, y, count, [=, &end](i64 i, const auto &g, const auto &, auto &made) {
      auto r = load<T, V>((const T *)end.residual + i);
      UNROLL for (int v = 0; v < V; v++) made[v] = narrow<T>(widen(g[v]) + widen(r[v]));
    });
  else
    combine_vectors<T, 2>(gate, up, y, count, [=, &end](i64 i, const auto &g, const auto &u, auto &made) {
      i64 column = i - quotient(i, n) * n;
      UNROLL for (int v = 0; v < 2; v++) {
        f32 value = activate(widen(g[v]), end);
        if (up) value *= widen(u[v]);
        if (end.bias) value += widen(((const T *)end.bias)[column + v]);
        if (end.residual) value += widen(((const T *)end.residual)[i + v]);
        made[v] = narrow<T>(value);
      }
    });
}
template <class T> DEVICE void combine_each(const T *gate, const T *up, T *y, Epilogue end, i64 count, i64 n) {
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
  KERNEL(256) linear_combine_##WORD(const T *gate, const T *up, T *y, Epilogue end, i64 count, i64 n) {                \
    combine<T>(gate, up, y, end, count, n);                                                                            \
  }                                                                                                                    \
  KERNEL(256) linear_combine_each_##WORD(const T *gate, const T *up, T *y, Epilogue end, i64 count, i64 n) {           \
    combine_each<T>(gate, up, y, end, count, n);                                                                       \
  }
HIPC_FLOATS(COMBINE)

#define LINEAR(WORD, T, M)                                                                                             \
  KERNEL(BLOCK) linear_m##M##_##WORD(LinearArguments op) { linear<T, M, false, 1>(op); }                                        \
  KERNEL(BLOCK) linear_wide_m##M##_##WORD(LinearArguments op) { linear<T, M, false, 2>(op); }                                   \
  KERNEL(BLOCK) linear_gated_m##M##_##WORD(LinearArguments op) { linear<T, M, true, 1>(op); }
#define LINEAR_ROWS(WORD, T) LINEAR(WORD, T, 2) LINEAR(WORD, T, 4)
HIPC_FLOATS(LINEAR_ROWS)
