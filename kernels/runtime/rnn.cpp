// hipc_lstm, hipc_gru and hipc_rnn on GPUs.
#include "gpu.h"
#include "shared/recurrent_network.h"

using namespace hipc;

namespace {

enum Direction : int64_t { FORWARD, REVERSE, BIDIRECTIONAL };
constexpr int64_t TILE = 64, FEW_ROWS = 4;

struct Operands {
  const char *op;
  const hipc_tensor *x, *w, *r, *bias, *lengths, *initial_h, *initial_c, *peepholes;
  hipc_tensor *y, *y_h, *y_c;
};

struct Functions {
  const int64_t *numbers;
  int64_t count;
  const double *alpha;
  int64_t alphas;
  const double *beta;
  int64_t betas;
};

void *data_of(const hipc_tensor *tensor) { return tensor ? tensor->data : nullptr; }
bool has_elements(const hipc_tensor *tensor, int64_t count) { return !tensor || elements(tensor) == count; }

int32_t read_operands(hipc_context *context, const Operands &o, Network *net) {
  HIPC_TRY(check_contiguous(context, o.op, o.x, o.w, o.r, o.bias, o.lengths, o.initial_h, o.initial_c, o.peepholes,
                            o.y, o.y_h, o.y_c));
  if (o.x->rank != 3 || o.w->rank != 3 || o.r->rank != 3)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: the input and both weights must have rank 3", o.op);
  if (o.x->dtype != F32 && o.x->dtype != F16 && o.x->dtype != BF16 && o.x->dtype != F64)
    return unsupported_dtype(context, o.op, o.x->dtype);
  const hipc_tensor *all[] = {o.w, o.r, o.bias, o.initial_h, o.initial_c, o.peepholes, o.y, o.y_h, o.y_c};
  for (const hipc_tensor *tensor : all)
    if (tensor && tensor->dtype != o.x->dtype) return unsupported_dtype(context, o.op, tensor->dtype);
  if (o.lengths && o.lengths->dtype != I32) return unsupported_dtype(context, o.op, o.lengths->dtype);
  net->steps = o.x->shape[net->layout ? 1 : 0], net->batch = o.x->shape[net->layout ? 0 : 1];
  net->input = o.x->shape[2], net->hidden = o.r->shape[2];
  int64_t wide = net->directions * net->gates * net->hidden, state = net->directions * net->batch * net->hidden;
  if (elements(o.w) != wide * net->input || elements(o.r) != wide * net->hidden || !has_elements(o.bias, 2 * wide) ||
      !has_elements(o.initial_h, state) || !has_elements(o.initial_c, state) ||
      !has_elements(o.peepholes, 3 * net->directions * net->hidden) || !has_elements(o.lengths, net->batch) ||
      elements(o.y) != net->steps * state || elements(o.y_h) != state || !has_elements(o.y_c, state))
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: extents of the operands do not fit each other", o.op);
  net->x = o.x->data, net->w = o.w->data, net->r = o.r->data, net->bias = data_of(o.bias);
  net->initial_h = data_of(o.initial_h), net->initial_c = data_of(o.initial_c), net->peepholes = data_of(o.peepholes);
  net->lengths = (const int32_t *)data_of(o.lengths);
  net->y = o.y->data, net->y_h = o.y_h->data, net->y_c = data_of(o.y_c);
  return HIPC_OK;
}

int32_t read_functions(hipc_context *context, const char *op, const Functions &given, int64_t each, Network *net) {
  if (given.count != net->directions * each || given.alphas != given.count || given.betas != given.count)
    return hipc_error(context, HIPC_ERROR_VALUE, "%s needs %lld activations for each direction", op, (long long)each);
  for (int64_t i = 0; i < given.count; i++) {
    if (given.numbers[i] < 0 || given.numbers[i] >= NET_FUNCTIONS)
      return hipc_error(context, HIPC_ERROR_VALUE, "%s: activation %lld is not known", op, (long long)given.numbers[i]);
    net->functions[i / each][i % each] = {given.alpha[i], given.beta[i], (int32_t)given.numbers[i], 0};
  }
  return HIPC_OK;
}

int32_t run(hipc_context *context, const Operands &o, const Functions &functions, int64_t each, int64_t direction, Network net) {
  net.directions = direction == BIDIRECTIONAL ? 2 : 1, net.reversed = direction == REVERSE;
  HIPC_TRY(read_operands(context, o, &net));
  HIPC_TRY(read_functions(context, o.op, functions, each, &net));
  int64_t rows = net.steps * net.batch, wide = net.gates * net.hidden, size = o.x->dtype == F64 ? 8 : 4;
  if (net.batch * net.hidden == 0) return HIPC_OK;
  ScratchPlan plan;
  int64_t projected_at = plan.add(net.directions * rows * wide * size);
  int64_t work_at = plan.add(net.directions * net.batch * (wide + 3 * net.hidden) * size);
  char *scratch = (char *)device_scratch(context, plan.bytes);
  net.fault = device_fault(context);
  if (!scratch) return out_of_memory(context, o.op);
  if (!net.fault) return HIPC_ERROR_MEMORY;
  net.projected = scratch + projected_at, net.work = scratch + work_at;
  if (rows) {
    bool tiled = o.x->dtype != F64 && rows > FEW_ROWS;
    Launch grid = over(context, rows * wide);
    if (tiled) grid.grid[0] = (uint32_t)(ceil_div(rows, TILE) * ceil_div(wide, TILE));
    grid.grid[1] = (uint32_t)net.directions;
    HIPC_TRY(launch(context, kernel_name(tiled ? "rnn_project_tiles" : "rnn_project", o.x->dtype), grid, net));
  }
  Launch grid;
  grid.grid[0] = (uint32_t)net.batch, grid.grid[1] = (uint32_t)net.directions;
  grid.block[0] = (uint32_t)wave_size(context);
  while (grid.block[0] < 1024 && grid.block[0] < wide * 8) grid.block[0] *= 2;
  return launch(context, kernel_name("rnn_walk", o.x->dtype), grid, net);
}

Network network(NetworkKind kind, int64_t gates, double clip, int64_t layout) {
  Network net{};
  net.kind = kind, net.gates = gates, net.clip = clip, net.layout = layout != 0;
  return net;
}

} // namespace

HIPC_EXPORT int32_t hipc_lstm(hipc_context *context, const hipc_tensor *x, const hipc_tensor *w, const hipc_tensor *r,
                              const hipc_tensor *b, const hipc_tensor *sequence_lens, const hipc_tensor *initial_h,
                              const hipc_tensor *initial_c, const hipc_tensor *p, hipc_tensor *y, hipc_tensor *y_h,
                              hipc_tensor *y_c, const int64_t *activations, int64_t num_activations,
                              const double *alpha, int64_t num_alpha, const double *beta, int64_t num_beta,
                              double clip, int64_t direction, int64_t layout, int64_t input_forget) {
  Network net = network(NET_LSTM, 4, clip, layout);
  net.input_forget = input_forget != 0;
  return run(context, {"lstm", x, w, r, b, sequence_lens, initial_h, initial_c, p, y, y_h, y_c},
             {activations, num_activations, alpha, num_alpha, beta, num_beta}, 3, direction, net);
}

HIPC_EXPORT int32_t hipc_gru(hipc_context *context, const hipc_tensor *x, const hipc_tensor *w, const hipc_tensor *r,
                             const hipc_tensor *b, const hipc_tensor *sequence_lens, const hipc_tensor *initial_h,
                             hipc_tensor *y, hipc_tensor *y_h, const int64_t *activations, int64_t num_activations,
                             const double *alpha, int64_t num_alpha, const double *beta, int64_t num_beta, double clip,
                             int64_t direction, int64_t layout, int64_t linear_before_reset) {
  Network net = network(NET_GRU, 3, clip, layout);
  net.linear_before_reset = linear_before_reset != 0;
  return run(context, {"gru", x, w, r, b, sequence_lens, initial_h, nullptr, nullptr, y, y_h, nullptr},
             {activations, num_activations, alpha, num_alpha, beta, num_beta}, 2, direction, net);
}

HIPC_EXPORT int32_t hipc_rnn(hipc_context *context, const hipc_tensor *x, const hipc_tensor *w, const hipc_tensor *r,
                             const hipc_tensor *b, const hipc_tensor *sequence_lens, const hipc_tensor *initial_h,
                             hipc_tensor *y, hipc_tensor *y_h, const int64_t *activations, int64_t num_activations,
                             const double *alpha, int64_t num_alpha, const double *beta, int64_t num_beta, double clip,
                             int64_t direction, int64_t layout) {
  return run(context, {"rnn", x, w, r, b, sequence_lens, initial_h, nullptr, nullptr, y, y_h, nullptr},
             {activations, num_activations, alpha, num_alpha, beta, num_beta}, 1, direction, network(NET_RNN, 1, clip, layout));
}
