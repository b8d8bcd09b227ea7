// hipc_lstm, hipc_gru and hipc_rnn on GPUs.
#include "../host/network.h"
#include "gpu.h"

using namespace hipc;

namespace {

constexpr int64_t TILE = 64, FEW_ROWS = 4;
// A block that walks the steps takes a launch's time for about so many rows of the state's weights.
constexpr int64_t ROWS_OF_BLOCK = 256;
constexpr int64_t STEP_ROWS = 32, STEP_ENTRIES = 4;  // of a block of rnn_step

void *data_of(const hipc_tensor *tensor) { return tensor ? tensor->data : nullptr; }

int32_t read_operands(hipc_context *context, const NetworkOperands &o, int64_t direction, Network *net) {
  NetworkSizes sizes;
  HIPC_TRY(read_network(context, o, net->gates, net->layout, direction, &sizes));
  if (o.x->dtype != F32 && o.x->dtype != F16 && o.x->dtype != BF16 && o.x->dtype != F64)
    return unsupported_dtype(context, o.op, o.x->dtype);
  net->directions = (int32_t)sizes.directions, net->reversed = direction == REVERSE;
  net->steps = sizes.steps, net->batch = sizes.batch, net->input = sizes.input, net->hidden = sizes.hidden;
  net->x = o.x->data, net->w = o.w->data, net->r = o.r->data, net->bias = data_of(o.bias);
  net->initial_h = data_of(o.initial_h), net->initial_c = data_of(o.initial_c), net->peepholes = data_of(o.peepholes);
  net->lengths = (const int32_t *)data_of(o.lengths);
  net->y = o.y->data, net->y_h = o.y_h->data, net->y_c = data_of(o.y_c);
  return HIPC_OK;
}

// A launch a step; two where a GRU multiplies the state that it has reset.
int32_t run_steps(hipc_context *context, int32_t dtype, const Network &net) {
  HIPC_TRY(launch(context, kernel_name("rnn_begin", dtype), over(context, net.directions * net.batch * net.hidden), net));
  bool apart = net.kind == NET_GRU && !net.linear_before_reset;
  for (int64_t at = 0; at < net.steps; at++)
    for (int32_t phase = 0; phase < (apart ? 2 : 1); phase++) {
      Launch grid;
      int64_t gates = phase ? 1 : apart ? 2 : net.gates;
      grid.block[0] = 256;
      grid.grid[0] = (uint32_t)ceil_div(net.hidden, STEP_ROWS / gates);
      grid.grid[1] = (uint32_t)net.directions, grid.grid[2] = (uint32_t)ceil_div(net.batch, STEP_ENTRIES);
      HIPC_TRY(launch(context, kernel_name("rnn_step", dtype), grid, net, at, phase));
    }
  return HIPC_OK;
}

int32_t run(hipc_context *context, const NetworkOperands &o, const NetworkFunctions &functions, int64_t each, int64_t direction, Network net) {
  HIPC_TRY(read_operands(context, o, direction, &net));
  HIPC_TRY(read_functions(context, o.op, functions, net.directions, each, net.functions));
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
  if (net.steps > 0 && wide > ROWS_OF_BLOCK && net.batch <= 0xffff * STEP_ENTRIES) return run_steps(context, o.x->dtype, net);
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
