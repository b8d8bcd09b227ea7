// A run from its begin to its end: inputs to the device, outputs to the host, and what host code reads on the way.
#include <stdlib.h>

#include "gpu_context.h"

#include "../host/interface.h"

namespace {

template <class T> bool grow(T **table, int64_t *count, int64_t wanted) {
  if (*count >= wanted) return true;
  T *grown = (T *)realloc(*table, (size_t)wanted * sizeof(T));
  if (!grown) return false;
  memset((void *)(grown + *count), 0, (size_t)(wanted - *count) * sizeof(T));
  *table = grown;
  *count = wanted;
  return true;
}

int32_t no_memory(hipc_context *context) {
  return hipc_error(context, HIPC_ERROR_MEMORY, "out of memory while a run was prepared");
}

int64_t bytes_of(const hipc_tensor *tensor) { return elements(tensor) * element_size(tensor->dtype); }

bool is_on_device(const hipc_io *io, int64_t input) { return io->inputs_on_device && io->inputs_on_device[input]; }

// Kernels may load vectors: memory of the device that begins elsewhere is copied.
bool needs_copy(const hipc_io *io, int64_t input) {
  return !is_on_device(io, input) || (uintptr_t)io->inputs[input].data % 16 != 0;
}

int32_t submit_copy(hipc_context *context, CommandKind kind, void *to, const void *from, int64_t bytes) {
  CopyCommand command;
  command.kind = kind;
  command.bytes = sizeof command;
  command.to = to, command.from = from, command.count = bytes;
  return submit(context, &command);
}

// Bytes of the inputs that lie in host memory, each begun anew.
int64_t host_span(const hipc_io *io) {
  int64_t span = 0;
  for (int64_t i = 0; i < io->num_inputs; i++)
    if (!is_on_device(io, i)) span += round_up(bytes_of(io->inputs + i), DEVICE_ALIGNMENT);
  return span;
}

// Points context->tensors at device memory, with one block for the inputs that are not there; at pinned memory, where
// those of the host are few bytes.
int32_t place_inputs(hipc_context *context, const hipc_io *io) {
  if (!grow(&context->tensors, &context->num_tensors, io->num_inputs)) return no_memory(context);
  int64_t bytes = 0, span = host_span(io);
  bool in_place = span <= READ_IN_PLACE;
  if (span && span <= STAGED_BYTES && !reserve_pinned(context, context->staged_inputs + context->slot, max(span, READ_IN_PLACE)))
    return HIPC_ERROR_MEMORY;
  auto needs_block = [&](int64_t i) { return needs_copy(io, i) && (is_on_device(io, i) || !in_place); };
  for (int64_t i = 0; i < io->num_inputs; i++)
    if (needs_block(i)) bytes += round_up(bytes_of(io->inputs + i), DEVICE_ALIGNMENT);
  char *block = nullptr, *pinned = context->staged_inputs[context->slot].memory;
  if (bytes && !(block = (char *)reserve_block(context, &context->input_block, bytes, "inputs"))) return HIPC_ERROR_MEMORY;
  for (int64_t i = 0; i < io->num_inputs; i++) {
    context->tensors[i] = io->inputs[i];
    if (!needs_copy(io, i)) continue;
    char *&place = needs_block(i) ? block : pinned;
    context->tensors[i].data = place;
    place += round_up(bytes_of(io->inputs + i), DEVICE_ALIGNMENT);
  }
  return HIPC_OK;
}

// One copy from pinned memory for all inputs of host memory, as far as they are small enough.
int32_t copy_inputs(hipc_context *context, const hipc_io *io) {
  bool staged = host_span(io) <= STAGED_BYTES;
  char *pinned = context->staged_inputs[context->slot].memory, *run_pinned = nullptr, *run_device = nullptr;
  int64_t run_bytes = 0;
  for (int64_t i = 0; i < io->num_inputs; i++) {
    const hipc_tensor *from = io->inputs + i;
    int64_t bytes = bytes_of(from), room = round_up(bytes, DEVICE_ALIGNMENT);
    char *device = (char *)context->tensors[i].data;
    if (is_on_device(io, i)) {
      if (device != from->data && bytes) HIPC_TRY(hipc_copy(context, device, from->data, bytes));
      continue;
    }
    if (!staged) {
      HIPC_TRY(upload(context, device, from->data, bytes));
      continue;
    }
    memcpy(pinned, from->data, (size_t)bytes);
    if (device != pinned) {
      // Neighbours on both sides make one copy.
      if (run_bytes && device != run_device + run_bytes) {
        HIPC_TRY(submit_copy(context, UPLOAD, run_device, run_pinned, run_bytes));
        run_bytes = 0;
      }
      if (!run_bytes) run_pinned = pinned, run_device = device;
      run_bytes += room;
    }
    pinned += room;
  }
  return run_bytes ? submit_copy(context, UPLOAD, run_device, run_pinned, run_bytes) : (int32_t)HIPC_OK;
}

// What kernels of a run that has ended reported.
int32_t check_fault(hipc_context *context) {
  int32_t *word = (int32_t *)context->fault.memory, fault = word ? *word : 0;
  if (fault == FAULT_NONE) return HIPC_OK;
  *word = FAULT_NONE;
  return hipc_error(context, HIPC_ERROR_INDEX, "a %s among the inputs is outside of its tensor",
                    fault == FAULT_POSITION ? "position of a cache" : "value that is used as an index");
}

int32_t wait_slot(hipc_context *context, int32_t slot) {
  if (!context->pending[slot]) return HIPC_OK;
  context->pending[slot] = false;
  return check_hip(context, context->hip.hipEventSynchronize(context->done[slot]), "an earlier run");
}

// The stream of the run: behind the last run's, whose arenas it shares. Where the last run may still be reading what it
// was given, inputs of the host go to the other slot, so that the host prepares a run while the device is at the last.
int32_t choose_stream(hipc_context *context, const hipc_io *io) {
  hipStream_t stream = io->stream ? io->stream : context->own_stream;
  if (context->pending[context->slot] && stream != context->stream)
    HIPC_TRY(check_hip(context, context->hip.hipStreamWaitEvent(stream, context->done[context->slot], 0), "ordering streams"));
  context->stream = stream;
  bool stages = false;
  for (int64_t i = 0; i < io->num_inputs; i++) stages = stages || !is_on_device(io, i);
  if (!stages || !context->pending[context->slot]) return HIPC_OK;
  context->slot = (context->slot + 1) % SLOTS;
  return wait_slot(context, context->slot);
}

int32_t begin(hipc_context *context, const hipc_io *io, const hipc_input_spec *specs, int64_t num_inputs,
              int64_t num_symbols) {
  context->run++;
  context->num_host_outputs = 0;
  recycle_memory(context);
  HIPC_TRY(check_fault(context));
  HIPC_TRY(check_inputs(context, io, specs, num_inputs, num_symbols));
  HIPC_TRY(choose_stream(context, io));
  HIPC_TRY(place_inputs(context, io));
  begin_recording(context);
  return copy_inputs(context, io);
}

// Copies of the outputs to pinned memory, or to the caller's own when they are large.
int32_t fetch_outputs(hipc_context *context, bool *staged) {
  int64_t span = 0;
  for (int64_t i = 0; i < context->num_host_outputs; i++) span += round_up(context->host_outputs[i].bytes, 64);
  *staged = span <= STAGED_BYTES;
  if (!*staged || !span) return HIPC_OK;
  if (!reserve_pinned(context, &context->staged_outputs, span)) return HIPC_ERROR_MEMORY;
  char *pinned = context->staged_outputs.memory;
  for (int64_t i = 0; i < context->num_host_outputs; i++) {
    const HostOutput &output = context->host_outputs[i];
    HIPC_TRY(submit_copy(context, DOWNLOAD, pinned, output.device, output.bytes));
    pinned += round_up(output.bytes, 64);
  }
  return HIPC_OK;
}

// All runs: each is behind the one before it. The next ones begin with the first slot, whose commands are recorded.
int32_t wait_stream(hipc_context *context) {
  context->slot = 0;
  for (bool &pending : context->pending) pending = false;
  return context->hip.hipStreamSynchronize(context->stream);
}

int32_t finish(hipc_context *context) {
  Hip &hip = context->hip;
  bool staged;
  HIPC_TRY(fetch_outputs(context, &staged));
  HIPC_TRY(end_recording(context));
  if (!staged)
    for (int64_t i = 0; i < context->num_host_outputs; i++) {
      const HostOutput &output = context->host_outputs[i];
      HIPC_TRY(check_hip(context,
                         hip.hipMemcpyDtoHAsync(output.host, output.device, (size_t)output.bytes, context->stream),
                         "copying an output to the host"));
    }
  if (!context->num_host_outputs && context->stream != context->own_stream) {
    context->pending[context->slot] = true;
    return check_hip(context, hip.hipEventRecord(context->done[context->slot], context->stream), "marking the end of the run");
  }
  HIPC_TRY(check_hip(context, wait_stream(context), "the run"));
  const char *pinned = context->staged_outputs.memory;
  for (int64_t i = 0; staged && i < context->num_host_outputs; i++) {
    const HostOutput &output = context->host_outputs[i];
    memcpy(output.host, pinned, (size_t)output.bytes);
    pinned += round_up(output.bytes, 64);
  }
  return check_fault(context);
}

} // namespace

int32_t *hipc::device_fault(hipc_context *context) {
  if (!context->fault.memory) {
    if (!reserve_pinned(context, &context->fault, sizeof(int32_t))) return nullptr;
    memset(context->fault.memory, 0, (size_t)context->fault.bytes);
  }
  return (int32_t *)context->fault.memory;
}

HIPC_EXPORT int32_t hipc_begin(hipc_context *context, const hipc_io *io, const hipc_input_spec *specs,
                               int64_t num_inputs, int64_t num_symbols) {
  HIPC_TRY(enter_device(context));
  context->io = io;
  if (int32_t status = begin(context, io, specs, num_inputs, num_symbols)) {
    abandon_recording(context);
    leave_device(context);
    return status;
  }
  // Compiled code finds the inputs through `io`.
  context->caller_inputs = io->inputs;
  ((hipc_io *)io)->inputs = context->tensors;
  context->message[0] = 0;
  return HIPC_OK;
}

HIPC_EXPORT int32_t hipc_end(hipc_context *context, int32_t status) {
  ((hipc_io *)context->io)->inputs = context->caller_inputs;
  if (status == HIPC_OK) status = finish(context);
  if (status != HIPC_OK) {
    abandon_recording(context);
    // Nothing may write the caller's memory any more.
    wait_stream(context);
  }
  leave_device(context);
  return status;
}

HIPC_EXPORT void *hipc_alloc_output(hipc_context *context, int64_t index, int32_t dtype, int32_t rank,
                                    const int64_t *shape) {
  void *memory = caller_output(context, index, dtype, rank, shape);
  int64_t bytes = element_size(dtype);
  for (int32_t i = 0; i < rank; i++) bytes *= shape[i];
  if (!memory || bytes == 0 || context->io->outputs_on_device) return memory;
  if (!grow(&context->output_blocks, &context->num_output_blocks, index + 1)) return no_memory(context), nullptr;
  if (context->num_host_outputs == context->capacity_host_outputs) {
    int64_t wanted = max<int64_t>(16, 2 * context->capacity_host_outputs);
    if (!grow(&context->host_outputs, &context->capacity_host_outputs, wanted)) return no_memory(context), nullptr;
  }
  void *device = reserve_block(context, context->output_blocks + index, bytes, "an output");
  if (!device) return nullptr;
  context->host_outputs[context->num_host_outputs++] = {(char *)memory, (const char *)device, bytes};
  return device;
}

HIPC_EXPORT int32_t hipc_read(hipc_context *context, void *host, const void *device, int64_t bytes) {
  if (bytes <= 0) return HIPC_OK;
  if (const void *known = host_constant(context, device)) return memcpy(host, known, (size_t)bytes), (int32_t)HIPC_OK;
  // Nothing writes an input during a run: what the host gave is what the device has.
  for (int64_t i = 0; i < context->io->num_inputs; i++) {
    const hipc_tensor *given = context->caller_inputs + i;
    uint64_t offset = (uint64_t)device - (uint64_t)context->tensors[i].data;
    if (is_on_device(context->io, i) || offset >= (uint64_t)bytes_of(given)) continue;
    return memcpy(host, (const char *)given->data + offset, (size_t)bytes), (int32_t)HIPC_OK;
  }
  HIPC_TRY(catch_up(context));
  context->reads = true;
  constexpr int64_t SMALL = 4096;
  void *to = host;
  if (bytes <= SMALL) {
    if (!reserve_pinned(context, &context->small, SMALL)) return HIPC_ERROR_MEMORY;
    to = context->small.memory;
  }
  HIPC_TRY(check_hip(context, context->hip.hipMemcpyDtoHAsync(to, device, (size_t)bytes, context->stream), "reading a value"));
  HIPC_TRY(check_hip(context, context->hip.hipStreamSynchronize(context->stream), "the run, up to where a value is read,"));
  if (to != host) memcpy(host, to, (size_t)bytes);
  return HIPC_OK;
}

int32_t hipc::wait_pending(hipc_context *context) {
  for (int32_t slot = 0; slot < SLOTS; slot++) HIPC_TRY(wait_slot(context, slot));
  context->slot = 0;
  return HIPC_OK;
}

void hipc::release_io(hipc_context *context) {
  for (Pinned &inputs : context->staged_inputs) free_pinned(context, &inputs);
  Pinned *const all[] = {&context->staged_outputs, &context->small, &context->fault, context->chunks, context->chunks + 1};
  for (Pinned *pinned : all) free_pinned(context, pinned);
}
