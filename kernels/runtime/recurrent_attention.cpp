// hipc_linear_attention and hipc_causal_conv on GPUs.
#include "../host/recurrent.h"
#include "gpu.h"

using namespace hipc;

namespace {

constexpr const char *OP = "linear_attention";
constexpr int64_t SMALL_HEAD = 128, LARGE_HEAD = 512;

HeadPlaces places(const Heads &heads) {
  return {heads.first, heads.batch_stride, heads.head_stride, heads.position_stride};
}

int32_t check_gate(hipc_context *context, const char *what, const hipc_tensor *tensor, int64_t rows, int64_t one,
                   int64_t other, int64_t *columns) {
  if (!tensor) return HIPC_OK;
  *columns = tensor->rank ? tensor->shape[tensor->rank - 1] : 1;
  if (!is_attention_type(tensor->dtype)) return unsupported_dtype(context, OP, tensor->dtype);
  if (elements(tensor) == rows * *columns && (*columns == one || *columns == other)) return HIPC_OK;
  return hipc_error(context, HIPC_ERROR_SHAPE, "%s: %s has %lld columns; %lld or %lld are needed", OP, what,
                    (long long)*columns, (long long)one, (long long)other);
}

} // namespace

HIPC_EXPORT int32_t hipc_linear_attention(hipc_context *context, const hipc_tensor *q, const hipc_tensor *k,
                                          const hipc_tensor *v, const hipc_tensor *past, const hipc_tensor *decay,
                                          const hipc_tensor *beta, hipc_tensor *y, hipc_tensor *present,
                                          int64_t q_heads, int64_t kv_heads, int64_t size, int64_t v_size, double scale) {
  HIPC_TRY(check_contiguous(context, OP, q, k, v, past, decay, beta, y, present));
  Heads q_in{}, k_in{}, v_in{}, out{};
  HIPC_TRY(read_heads(context, OP, "q", q, q_heads, size, 0, &q_in));
  HIPC_TRY(read_heads(context, OP, "k", k, kv_heads, size, 0, &k_in));
  HIPC_TRY(read_heads(context, OP, "v", v, kv_heads, v_size, 0, &v_in));
  HIPC_TRY(read_heads(context, OP, "y", y, q_heads, v_size, 0, &out));
  const hipc_tensor *all[] = {q, past, present};
  for (const hipc_tensor *tensor : all)
    if (tensor && !is_attention_type(tensor->dtype)) return unsupported_dtype(context, OP, tensor->dtype);
  if (k->dtype != q->dtype || v->dtype != q->dtype || y->dtype != q->dtype) return unsupported_dtype(context, OP, k->dtype);
  int64_t batch = q_in.batch, positions = q_in.positions, states = batch * kv_heads * size * v_size;
  if (k_in.batch != batch || v_in.batch != batch || k_in.positions != positions || v_in.positions != positions ||
      kv_heads <= 0 || q_heads % kv_heads || elements(present) != states || (past && elements(past) != states))
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: the shapes of its operands do not agree", OP);
  if (size > LARGE_HEAD)
    return hipc_error(context, HIPC_ERROR_UNSUPPORTED, "%s: heads of %lld; GPUs have kernels for at most %lld", OP,
                      (long long)size, (long long)LARGE_HEAD);
  LinearAttention op{};
  HIPC_TRY(check_gate(context, "decay", decay, batch * positions, kv_heads, kv_heads * size, &op.decay_columns));
  HIPC_TRY(check_gate(context, "beta", beta, batch * positions, kv_heads, 1, &op.beta_columns));
  if (states == 0) return HIPC_OK;
  op.q = q->data, op.k = k->data, op.v = v->data, op.y = y->data, op.present = present->data;
  op.past = past ? past->data : nullptr, op.past_dtype = past ? past->dtype : F32;
  op.decay = decay ? decay->data : nullptr, op.decay_dtype = decay ? decay->dtype : F32;
  op.beta = beta ? beta->data : nullptr, op.beta_dtype = beta ? beta->dtype : F32;
  op.dtype = q->dtype, op.present_dtype = present->dtype;
  op.q_at = places(q_in), op.k_at = places(k_in), op.v_at = places(v_in), op.y_at = places(out);
  op.batch = batch, op.positions = positions, op.kv_heads = kv_heads, op.group = q_heads / kv_heads;
  op.size = size, op.v_size = v_size, op.scale = (float)scale;
  return launch(context, size <= SMALL_HEAD ? "linear_attention_small" : "linear_attention_large",
                over(context, batch * kv_heads * v_size * wave_size(context)), op);
}

HIPC_EXPORT int32_t hipc_causal_conv(hipc_context *context, const hipc_tensor *x, const hipc_tensor *w,
                                     const hipc_tensor *bias, const hipc_tensor *past, hipc_tensor *y,
                                     hipc_tensor *present, int64_t dilation, int64_t silu) {
  const char *op = "causal_conv";
  CausalConv call;
  HIPC_TRY(read_causal_conv(context, x, w, bias, past, y, present, dilation, silu, &call));
  int64_t count = call.rows * (call.length + call.carried);
  if (count == 0) return HIPC_OK;
  return launch(context, kernel_name(op, x->dtype), over(context, count), call);
}
