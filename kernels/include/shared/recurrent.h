// Arguments of the kernels of rotary positions, caches, linear attention and causal convolutions.
#pragma once
#include "arguments.h"

namespace hipc {

// Where vectors of attention heads lie: element strides, as kernels/host/heads.h has them.
struct HeadPlaces {
  i64 first, batch_stride, head_stride, position_stride;
  HIPC_METHOD i64 at(i64 b, i64 head, i64 position) const {
    return first + b * batch_stride + head * head_stride + position * position_stride;
  }
};

struct Rotary {
  const void *x, *cos, *sin;
  const i64 *positions;
  void *y;
  i32 *fault;
  HeadPlaces x_at, y_at;
  i64 batch, length, rows;
  i32 heads, size, half, interleaved, positions_count, angle_dtype;
};

struct CacheAppend {
  const void *update, *past;
  const i32 *lengths;
  void *present;
  i32 *fault;
  HeadPlaces update_at, past_at, present_at;
  i64 batch, heads, size, added, capacity, room;
  i32 lengths_count, in_place;
};

struct LinearAttention {
  const void *q, *k, *v, *past, *decay, *beta;
  void *y, *present;
  HeadPlaces q_at, k_at, v_at, y_at;
  i64 batch, positions, kv_heads, group, size, v_size, decay_columns, beta_columns;
  f32 scale;
  i32 dtype, past_dtype, decay_dtype, beta_dtype, present_dtype;  // ONNX element types
};

struct CausalConv {
  const void *x, *w, *bias, *past;
  void *y, *present;
  i64 rows, channels, length, taps, dilation, carried;
  i32 silu;
};

struct KvWindow {
  const void *staged;
  const i32 *filled, *kept;
  void *present;
  i32 *fault;
  i64 batch, heads, size, room, capacity;
};

} // namespace hipc
