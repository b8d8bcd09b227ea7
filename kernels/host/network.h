// What the runtimes check of a recurrent network before they compute it.
#pragma once
#include "hipc_ops.h"
#include "shared/recurrent_network.h"

namespace hipc {

enum NetworkDirection : int64_t { FORWARD, REVERSE, BIDIRECTIONAL };

struct NetworkOperands {
  const char *op;
  const hipc_tensor *x, *w, *r, *bias, *lengths, *initial_h, *initial_c, *peepholes;
  hipc_tensor *y, *y_h, *y_c;
};
struct NetworkFunctions {
  const int64_t *numbers;
  int64_t count;
  const double *alpha;
  int64_t alphas;
  const double *beta;
  int64_t betas;
};
struct NetworkSizes {
  int64_t steps, batch, input, hidden, directions, gates, layout;
};

inline bool has_elements(const hipc_tensor *tensor, int64_t count) { return !tensor || elements(tensor) == count; }

inline int32_t read_network(hipc_context *context, const NetworkOperands &o, int64_t gates, int64_t layout, int64_t direction,
                            NetworkSizes *s) {
  HIPC_TRY(check_contiguous(context, o.op, o.x, o.w, o.r, o.bias, o.lengths, o.initial_h, o.initial_c, o.peepholes,
                            o.y, o.y_h, o.y_c));
  if (o.x->rank != 3 || o.w->rank != 3 || o.r->rank != 3)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: the input and both weights must have rank 3", o.op);
  const hipc_tensor *all[] = {o.w, o.r, o.bias, o.initial_h, o.initial_c, o.peepholes, o.y, o.y_h, o.y_c};
  for (const hipc_tensor *tensor : all)
    if (tensor && tensor->dtype != o.x->dtype) return unsupported_dtype(context, o.op, tensor->dtype);
  if (o.lengths && o.lengths->dtype != I32) return unsupported_dtype(context, o.op, o.lengths->dtype);
  *s = {o.x->shape[layout ? 1 : 0], o.x->shape[layout ? 0 : 1], o.x->shape[2], o.r->shape[2],
        direction == BIDIRECTIONAL ? 2 : 1, gates, layout};
  int64_t wide = s->directions * gates * s->hidden, state = s->directions * s->batch * s->hidden;
  if (elements(o.w) == wide * s->input && elements(o.r) == wide * s->hidden && has_elements(o.bias, 2 * wide) &&
      has_elements(o.initial_h, state) && has_elements(o.initial_c, state) &&
      has_elements(o.peepholes, 3 * s->directions * s->hidden) && has_elements(o.lengths, s->batch) &&
      elements(o.y) == s->steps * state && elements(o.y_h) == state && has_elements(o.y_c, state))
    return HIPC_OK;
  return hipc_error(context, HIPC_ERROR_SHAPE, "%s: extents of the operands do not fit each other", o.op);
}

// The functions of every direction, `each` of them.
inline int32_t read_functions(hipc_context *context, const char *op, const NetworkFunctions &given, int64_t directions,
                              int64_t each, NetworkActivation (*functions)[NETWORK_FUNCTIONS]) {
  if (given.count != directions * each || given.alphas != given.count || given.betas != given.count)
    return hipc_error(context, HIPC_ERROR_VALUE, "%s needs %lld activations for each direction", op, (long long)each);
  for (int64_t i = 0; i < given.count; i++) {
    if (given.numbers[i] < 0 || given.numbers[i] >= NET_FUNCTIONS)
      return hipc_error(context, HIPC_ERROR_VALUE, "%s: activation %lld is not known", op, (long long)given.numbers[i]);
    functions[i / each][i % each] = {given.alpha[i], given.beta[i], (int32_t)given.numbers[i], 0};
  }
  return HIPC_OK;
}

} // namespace hipc
