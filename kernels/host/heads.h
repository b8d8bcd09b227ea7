// Tensors of attention heads, in either of the layouts that exporters use.
#pragma once
#include "gemm.h"
#include "hipc_ops.h"

namespace hipc {

// Vectors of `size` elements by batch entry, head and position. Rank 4 is [batch, head, position, size]; rank 3 is
// [batch, position, columns], where the heads lie side by side from column `first` on.
struct Heads {
  void *data;
  int32_t dtype;
  int64_t batch, positions, first, batch_stride, head_stride, position_stride;

  int64_t at(int64_t b, int64_t head, int64_t position) const {
    return first + b * batch_stride + head * head_stride + position * position_stride;
  }
};

inline int32_t read_heads(hipc_context *context, const char *op, const char *what, const hipc_tensor *tensor,
                          int64_t heads, int64_t size, int64_t first, Heads *out) {
  const int64_t *shape = tensor->shape;
  if (tensor->rank != 3 && tensor->rank != 4)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: %s has rank %d; 3 or 4 is needed", op, what, tensor->rank);
  bool fits = tensor->rank == 4 ? shape[1] == heads && shape[3] == size : first >= 0 && first + heads * size <= shape[2];
  if (!fits)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: %s does not hold %lld heads of size %lld from column %lld on", op,
                      what, (long long)heads, (long long)size, (long long)first);
  *out = tensor->rank == 4
             ? Heads{tensor->data, tensor->dtype, shape[0], shape[2], 0, heads * shape[2] * size, shape[2] * size, size}
             : Heads{tensor->data, tensor->dtype, shape[0], shape[1], first, shape[1] * shape[2], size, shape[2]};
  return HIPC_OK;
}

// A cache of integers, [batch, head, position, size * bits / 8] bytes: of 8 bits as they are, of 4 bits two to a byte, the
// first in the low half, 8 more than their value.
struct PackedHeads {
  Heads heads;
  int64_t bits;

  uint8_t *row(int64_t b, int64_t head, int64_t position) const {
    return (uint8_t *)heads.data + heads.at(b, head, position) * bits / 8;
  }
};

inline int32_t read_packed_heads(hipc_context *context, const char *op, const char *what, const hipc_tensor *tensor,
                                 int64_t heads, int64_t size, int64_t bits, PackedHeads *out) {
  const int64_t *shape = tensor->shape;
  if ((bits != 8 && bits != 4) || element_size(tensor->dtype) != 1)
    return hipc_error(context, HIPC_ERROR_UNSUPPORTED, "%s: a cache of %lld bits in elements of %s", op, (long long)bits,
                      dtype_name(tensor->dtype));
  if (tensor->rank != 4 || shape[1] != heads || shape[3] * 8 != size * bits)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: %s does not hold %lld heads of size %lld in %lld bits", op, what,
                      (long long)heads, (long long)size, (long long)bits);
  *out = {{tensor->data, tensor->dtype, shape[0], shape[2], 0, heads * shape[2] * size, shape[2] * size, size}, bits};
  return HIPC_OK;
}

inline bool is_attention_type(int32_t dtype) { return dtype == F32 || dtype == F16 || dtype == BF16; }

} // namespace hipc
