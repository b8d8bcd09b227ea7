// What the kernels of attention share: their argument, the keys that a row sees, and how a row ends.
#pragma once
#include "hipc_math.h"
#include "hipc_mixed.h"
#include "shared/attention.h"

namespace hipc {

constexpr f32 NOTHING = -__builtin_inff();

using Attention = AttentionArguments;

DEVICE i64 length_of(const LengthsArgument &lengths, i32 b) {
  return lengths.data ? (i64)lengths.data[lengths.one ? 0 : b] : lengths.otherwise;
}

// More keys than the cache holds are no reason to leave some out.
DEVICE void check_length(const Attention &op, i32 b) {
  if (thread() == 0 && length_of(op.valid, b) > op.capacity) *op.fault = 1;
}

DEVICE f32 factor_of(f32 greatest, f32 limit) { return greatest == NOTHING ? 0.0f : exp_of(greatest - limit); }

struct Row {
  i64 begin, end;
  i32 head, position;
};

// What weighted values of a row are multiplied with at the end, from the greatest score and the sum of the weights.
DEVICE f32 scale_of(const Attention &op, const Row &row, f32 greatest, f32 total) {
  f32 factor = 1;
  if (op.sink || op.smooth) {
    f32 sink = op.sink ? mixed_at(op.sink, op.sink_dtype, row.head) : 0.0f, limit = greatest > sink ? greatest : sink;
    factor = factor_of(greatest, limit);
    total = total * factor + exp_of(sink - limit);
  }
  // A row that sees no key is zero.
  return total == 0 ? 0.0f : factor / total;
}
template <class T> DEVICE T *result_of(const Attention &op, const Row &row, i32 b) {
  return (T *)op.y.data + op.y.first + b * op.y.batch_stride + row.head * op.y.head_stride + row.position * op.y.position_stride;
}
template <class T> DEVICE void finish(const Attention &op, const Row &row, i32 b, i32 c, f32 sum, f32 greatest, f32 total) {
  result_of<T>(op, row, b)[c] = narrow<T>(sum * scale_of(op, row, greatest, total));
}

DEVICE Row row_of(const Attention &op, i32 b, i32 kv_head, i32 number) {
  Row row;
  row.position = number / op.group;
  row.head = kv_head * op.group + number % op.group;
  i64 last = length_of(op.past, b) + row.position + 1, valid = min(length_of(op.valid, b), op.capacity);
  row.end = max(op.causal ? min(valid, last) : valid, (i64)0);
  row.begin = op.window > 0 ? min(max((i64)0, last - op.window), row.end) : 0;
  return row;
}

// A scaled product as the softmax sees it; NOTHING where a mask hides the key.
DEVICE f32 score_of(const Attention &op, f32 score, i32 b, const Row &row, i64 key) {
  if (op.softcap > 0) score = op.softcap * tanh_of(score / op.softcap);
  if (!op.bias.data) return score;
  i64 place = b * op.bias.strides[0] + row.head * op.bias.strides[1] + row.position * op.bias.strides[2] +
              key * op.bias.strides[3];
  bool is_mask = op.bias.dtype != 1 && op.bias.dtype != 10 && op.bias.dtype != 16;
  if (is_mask) return ((const u8 *)op.bias.data)[place] != 0 ? score : NOTHING;
  return score + mixed_at(op.bias.data, op.bias.dtype, place);
}

} // namespace hipc
