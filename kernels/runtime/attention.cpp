// hipc_attention on GPUs: keys are split between blocks where there are fewer tiles of rows than compute units.
#include "../host/heads.h"
#include "gpu.h"
#include "shared/attention.h"

using namespace hipc;

namespace {

constexpr const char *OP = "attention";
constexpr int64_t PART = 8, SPLIT_KEYS = 64, TILE_ROWS = 4, PREFILL_ROWS = 64, PREFILL_WAVES = 4;
constexpr uint32_t BLOCK = 128;
#if defined(HIPC_PLATFORM_NVIDIA)
constexpr bool HAS_TALL_ROWS = true;
#else
constexpr bool HAS_TALL_ROWS = false;
#endif

HeadsArgument argument(const Heads &heads) {
  return {heads.data, heads.first, heads.batch_stride, heads.head_stride, heads.position_stride};
}

bool loads_vectors(const Heads &heads, int64_t size) {
  return (uintptr_t)heads.data % 16 == 0 && size % PART == 0 && heads.first % PART == 0 && heads.batch_stride % PART == 0 &&
         heads.head_stride % PART == 0 && heads.position_stride % PART == 0;
}

int32_t read_lengths(hipc_context *context, const char *what, const hipc_tensor *tensor, int64_t batch, int64_t otherwise,
                     LengthsArgument *out) {
  *out = {nullptr, 0, otherwise};
  if (!tensor) return HIPC_OK;
  if (tensor->dtype != I32 || (elements(tensor) != batch && elements(tensor) != 1))
    return hipc_error(context, HIPC_ERROR_SHAPE, "attention: %s must be %lld numbers of type int32", what, (long long)batch);
  *out = {data<int32_t>(tensor), elements(tensor) == 1, 0};
  return HIPC_OK;
}

int32_t read_bias(hipc_context *context, const hipc_tensor *tensor, const int64_t (&wanted)[4], BiasArgument *out) {
  *out = BiasArgument{};
  if (!tensor) return HIPC_OK;
  int64_t stride = 1, missing = 4 - tensor->rank;
  if (missing < 0) return hipc_error(context, HIPC_ERROR_SHAPE, "attention: the bias has rank %d", tensor->rank);
  for (int32_t i = tensor->rank - 1; i >= 0; i--) {
    int64_t axis = missing + i, extent = tensor->shape[i];
    if (extent != 1 && extent != wanted[axis])
      return hipc_error(context, HIPC_ERROR_SHAPE, "attention: the bias has extent %lld on axis %lld, expected %lld",
                        (long long)extent, (long long)axis, (long long)wanted[axis]);
    out->strides[axis] = extent == 1 ? 0 : stride;
    stride *= extent;
  }
  out->data = tensor->data, out->dtype = tensor->dtype;
  if (is_attention_type(out->dtype) || element_size(out->dtype) == 1) return HIPC_OK;
  return unsupported_dtype(context, "attention bias", out->dtype);
}

int64_t power_of_two(int64_t least) {
  int64_t power = 1;
  while (power < least) power *= 2;
  return power;
}

// Enough rows to fill tiles of the matrix units, and heads that they are made for.
bool fits_matrix_unit(const AttentionArguments &op, int64_t all, int32_t dtype) {
  return all > 4 * TILE_ROWS && (dtype == F16 || dtype == BF16) && op.size == op.v_size && (op.size == 64 || op.size == 128) &&
         op.q_aligned && op.k_aligned && op.v_aligned && op.y_aligned;
}

int32_t run(hipc_context *context, AttentionArguments &op, int64_t batch, int32_t dtype) {
  int64_t all = (int64_t)op.group * op.positions, lanes = power_of_two(ceil_div((int64_t)max(op.size, op.v_size), PART));
  if (lanes > wave_size(context))
    return hipc_error(context, HIPC_ERROR_UNSUPPORTED, "attention of heads of size %d; at most %lld fit a wave",
                      max(op.size, op.v_size), (long long)(wave_size(context) * PART));
  int64_t tile = all < TILE_ROWS ? 1 : TILE_ROWS, tiles = ceil_div(all, tile), heads = batch * op.kv_heads;
  int64_t wanted = ceil_div((int64_t)compute_units(context), tiles * heads);
  if (fits_matrix_unit(op, all, dtype)) {
    // Twice as many rows a block where that leaves two blocks for every compute unit.
    bool tall = HAS_TALL_ROWS && heads * ceil_div(all, 2 * PREFILL_ROWS) >= 2 * (int64_t)compute_units(context);
    Launch grid;
    grid.grid[1] = (uint32_t)heads, grid.grid[2] = (uint32_t)ceil_div(all, tall ? 2 * PREFILL_ROWS : PREFILL_ROWS);
    grid.block[0] = (uint32_t)(PREFILL_WAVES * wave_size(context));
    KernelName family("attention_prefill");
    family.append(tall ? "_tall" : "").append(op.size == 64 ? "_s64" : "_s128");
    if (heads <= 0xffff && grid.grid[2] <= 0xffff) return launch(context, kernel_name(family, dtype), grid, op);
  }
  op.lanes = (int32_t)lanes, op.rows = (int32_t)(heads * all);
  op.splits = (int32_t)max<int64_t>(1, min(wanted, ceil_div(op.capacity, SPLIT_KEYS)));
  // A wave that has fewer rows ends sooner; the keys then come from the cache of the device.
  if (tiles * heads * op.splits < 4 * (int64_t)compute_units(context)) tile = 1, tiles = all;
  if (tiles > 0xffff || heads > 0xffff)
    return hipc_error(context, HIPC_ERROR_UNSUPPORTED, "attention of %lld tiles for %lld heads", (long long)tiles,
                      (long long)heads);
  if (op.splits > 1) {
    op.parts = (float *)device_scratch(context, (int64_t)op.rows * op.splits * (op.v_size + 2) * (int64_t)sizeof(float));
    if (!op.parts) return out_of_memory(context, OP);
  }
  char family[32];
  bool plain = !op.bias.data && op.softcap == 0 && (lanes == 8 || lanes == 16);
  snprintf(family, sizeof family, plain ? "attention_r%d_l%d" : "attention_r%d", (int)tile, (int)lanes);
  Launch grid;
  grid.grid[0] = (uint32_t)op.splits, grid.grid[1] = (uint32_t)tiles, grid.grid[2] = (uint32_t)heads;
  grid.block[0] = BLOCK;
  HIPC_TRY(launch(context, kernel_name(family, dtype), grid, op));
  return op.splits == 1 ? (int32_t)HIPC_OK
                        : launch(context, kernel_name("attention_merge", dtype), rows(op.rows, 64), op);
}

} // namespace

HIPC_EXPORT int32_t hipc_attention(hipc_context *context, const hipc_tensor *q, const hipc_tensor *k,
                                   const hipc_tensor *v, const hipc_tensor *bias, const hipc_tensor *past_lengths,
                                   const hipc_tensor *lengths, const hipc_tensor *sink, hipc_tensor *y, int64_t q_heads,
                                   int64_t kv_heads, int64_t size, int64_t v_size, int64_t q_first, int64_t k_first,
                                   int64_t v_first, double scale, int64_t causal, int64_t window, double softcap,
                                   int64_t smooth) {
  HIPC_TRY(check_contiguous(context, OP, q, k, v, bias, past_lengths, lengths, sink, y));
  Heads query{}, key{}, value{}, result{};
  HIPC_TRY(read_heads(context, OP, "q", q, q_heads, size, q_first, &query));
  HIPC_TRY(read_heads(context, OP, "k", k, kv_heads, size, k_first, &key));
  HIPC_TRY(read_heads(context, OP, "v", v, kv_heads, v_size, v_first, &value));
  HIPC_TRY(read_heads(context, OP, "y", y, q_heads, v_size, 0, &result));
  if (!is_attention_type(q->dtype)) return unsupported_dtype(context, OP, q->dtype);
  if (k->dtype != q->dtype || v->dtype != q->dtype || y->dtype != q->dtype)
    return hipc_error(context, HIPC_ERROR_UNSUPPORTED, "attention of %s, %s and %s", dtype_name(q->dtype),
                      dtype_name(k->dtype), dtype_name(v->dtype));
  if (kv_heads <= 0 || q_heads % kv_heads || size <= 0 || v_size <= 0)
    return hipc_error(context, HIPC_ERROR_SHAPE, "attention of %lld heads over %lld of size %lld", (long long)q_heads,
                      (long long)kv_heads, (long long)size);
  if (key.batch != query.batch || value.batch != query.batch || result.batch != query.batch ||
      key.positions != value.positions || result.positions != query.positions)
    return hipc_error(context, HIPC_ERROR_SHAPE, "attention: q, k, v and y differ in batch or positions");
  if (sink && (elements(sink) != q_heads || !is_attention_type(sink->dtype)))
    return hipc_error(context, HIPC_ERROR_SHAPE, "attention: %lld sinks of %s", (long long)elements(sink),
                      dtype_name(sink->dtype));
  AttentionArguments op{};
  op.q = argument(query), op.k = argument(key), op.v = argument(value), op.y = argument(result);
  op.q_heads = (int32_t)q_heads, op.kv_heads = (int32_t)kv_heads, op.group = (int32_t)(q_heads / kv_heads);
  op.positions = (int32_t)query.positions, op.size = (int32_t)size, op.v_size = (int32_t)v_size;
  op.window = (int32_t)window, op.causal = causal != 0, op.smooth = smooth != 0;
  op.scale = (float)scale, op.softcap = (float)softcap;
  op.capacity = key.positions;
  op.q_aligned = loads_vectors(query, size);
  op.k_aligned = loads_vectors(key, size), op.v_aligned = loads_vectors(value, v_size);
  op.y_aligned = loads_vectors(result, v_size);
  if (sink) op.sink = sink->data, op.sink_dtype = sink->dtype;
  HIPC_TRY(read_lengths(context, "the past length", past_lengths, query.batch, 0, &op.past));
  HIPC_TRY(read_lengths(context, "the number of keys", lengths, query.batch, key.positions, &op.valid));
  HIPC_TRY(read_bias(context, bias, {query.batch, q_heads, query.positions, key.positions}, &op.bias));
  if (elements(y) == 0) return HIPC_OK;
  if (!(op.fault = device_fault(context))) return HIPC_ERROR_MEMORY;
  return run(context, op, query.batch, q->dtype);
}
