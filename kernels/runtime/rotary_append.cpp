// hipc_rotary_append: the new queries, keys and values of a decoder layer, rotated and appended to their caches.
#include "gpu.h"

using namespace hipc;

namespace {

constexpr const char *OP = "rotary_append";
constexpr uint32_t BLOCK = 128, MOVES = 64;

// As kernels/device/rotary_append.hip declares them.
struct Packed {
  const void *data;
  int64_t stride, first;
};
struct Rotation {
  const void *cos, *sin;
  const int64_t *positions;
  int32_t table_dtype, half, interleaved;
  int64_t rows;
};
struct Cache {
  void *k, *v;
  const int32_t *lengths;
  int32_t one_length;
  int64_t capacity;
};

Packed packed(const hipc_tensor *tensor, int64_t first) { return {tensor->data, tensor->shape[2], first}; }

int32_t keep_past(hipc_context *context, const hipc_tensor *past, hipc_tensor *present, const Cache &cache) {
  if (past && past->data == present->data && same_shape(past, present)) return HIPC_OK;
  if (!past) return device_fill(context, present->data, 0, elements(present) * element_size(present->dtype));
  Launch grid;
  grid.grid[0] = (uint32_t)(present->shape[0] * present->shape[1]);
  grid.grid[1] = MOVES;
  grid.block[0] = 256;
  return launch(context, kernel_name_of_size("cache_move", element_size(present->dtype)), grid, past->data, present->data,
                cache.lengths, cache.one_length, (int32_t)present->shape[1], (int32_t)present->shape[3], past->shape[2],
                present->shape[2]);
}

} // namespace

HIPC_EXPORT int32_t hipc_rotary_append(hipc_context *context, const hipc_tensor *q, const hipc_tensor *k,
                                       const hipc_tensor *v, const hipc_tensor *cos, const hipc_tensor *sin,
                                       const hipc_tensor *positions, const hipc_tensor *past_k, const hipc_tensor *past_v,
                                       const hipc_tensor *lengths, hipc_tensor *rotated, hipc_tensor *present_k,
                                       hipc_tensor *present_v, int64_t q_heads, int64_t kv_heads, int64_t size,
                                       int64_t q_first, int64_t k_first, int64_t v_first, int64_t interleaved) {
  HIPC_TRY(check_contiguous(context, OP, q, k, v, cos, sin, positions, past_k, past_v, lengths, rotated, present_k, present_v));
  if (q->dtype != F32 && q->dtype != F16 && q->dtype != BF16) return unsupported_dtype(context, OP, q->dtype);
  int64_t batch = q->shape[0], length = q->shape[1], half = cos->shape[1];
  auto covers = [&](const hipc_tensor *tensor, int64_t heads, int64_t first) {
    return tensor->shape[0] == batch && tensor->shape[1] == length && first + heads * size <= tensor->shape[2];
  };
  auto is_cache = [&](const hipc_tensor *tensor) {
    return !tensor || (tensor->shape[0] == batch && tensor->shape[1] == kv_heads && tensor->shape[3] == size);
  };
  bool fits = covers(q, q_heads, q_first) && covers(k, kv_heads, k_first) && covers(v, kv_heads, v_first) &&
              is_cache(past_k) && is_cache(past_v) && is_cache(present_k) && is_cache(present_v) &&
              present_k->shape[2] == present_v->shape[2] && same_shape(cos, sin) && 2 * half <= size &&
              (elements(lengths) == 1 || elements(lengths) == batch) && (!positions || elements(positions) == batch * length);
  if (!fits) return hipc_error(context, HIPC_ERROR_SHAPE, "rotary_append: the shapes of its operands do not agree");
  if (batch * length == 0) return HIPC_OK;
  if (batch > 0xffff || length > 0xffff)
    return hipc_error(context, HIPC_ERROR_UNSUPPORTED, "rotary_append of %lld positions for a batch of %lld",
                      (long long)length, (long long)batch);
  Cache cache{present_k->data, present_v->data, data<int32_t>(lengths), elements(lengths) == 1, present_k->shape[2]};
  HIPC_TRY(keep_past(context, past_k, present_k, cache));
  HIPC_TRY(keep_past(context, past_v, present_v, cache));
  Rotation rotation{cos->data, sin->data, positions ? data<int64_t>(positions) : nullptr, cos->dtype, (int32_t)half,
                    (int32_t)interleaved, cos->shape[0]};
  int32_t *fault = device_fault(context);
  if (!fault) return HIPC_ERROR_MEMORY;
  Launch grid;
  grid.grid[0] = (uint32_t)ceil_div(q_heads + 2 * kv_heads, (int64_t)BLOCK / wave_size(context));
  grid.grid[1] = (uint32_t)length, grid.grid[2] = (uint32_t)batch;
  grid.block[0] = BLOCK;
  return launch(context, kernel_name("rotary_append", q->dtype), grid, packed(q, q_first), packed(k, k_first),
                packed(v, v_first), rotation, cache, rotated->data, (int32_t)q_heads, (int32_t)kv_heads, (int32_t)size,
                (int32_t)length, fault);
}
