// hipc_cached_attention: the new queries and keys of a decoder layer rotated, keys and values appended to their caches, and
// attention over what these then hold. One position of a batch entry is one launch; more are rotated and appended first.
#include "gpu.h"
#include "shared/attention.h"

using namespace hipc;

extern "C" int32_t hipc_attention(hipc_context *, const hipc_tensor *, const hipc_tensor *, const hipc_tensor *,
                                  const hipc_tensor *, const hipc_tensor *, const hipc_tensor *, const hipc_tensor *,
                                  hipc_tensor *, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, double,
                                  int64_t, int64_t, double, int64_t);

namespace {

constexpr const char *OP = "cached_attention";
constexpr uint32_t BLOCK = 128, MOVES = 64;
constexpr int64_t HEADS = 4;  // that a wave of rotary_append has
// Of attention_step.hip: threads of a block, and how many chunks of keys one takes before it shares the work.
constexpr uint32_t STEP_BLOCK = 256;
constexpr int32_t CHUNKS = 2, ELEMENTS = 8;

PackedArgument packed(const hipc_tensor *tensor, int64_t first) { return {tensor->data, tensor->shape[2], first}; }

int32_t keep_past(hipc_context *context, const hipc_tensor *past, hipc_tensor *present, const CacheArgument &cache) {
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

// What an operation has, its operands checked against each other.
struct Layer {
  const hipc_tensor *q, *k, *v, *cos, *sin, *positions, *past, *valid, *bias, *sink;
  hipc_tensor *y, *present_k, *present_v;
  int64_t q_heads, kv_heads, size, q_first, k_first, v_first, interleaved, window, smooth;
  double scale, softcap;
  int64_t batch() const { return q->shape[0]; }
  int64_t length() const { return q->shape[1]; }
  int64_t half() const { return cos ? cos->shape[1] : 0; }
};

// The columns of a [batch, position, columns] tensor from one on.
const void *columns_of(const hipc_tensor *tensor, int64_t first) {
  return (const char *)tensor->data + first * element_size(tensor->dtype);
}

// Whether one launch can do all of it; `counters` are for blocks that share a row.
bool fits_step(hipc_context *context, const Layer &op) {
  bool aligned = ((uintptr_t)op.present_k->data | (uintptr_t)op.present_v->data) % 16 == 0;
  return op.length() == 1 && (op.size == 64 || op.size == 128) && !op.bias && op.softcap == 0 && aligned &&
         op.present_k->shape[2] <= 0x7fffffff && op.q_heads <= 0xffff && op.size / ELEMENTS <= wave_size(context) &&
         op.batch() * op.q_heads <= MOST_COUNTERS;
}

int32_t step(hipc_context *context, const Layer &op) {
  int64_t rows = op.batch() * op.q_heads, chunk = (int64_t)STEP_BLOCK / (op.size / ELEMENTS) * (op.q->dtype == F32 ? 2 : 4);
  AttentionStep step{};
  step.q = columns_of(op.q, op.q_first), step.k = columns_of(op.k, op.k_first), step.v = columns_of(op.v, op.v_first);
  step.q_stride = op.q->shape[2], step.k_stride = op.k->shape[2], step.v_stride = op.v->shape[2];
  if (op.cos) {
    step.cos = op.cos->data, step.sin = op.sin->data;
    step.table_dtype = op.cos->dtype, step.half = (int32_t)op.half(), step.rows = op.cos->shape[0];
    step.interleaved = (int32_t)op.interleaved;
    step.positions = op.positions ? data<const int64_t>(op.positions) : nullptr;
  }
  step.k_cache = op.present_k->data, step.v_cache = op.present_v->data, step.y = op.y->data;
  step.capacity = op.present_k->shape[2];
  step.past = data<int32_t>(op.past), step.one_past = elements(op.past) == 1;
  step.valid = data<int32_t>(op.valid), step.one_valid = elements(op.valid) == 1;
  if (op.sink) step.sink = op.sink->data, step.sink_dtype = op.sink->dtype;
  step.smooth = (int32_t)op.smooth;
  step.q_heads = (int32_t)op.q_heads, step.kv_heads = (int32_t)op.kv_heads;
  step.group = (int32_t)(op.q_heads / op.kv_heads), step.window = (int32_t)op.window;
  // Two blocks a compute unit; those that a short cache does not need leave at once.
  step.few = CHUNKS;
  step.parts = (int32_t)min(ceil_div(2 * (int64_t)compute_units(context), rows), ceil_div(step.capacity, CHUNKS * chunk));
  step.parts = max(step.parts, 1);
  step.scale = (float)(op.scale * 1.44269504088896340736);
  step.fault = device_fault(context);
  step.counters = device_counters(context);
  if (!step.fault || !step.counters) return HIPC_ERROR_MEMORY;
  if (step.parts > 1) {
    step.joined = (float *)device_scratch(context, rows * step.parts * (op.size + 2) * (int64_t)sizeof(float));
    if (!step.joined) return out_of_memory(context, OP);
  }
  Launch grid;
  grid.grid[0] = (uint32_t)step.parts, grid.grid[1] = (uint32_t)op.q_heads, grid.grid[2] = (uint32_t)op.batch();
  grid.block[0] = STEP_BLOCK;
  return launch(context, kernel_name(op.size == 64 ? "attention_step_s64" : "attention_step_s128", op.q->dtype), grid, step);
}

// How many lanes have a head, each a vector of either half; 0 where not all of it turns so, or where vectors are not aligned.
int32_t lanes_of_head(hipc_context *context, const Layer &op, const Rotation &rotation) {
  int64_t vector = 16 / element_size(op.q->dtype), lanes = rotation.half / vector;
  if (rotation.interleaved || 2 * rotation.half != op.size || rotation.half % vector) return 0;
  if (lanes < 1 || lanes > wave_size(context)) return 0;
  const void *all[] = {op.q->data,         op.k->data,         op.v->data,   op.y->data,
                       op.present_k->data, op.present_v->data, rotation.cos, rotation.sin};
  for (const void *pointer : all)
    if ((uintptr_t)pointer % 16) return 0;
  int64_t offsets = op.q_first | op.k_first | op.v_first | op.q->shape[2] | op.k->shape[2] | op.v->shape[2];
  return offsets % vector ? 0 : (int32_t)lanes;
}

int32_t rotate_and_append(hipc_context *context, const Layer &op) {
  CacheArgument cache{op.present_k->data, op.present_v->data, data<int32_t>(op.past), elements(op.past) == 1, op.present_k->shape[2]};
  Rotation rotation{};
  rotation.half = (int32_t)op.half(), rotation.interleaved = (int32_t)op.interleaved;
  if (op.cos) {
    rotation.cos = op.cos->data, rotation.sin = op.sin->data, rotation.table_dtype = op.cos->dtype;
    rotation.rows = op.cos->shape[0];
    rotation.positions = op.positions ? data<int64_t>(op.positions) : nullptr;
  }
  int32_t *fault = device_fault(context);
  if (!fault) return HIPC_ERROR_MEMORY;
  int32_t lanes = lanes_of_head(context, op, rotation);
  int64_t heads = lanes ? wave_size(context) / lanes : HEADS;
  Launch grid;
  grid.grid[0] = (uint32_t)op.length(), grid.grid[2] = (uint32_t)op.batch();
  grid.grid[1] = (uint32_t)ceil_div(op.q_heads + 2 * op.kv_heads, heads * ((int64_t)BLOCK / wave_size(context)));
  grid.block[0] = BLOCK;
  return launch(context, kernel_name("rotary_append", op.q->dtype), grid, packed(op.q, op.q_first), packed(op.k, op.k_first),
                packed(op.v, op.v_first), rotation, cache, op.y->data, (int32_t)op.q_heads, (int32_t)op.kv_heads,
                (int32_t)op.size, (int32_t)op.length(), lanes, fault);
}

bool fits(const Layer &op, const hipc_tensor *past_k, const hipc_tensor *past_v) {
  auto covers = [&](const hipc_tensor *tensor, int64_t heads, int64_t first) {
    return tensor->shape[0] == op.batch() && tensor->shape[1] == op.length() && first + heads * op.size <= tensor->shape[2];
  };
  auto is_cache = [&](const hipc_tensor *tensor) {
    return !tensor || (tensor->shape[0] == op.batch() && tensor->shape[1] == op.kv_heads && tensor->shape[3] == op.size);
  };
  auto counts = [&](const hipc_tensor *tensor) { return elements(tensor) == 1 || elements(tensor) == op.batch(); };
  return covers(op.q, op.q_heads, op.q_first) && covers(op.k, op.kv_heads, op.k_first) &&
         covers(op.v, op.kv_heads, op.v_first) && is_cache(past_k) && is_cache(past_v) && is_cache(op.present_k) &&
         is_cache(op.present_v) && op.present_k->shape[2] == op.present_v->shape[2] && !op.cos == !op.sin &&
         (!op.cos || same_shape(op.cos, op.sin)) && 2 * op.half() <= op.size && counts(op.past) && counts(op.valid) &&
         (!op.positions || elements(op.positions) == op.batch() * op.length()) && op.q_heads % op.kv_heads == 0 &&
         (!op.sink || elements(op.sink) == op.q_heads);
}

} // namespace

HIPC_EXPORT int32_t hipc_cached_attention(
    hipc_context *context, const hipc_tensor *q, const hipc_tensor *k, const hipc_tensor *v, const hipc_tensor *cos,
    const hipc_tensor *sin, const hipc_tensor *positions, const hipc_tensor *past_k, const hipc_tensor *past_v,
    const hipc_tensor *past_lengths, const hipc_tensor *lengths, const hipc_tensor *bias, const hipc_tensor *sink,
    hipc_tensor *y, hipc_tensor *present_k, hipc_tensor *present_v, int64_t q_heads, int64_t kv_heads, int64_t size,
    int64_t q_first, int64_t k_first, int64_t v_first, int64_t interleaved, double scale, int64_t window, double softcap,
    int64_t smooth) {
  HIPC_TRY(check_contiguous(context, OP, q, k, v, cos, sin, positions, past_k, past_v, past_lengths, lengths, bias, sink, y,
                            present_k, present_v));
  if (q->dtype != F32 && q->dtype != F16 && q->dtype != BF16) return unsupported_dtype(context, OP, q->dtype);
  Layer op{q, k, v, cos, sin, positions, past_lengths, lengths, bias, sink, y, present_k, present_v, q_heads, kv_heads, size,
           q_first, k_first, v_first, interleaved, window, smooth, scale, softcap};
  if (!fits(op, past_k, past_v))
    return hipc_error(context, HIPC_ERROR_SHAPE, "cached_attention: the shapes of its operands do not agree");
  if (op.batch() * op.length() == 0) return HIPC_OK;
  if (op.batch() > 0xffff || op.length() > 0xffff)
    return hipc_error(context, HIPC_ERROR_UNSUPPORTED, "cached_attention of %lld positions for a batch of %lld",
                      (long long)op.length(), (long long)op.batch());
  CacheArgument cache{present_k->data, present_v->data, data<int32_t>(past_lengths), elements(past_lengths) == 1, present_k->shape[2]};
  HIPC_TRY(keep_past(context, past_k, present_k, cache));
  HIPC_TRY(keep_past(context, past_v, present_v, cache));
  if (fits_step(context, op)) return step(context, op);
  // Rotated queries take the place of y: whatever computes a row of y reads no other row of them.
  HIPC_TRY(rotate_and_append(context, op));
  return hipc_attention(context, y, present_k, present_v, bias, past_lengths, lengths, sink, y, q_heads, kv_heads, size, size, 0,
                        0, 0, scale, 1, window, softcap, smooth);
}
