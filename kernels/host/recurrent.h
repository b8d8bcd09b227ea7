// What the runtimes read and check of a causal convolution along a sequence.
#pragma once
#include "heads.h"
#include "shared/recurrent.h"

namespace hipc {

inline int32_t read_causal_conv(hipc_context *context, const hipc_tensor *x, const hipc_tensor *w, const hipc_tensor *bias,
                                const hipc_tensor *past, hipc_tensor *y, hipc_tensor *present, int64_t dilation,
                                int64_t silu, CausalConv *call) {
  const char *op = "causal_conv";
  HIPC_TRY(check_contiguous(context, op, x, w, bias, past, y, present));
  HIPC_TRY(check_same_shape(context, op, x, y));
  const hipc_tensor *all[] = {x, w, bias, past, y, present};
  for (const hipc_tensor *tensor : all)
    if (tensor && tensor->dtype != x->dtype) return unsupported_dtype(context, op, tensor->dtype);
  if (!is_attention_type(x->dtype)) return unsupported_dtype(context, op, x->dtype);
  if (x->rank != 3 || w->rank != 3 || dilation < 1)
    return hipc_error(context, HIPC_ERROR_SHAPE, "causal_conv: ranks %d and %d", x->rank, w->rank);
  *call = {};
  call->channels = x->shape[1], call->length = x->shape[2], call->taps = w->shape[2], call->dilation = dilation;
  call->rows = x->shape[0] * call->channels, call->carried = (call->taps - 1) * dilation, call->silu = silu != 0;
  if (w->shape[0] != call->channels || w->shape[1] != 1 || (bias && elements(bias) != call->channels) ||
      elements(present) != call->rows * call->carried || (past && elements(past) != call->rows * call->carried))
    return hipc_error(context, HIPC_ERROR_SHAPE, "causal_conv: the shapes of its operands do not agree");
  call->x = x->data, call->w = w->data, call->bias = bias ? bias->data : nullptr, call->past = past ? past->data : nullptr;
  call->y = y->data, call->present = present->data;
  return HIPC_OK;
}

} // namespace hipc
