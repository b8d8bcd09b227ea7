// As linear.hip, for weights of 4 bits in blocks of 32 along K with a scale each and the zero point 8, and one row of f16.
// W is [N, K / 32, 16 bytes]. A lane takes a block at a time.
//
// What limits it is unpacking: pairs of nibbles become halves by or-ing them into the mantissa of 1024, and are multiplied in
// pairs. Four products of half precision are summed before float32 takes over, which costs no more than rounding x does.
#include "hipc_math.h"

using namespace hipc;

namespace {

constexpr int BLOCK = 256;

extern "C" __attribute__((shared, device, aligned(16))) u32x4 linear_pieces[];

typedef f16 f16x2 __attribute__((ext_vector_type(2)));

// Halves of nibbles 0 and 4, 1 and 5, 2 and 6, 3 and 7 of a word, less 8.
DEVICE f16x2 pair_of(u32 word, int number) {
  f16x2 shifted = bit_cast<f16x2>(((word >> (4 * number)) & 0x000f000fu) | 0x64006400u);
  return shifted - (f16x2){(f16)1032.0f, (f16)1032.0f};
}

// Sum of a block of weights times x; `blocks` apart lie the pieces of 8 elements of x, each in the order of `pair_of`.
DEVICE f32 dot_block(u32x4 weights, const u32x4 *x, i32 blocks) {
  f32 sum = 0;
  UNROLL for (int word = 0; word < 4; word++) {
    u32x4 piece = x[word * blocks];
    f16x2 products = pair_of(weights[word], 0) * bit_cast<f16x2>(piece[0]);
    UNROLL for (int i = 1; i < 4; i++)
      products = __builtin_elementwise_fma(pair_of(weights[word], i), bit_cast<f16x2>(piece[i]), products);
    sum += (f32)products[0] + (f32)products[1];
  }
  return sum;
}

// x, or its norm, in shared memory. Every thread leaves when all of it is there.
DEVICE void place_x(const QuantizedLinearArguments &op) {
  SHARED f32 shared[MOST_WAVES];
  i32 pieces = op.blocks * 4;
  f32 inverse = 1;
  if (op.norm) {
    f32 squares = 0;
    for (i32 i = thread(); i < pieces; i += BLOCK) {
      Vector<f16, 8> values = load<f16, 8>((const f16 *)op.x + i * 8);
      UNROLL for (int j = 0; j < 8; j++) squares += (f32)values[j] * (f32)values[j];
    }
    inverse = rsqrt_of(sum_block(squares, shared) / (f32)(pieces * 8) + op.epsilon);
  }
  for (i32 i = thread(); i < pieces; i += BLOCK) {
    Vector<f16, 8> values = load<f16, 8>((const f16 *)op.x + i * 8), ordered;
    if (op.norm) {
      Vector<f16, 8> scale = load<f16, 8>((const f16 *)op.norm + i * 8);
      UNROLL for (int j = 0; j < 8; j++) values[j] = (f16)((f32)values[j] * inverse * (f32)scale[j]);
    }
    UNROLL for (int j = 0; j < 8; j++) ordered[j] = values[j / 2 + j % 2 * 4];
    linear_pieces[i % 4 * op.blocks + i / 4] = bit_cast<u32x4>(ordered);
  }
  barrier();
}

template <bool GATED, int ROWS> DEVICE void linear_q4(const QuantizedLinearArguments &op) {
  constexpr int S = GATED ? 2 : 1, AHEAD = GATED || ROWS > 1 ? 2 : 4;
  i32 first_row = (block() * (BLOCK / WAVE) + wave()) * ROWS, blocks = op.blocks;
  u32x4 w[AHEAD][S][ROWS];
  f16 scale[AHEAD][S][ROWS];
  const u32x4 *weights[S] = {(const u32x4 *)op.weight};
  const f16 *scales[S] = {(const f16 *)op.scales};
  if constexpr (GATED) weights[1] = (const u32x4 *)op.up, scales[1] = (const f16 *)op.up_scales;
  f32 sums[S][ROWS] = {};
  for (i32 base = lane(), round = 0; base < blocks || round == 0; base += AHEAD * WAVE, round++) {
    UNROLL for (int a = 0; a < AHEAD; a++)
      UNROLL for (int s = 0; s < S; s++)
        UNROLL for (int r = 0; r < ROWS; r++) {
          i64 at = (i64)min(first_row + r, op.n - 1) * blocks + min(base + a * (i32)WAVE, blocks - 1);
          w[a][s][r] = __builtin_nontemporal_load(weights[s] + at);
          scale[a][s][r] = scales[s][at];
        }
    // The first weights are on their way before x is there. Every thread has a first round.
    if (round == 0) place_x(op);
    UNROLL for (int a = 0; a < AHEAD; a++) {
      i32 at = base + a * (i32)WAVE;
      if (at >= blocks) continue;
      UNROLL for (int s = 0; s < S; s++)
        UNROLL for (int r = 0; r < ROWS; r++)
          sums[s][r] = __builtin_fmaf(dot_block(w[a][s][r], linear_pieces + at, blocks), (f32)scale[a][s][r], sums[s][r]);
    }
  }
  UNROLL for (int r = 0; r < ROWS; r++) {
    f32 value = sum_lanes(sums[0][r]), other = 1;
    if constexpr (GATED) other = sum_lanes(sums[1][r]);
    i32 column = first_row + r;
    if (lane() != 0 || column >= op.n) continue;
    if constexpr (GATED) value = activate(value, op.end) * other;
    if (op.end.bias) value += (f32)((const f16 *)op.end.bias)[column];
    if (op.end.residual) value += (f32)((const f16 *)op.end.residual)[column];
    ((f16 *)op.y)[column] = (f16)value;
  }
}

} // namespace

KERNEL(BLOCK) linear_q4_f16(QuantizedLinearArguments op) { linear_q4<false, 1>(op); }
KERNEL(BLOCK) linear_q4_wide_f16(QuantizedLinearArguments op) { linear_q4<false, 2>(op); }
KERNEL(BLOCK) linear_q4_gated_f16(QuantizedLinearArguments op) { linear_q4<true, 1>(op); }
