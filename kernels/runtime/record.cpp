// A run as a list of commands. The first run executes each at once and keeps it. A later run that issues the same
// commands, byte by byte, defers them, and ends by launching them all as one graph. Where it differs, what was deferred
// is executed, and the run goes on as a first one. So pointers and extents need no key, and nothing stale can be replayed.
#include <stdlib.h>

#include "gpu_context.h"

using namespace hipc;

static_assert(__has_unique_object_representations(LaunchCommand) && __has_unique_object_representations(CopyCommand) &&
                  __has_unique_object_representations(MatmulCommand),
              "commands are compared byte by byte");

namespace {

int32_t execute_copy(hipc_context *context, const CopyCommand *command) {
  Hip &hip = context->hip;
  auto copy = command->kind == UPLOAD ? hip.hipMemcpyHtoDAsync : hip.hipMemcpyDtoHAsync;
  return check_hip(context, copy(command->to, command->from, (size_t)command->count, context->stream), "a copy");
}

int32_t execute(hipc_context *context, const Command *command) {
  switch (command->kind) {
  case LAUNCH: return execute_launch(context, (const LaunchCommand *)command);
  case MATMUL: return execute_matmul(context, (const MatmulCommand *)command);
  default: return execute_copy(context, (const CopyCommand *)command);
  }
}

int32_t execute_range(hipc_context *context, const char *commands, int64_t bytes) {
  for (int64_t at = 0; at < bytes;) {
    const Command *command = (const Command *)(commands + at);
    HIPC_TRY(execute(context, command));
    at += command->bytes;
  }
  return HIPC_OK;
}

void forget(hipc_context *context, Recording *recording) {
  if (recording->graph) context->hip.hipGraphExecDestroy(recording->graph);
  recording->graph = nullptr;
  recording->whole = recording->followed = false;
  recording->bytes = 0;
}

bool append(Recording *recording, const void *commands, int64_t bytes) {
  if (recording->bytes + bytes > recording->capacity) {
    int64_t capacity = max<int64_t>(2 * recording->capacity, round_up(recording->bytes + bytes, 4096));
    char *grown = (char *)realloc(recording->commands, (size_t)capacity);
    if (!grown) return false;
    recording->commands = grown;
    recording->capacity = capacity;
  }
  memcpy(recording->commands + recording->bytes, commands, (size_t)bytes);
  recording->bytes += bytes;
  return true;
}

// The recording that was of no use for longest.
Recording *oldest(hipc_context *context) {
  Recording *best = context->recordings;
  for (Recording &recording : context->recordings)
    if (!recording.whole) return &recording;
    else if (recording.run < best->run) best = &recording;
  return best;
}

Recording *followed(hipc_context *context) {
  for (Recording &recording : context->recordings)
    if (recording.followed) return &recording;
  return nullptr;
}

// A new recording begins with what the followed one has up to the position, which is executed.
int32_t diverge(hipc_context *context, Recording *from) {
  Recording *target = oldest(context);
  int64_t prefix = context->position;
  HIPC_TRY(execute_range(context, from->commands, prefix));
  if (target == from) {
    forget(context, target);
    target->bytes = prefix;
  } else {
    forget(context, target);
    if (!append(target, from->commands, prefix)) return context->recorder = Recorder::OFF, (int32_t)HIPC_OK;
  }
  for (Recording &recording : context->recordings) recording.followed = false;
  context->current = target;
  context->recorder = Recorder::RECORDING;
  return HIPC_OK;
}

int32_t follow(hipc_context *context, const Command *command) {
  Recording *last = followed(context);
  bool any = false;
  for (Recording &recording : context->recordings) {
    if (!recording.followed) continue;
    recording.followed = context->position + command->bytes <= recording.bytes &&
                         !memcmp(recording.commands + context->position, command, (size_t)command->bytes);
    any = any || recording.followed;
  }
  if (any) {
    context->position += command->bytes;
    return HIPC_OK;
  }
  return diverge(context, last);
}

// On the context's own stream, since not every stream of a caller can be captured; a graph runs on any.
int32_t make_graph(hipc_context *context, Recording *recording) {
  Hip &hip = context->hip;
  hipGraph_t graph = nullptr;
  hipStream_t stream = context->stream;
  HIPC_TRY(check_hip(context, hip.hipStreamBeginCapture(context->own_stream, CAPTURE_THREAD_LOCAL), "beginning a graph"));
  context->stream = context->own_stream;
  int32_t status = execute_range(context, recording->commands, recording->bytes);
  context->stream = stream;
  int32_t error = hip.hipStreamEndCapture(context->own_stream, &graph);
  if (!status) status = check_hip(context, error, "ending a graph");
  if (!status)
    status = check_hip(context, hip.hipGraphInstantiateWithFlags(&recording->graph, graph, 0), "making a graph executable");
  if (graph) hip.hipGraphDestroy(graph);
  return status;
}

} // namespace

int32_t hipc::submit(hipc_context *context, const Command *command) {
  if (context->recorder == Recorder::FOLLOWING) {
    HIPC_TRY(follow(context, command));
    if (context->recorder == Recorder::FOLLOWING) return HIPC_OK;
  }
  if (context->recorder == Recorder::RECORDING && !append(context->current, command, command->bytes))
    context->recorder = Recorder::OFF;
  return execute(context, command);
}

int32_t hipc::catch_up(hipc_context *context) {
  Recorder was = context->recorder;
  context->recorder = Recorder::OFF;
  if (was != Recorder::FOLLOWING) return HIPC_OK;
  return execute_range(context, followed(context)->commands, context->position);
}

void hipc::begin_recording(hipc_context *context) {
  context->recorder = Recorder::OFF;
  context->position = 0;
  context->current = nullptr;
  // What a run reads decides what it does next: it cannot be replayed.
  if (!context->capture || context->reads) return;
  bool any = false;
  for (Recording &recording : context->recordings) any |= recording.followed = recording.whole;
  context->recorder = any ? Recorder::FOLLOWING : Recorder::RECORDING;
  if (any) return;
  context->current = oldest(context);
  forget(context, context->current);
}

int32_t hipc::end_recording(hipc_context *context) {
  Recorder was = context->recorder;
  context->recorder = Recorder::OFF;
  if (was == Recorder::RECORDING) {
    context->current->whole = true;
    context->current->run = context->run;
  }
  if (was != Recorder::FOLLOWING) return HIPC_OK;
  Recording *match = nullptr;
  for (Recording &recording : context->recordings)
    if (recording.followed && recording.bytes == context->position) match = &recording;
  if (!match) {
    // The run ended before any of those that began like it.
    HIPC_TRY(diverge(context, followed(context)));
    if (context->recorder == Recorder::RECORDING) {
      context->current->whole = true;
      context->current->run = context->run;
    }
    context->recorder = Recorder::OFF;
    return HIPC_OK;
  }
  match->run = context->run;
  if (match->bytes == 0) return HIPC_OK;
  if (!match->graph) HIPC_TRY(make_graph(context, match));
  return check_hip(context, context->hip.hipGraphLaunch(match->graph, context->stream), "launching a graph");
}

void hipc::abandon_recording(hipc_context *context) {
  if (context->recorder == Recorder::RECORDING) forget(context, context->current);
  context->recorder = Recorder::OFF;
}

void hipc::forget_recordings(hipc_context *context) {
  for (Recording &recording : context->recordings) forget(context, &recording);
  context->reads = false;
}
