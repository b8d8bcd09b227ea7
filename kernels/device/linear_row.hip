// linear.hip for a single row of x, as decoding has: what limits it is reading the weights once, and how soon that begins.
//
// SPLIT waves share a row of W. They read x and the norm's weights beside it, a vector a lane, and make the sum of squares
// of all of x on the way, since together their lanes see every element: nothing is staged, and no one waits before the end.
#include "hipc_linear.h"

using namespace hipc;

namespace {

constexpr int BLOCK = 256, WAVES = BLOCK / WAVE;

// y = activation(w x) * (up x) + bias + residual, x normed where NORM. AHEAD vectors of every row are on their way at once.
template <class T, bool GATED, bool NORM, int AHEAD, int SPLIT> DEVICE void linear_row(const LinearArguments &op) {
  constexpr i32 V = LANE_VECTOR<T>, S = GATED ? 2 : 1, STEP = SPLIT * (i32)WAVE;
  i32 row = (i32)block() * (WAVES / SPLIT) + (i32)wave() / SPLIT, part = (i32)wave() % SPLIT, vectors = op.k / V;
  const u32x4 *x = (const u32x4 *)op.x, *norm = (const u32x4 *)op.norm, *from[S];
  i64 first_weight = (i64)min(row, op.n - 1) * op.k;
  from[0] = (const u32x4 *)((const T *)op.weight + first_weight);
  if constexpr (GATED) from[1] = (const u32x4 *)((const T *)op.up + first_weight);
  // Two sums each, so that products wait less for those before them.
  f32 sums[S][2] = {}, squares[2] = {};
  // The vectors at base, base + STEP, ...; of the last ones some may lie beyond the end.
  auto round = [&](i32 base, bool whole) {
    u32x4 w[AHEAD][S], values[AHEAD], scales[NORM ? AHEAD : 1];
    UNROLL for (int a = 0; a < AHEAD; a++) {
      i32 at = whole ? base + a * STEP : min(base + a * STEP, vectors - 1);
      UNROLL for (int s = 0; s < S; s++) w[a][s] = __builtin_nontemporal_load(from[s] + at);
      values[a] = x[at];
      if constexpr (NORM) scales[a] = norm[at];
    }
    if (!whole) UNROLL for (int a = 0; a < AHEAD; a++) {
      bool inside = base + a * STEP < vectors;
      UNROLL for (int s = 0; s < S; s++) w[a][s] = inside ? w[a][s] : (u32x4)(0);
      values[a] = inside ? values[a] : (u32x4)(0);
    }
    UNROLL for (int a = 0; a < AHEAD; a++)
      UNROLL for (int v = 0; v < V; v++) {
        f32 factor = element_of<T>(values[a], v);
        if constexpr (NORM) {
          squares[v % 2] = __builtin_fmaf(factor, factor, squares[v % 2]);
          factor *= element_of<T>(scales[a], v);
        }
        UNROLL for (int s = 0; s < S; s++) sums[s][v % 2] = __builtin_fmaf(factor, element_of<T>(w[a][s], v), sums[s][v % 2]);
      }
  };
  i32 first = part * (i32)WAVE;
  for (; first + (AHEAD - 1) * STEP + (i32)WAVE <= vectors; first += AHEAD * STEP) round(first + (i32)lane(), true);
  if (first < vectors) round(first + (i32)lane(), false);
  f32 value = sum_lanes(sums[0][0] + sums[0][1]), other = 0, squared = 0;
  if constexpr (GATED) other = sum_lanes(sums[1][0] + sums[1][1]);
  if constexpr (NORM) squared = sum_lanes(squares[0] + squares[1]);
  if constexpr (SPLIT > 1) {
    SHARED f32 shared[WAVES][3];
    if (lane() == 0) shared[wave()][0] = value, shared[wave()][1] = other, shared[wave()][2] = squared;
    barrier();
    UNROLL for (int p = 1; p < SPLIT; p++) {
      u32 beside = min(wave() + p, (u32)WAVES - 1);
      value += shared[beside][0], other += shared[beside][1], squared += shared[beside][2];
    }
  }
  if (lane() != 0 || part != 0 || row >= op.n) return;
  f32 inverse = NORM ? rsqrt_of(squared / (f32)op.k + op.epsilon) : 1.0f;
  value *= inverse;
  if constexpr (GATED) value = activate(value, op.end) * (other * inverse);
  if (op.end.bias) value += widen(((const T *)op.end.bias)[row]);
  if (op.end.residual) value += widen(((const T *)op.end.residual)[row]);
  ((T *)op.y)[row] = narrow<T>(value);
}

} // namespace

// by2, by4: how many of a block's waves share a row.
#define LINEAR_ROW(WORD, T)                                                                                            \
  KERNEL(BLOCK) linear_row_##WORD(LinearArguments op) { linear_row<T, false, false, 4, 1>(op); }                                \
  KERNEL(BLOCK) linear_row_by2_##WORD(LinearArguments op) { linear_row<T, false, false, 4, 2>(op); }                            \
  KERNEL(BLOCK) linear_row_by4_##WORD(LinearArguments op) { linear_row<T, false, false, 4, 4>(op); }                            \
  KERNEL(BLOCK) linear_row_norm_##WORD(LinearArguments op) { linear_row<T, false, true, 4, 1>(op); }                            \
  KERNEL(BLOCK) linear_row_norm_by2_##WORD(LinearArguments op) { linear_row<T, false, true, 2, 2>(op); }                        \
  KERNEL(BLOCK) linear_row_gated_##WORD(LinearArguments op) { linear_row<T, true, false, 4, 1>(op); }                           \
  KERNEL(BLOCK) linear_row_norm_gated_##WORD(LinearArguments op) { linear_row<T, true, true, 4, 1>(op); }
HIPC_FLOATS(LINEAR_ROW)
