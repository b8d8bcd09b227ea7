// hipc_rotary, hipc_kv_append and hipc_kv_window on GPUs. Positions and lengths stay on the device: kernels report those outside.
#include "../host/heads.h"
#include "gpu.h"
#include "shared/recurrent.h"

using namespace hipc;

namespace {

HeadPlaces argument(const Heads &heads) {
  return {heads.first, heads.batch_stride, heads.head_stride, heads.position_stride};
}

} // namespace

HIPC_EXPORT int32_t hipc_rotary(hipc_context *context, const hipc_tensor *x, const hipc_tensor *cos,
                                const hipc_tensor *sin, const hipc_tensor *positions, hipc_tensor *y, int64_t heads,
                                int64_t size, int64_t first, int64_t interleaved) {
  const char *op = "rotary";
  HIPC_TRY(check_contiguous(context, op, x, cos, sin, positions, y));
  Heads in{}, out{};
  HIPC_TRY(read_heads(context, op, "x", x, heads, size, first, &in));
  HIPC_TRY(read_heads(context, op, "y", y, heads, size, 0, &out));
  if (!is_attention_type(x->dtype) || y->dtype != x->dtype) return unsupported_dtype(context, op, x->dtype);
  if (!is_attention_type(cos->dtype) || sin->dtype != cos->dtype) return unsupported_dtype(context, op, cos->dtype);
  if (in.batch != out.batch || in.positions != out.positions || !same_shape(cos, sin) || cos->rank != (positions ? 2 : 3))
    return hipc_error(context, HIPC_ERROR_SHAPE, "rotary: the shapes of x, y, cos and sin do not agree");
  int64_t half = cos->shape[cos->rank - 1], length = in.positions;
  if (2 * half > size)
    return hipc_error(context, HIPC_ERROR_SHAPE, "rotary: %lld pairs of heads of size %lld", (long long)half, (long long)size);
  if (positions && (positions->dtype != I64 || (elements(positions) != 1 && elements(positions) != in.batch * length)))
    return hipc_error(context, HIPC_ERROR_SHAPE, "rotary: %lld positions for %lld of x", (long long)elements(positions),
                      (long long)(in.batch * length));
  if (elements(y) == 0) return HIPC_OK;
  Rotary call{};
  call.x = x->data, call.cos = cos->data, call.sin = sin->data, call.y = y->data;
  call.positions = positions ? data<int64_t>(positions) : nullptr;
  call.fault = device_fault(context);
  if (!call.fault) return HIPC_ERROR_MEMORY;
  call.x_at = argument(in), call.y_at = argument(out);
  call.batch = in.batch, call.length = length, call.rows = extent(cos, 0, cos->rank - 1);
  call.heads = (int32_t)heads, call.size = (int32_t)size, call.half = (int32_t)half, call.interleaved = interleaved != 0;
  call.positions_count = positions ? (int32_t)elements(positions) : 0, call.angle_dtype = cos->dtype;
  return launch(context, kernel_name("rotary", x->dtype), over(context, in.batch * length * heads * ceil_div(size, (int64_t)2)), call);
}

HIPC_EXPORT int32_t hipc_kv_append(hipc_context *context, const hipc_tensor *update, const hipc_tensor *past,
                                   const hipc_tensor *lengths, hipc_tensor *present, int64_t heads, int64_t size,
                                   int64_t first) {
  const char *op = "kv_append";
  HIPC_TRY(check_contiguous(context, op, update, past, lengths, present));
  Heads in{}, old{}, out{};
  HIPC_TRY(read_heads(context, op, "update", update, heads, size, first, &in));
  HIPC_TRY(read_heads(context, op, "present", present, heads, size, 0, &out));
  if (past) HIPC_TRY(read_heads(context, op, "past", past, heads, size, 0, &old));
  if (update->dtype != present->dtype || (past && past->dtype != present->dtype))
    return hipc_error(context, HIPC_ERROR_UNSUPPORTED, "kv_append of %s to a cache of %s", dtype_name(update->dtype),
                      dtype_name(present->dtype));
  if (in.batch != out.batch || (past && old.batch != out.batch))
    return hipc_error(context, HIPC_ERROR_SHAPE, "kv_append: batches of %lld and %lld", (long long)in.batch,
                      (long long)out.batch);
  if (lengths && (lengths->dtype != I32 || (elements(lengths) != 1 && elements(lengths) != in.batch)))
    return hipc_error(context, HIPC_ERROR_SHAPE, "kv_append: %lld lengths for a batch of %lld",
                      (long long)elements(lengths), (long long)in.batch);
  CacheAppend call{};
  call.capacity = past ? old.positions : 0;
  if (!lengths && call.capacity + in.positions > out.positions)
    return hipc_error(context, HIPC_ERROR_VALUE, "kv_append: the cache holds %lld positions; %lld are needed",
                      (long long)out.positions, (long long)(call.capacity + in.positions));
  if (elements(present) == 0) return HIPC_OK;
  call.update = update->data, call.past = past ? past->data : nullptr, call.present = present->data;
  call.lengths = lengths ? data<int32_t>(lengths) : nullptr;
  call.fault = device_fault(context);
  if (!call.fault) return HIPC_ERROR_MEMORY;
  call.update_at = argument(in), call.past_at = argument(old), call.present_at = argument(out);
  call.batch = in.batch, call.heads = heads, call.size = size, call.added = in.positions, call.room = out.positions;
  call.lengths_count = lengths ? (int32_t)elements(lengths) : 0;
  // A cache that is appended to in place keeps what it holds: nothing is copied.
  call.in_place = past && past->data == present->data && old.positions == out.positions;
  int64_t bytes = element_size(present->dtype), positions = call.in_place ? call.added : call.room;
  bool wide = size * bytes % 16 == 0 && in.first * bytes % 16 == 0 && in.position_stride * bytes % 16 == 0 &&
              ((uintptr_t)call.update | (uintptr_t)call.past | (uintptr_t)call.present) % 16 == 0;
  if (wide) {
    int64_t unit = 16 / bytes;
    call.size /= unit;
    HeadPlaces *places[] = {&call.update_at, &call.past_at, &call.present_at};
    for (HeadPlaces *at : places)
      at->first /= unit, at->batch_stride /= unit, at->head_stride /= unit, at->position_stride /= unit;
    bytes = 16;
  }
  return launch(context, kernel_name_of_size("kv_append", bytes), over(context, in.batch * heads * positions * call.size), call);
}

HIPC_EXPORT int32_t hipc_kv_window(hipc_context *context, const hipc_tensor *staged, const hipc_tensor *filled,
                                   const hipc_tensor *kept, hipc_tensor *present, int64_t window) {
  const char *op = "kv_window";
  HIPC_TRY(check_contiguous(context, op, staged, filled, kept, present));
  if (staged->dtype != present->dtype || filled->dtype != I32 || kept->dtype != I32)
    return unsupported_dtype(context, op, staged->dtype);
  const int64_t *shape = present->shape;
  if (staged->rank != 4 || present->rank != 4 || staged->shape[0] != shape[0] || staged->shape[1] != shape[1] ||
      staged->shape[3] != shape[3] || elements(filled) != shape[0] || elements(kept) != shape[0])
    return hipc_error(context, HIPC_ERROR_SHAPE, "kv_window: the shapes of the caches do not agree");
  if (shape[2] < window)
    return hipc_error(context, HIPC_ERROR_VALUE, "kv_window: the cache holds %lld positions; the window needs %lld",
                      (long long)shape[2], (long long)window);
  if (elements(present) == 0) return HIPC_OK;
  int64_t bytes = element_size(present->dtype), size = shape[3];
  if (size * bytes % 16 == 0 && ((uintptr_t)staged->data | (uintptr_t)present->data) % 16 == 0)
    size = size * bytes / 16, bytes = 16;
  KvWindow call{staged->data, data<int32_t>(filled), data<int32_t>(kept), present->data, device_fault(context),
                shape[0], shape[1], size, staged->shape[2], shape[2]};
  if (!call.fault) return HIPC_ERROR_MEMORY;
  return launch(context, kernel_name_of_size(op, bytes), over(context, elements(present) * element_size(present->dtype) / bytes), call);
}
