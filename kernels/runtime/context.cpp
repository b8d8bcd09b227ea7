// Life of a state on a GPU: device, stream, code, constants.
#include "gpu_context.h"

using namespace hipc;

namespace {

int32_t load_constants(hipc_context *context, const hipc_fs *fs, int64_t bytes) {
  if (bytes <= 0) return HIPC_OK;
  int64_t size = 0;
  const char *memory = fs->map ? (const char *)fs->map(fs->self, "constants.bin", &size) : nullptr;
  if (!memory) return hipc_error(context, HIPC_ERROR_CONSTANTS, "constants.bin is missing from the artifact");
  if (size < bytes)
    return hipc_error(context, HIPC_ERROR_CONSTANTS, "constants.bin has %lld bytes; the model reads %lld",
                      (long long)size, (long long)bytes);
  void *device = nullptr;
  if (int32_t error = context->hip.hipMalloc(&device, (size_t)bytes)) {
    if (error != ERROR_OUT_OF_MEMORY) return check_hip(context, error, "taking memory for the constants");
    return hipc_error(context, HIPC_ERROR_MEMORY, "device %d has no memory for %lld bytes of constants", context->device,
                      (long long)bytes);
  }
  context->constants = device;
  context->host_constants = memory;
  context->constants_bytes = bytes;
  HIPC_TRY(upload(context, device, memory, bytes));
  return check_hip(context, context->hip.hipStreamSynchronize(context->stream), "uploading the constants");
}

int32_t make_stream(hipc_context *context) {
  Hip &hip = context->hip;
  HIPC_TRY(check_hip(context, hip.hipStreamCreateWithFlags(&context->own_stream, STREAM_NON_BLOCKING), "making a stream"));
  context->stream = context->own_stream;
  for (hipEvent_t &event : context->done)
    HIPC_TRY(check_hip(context, hip.hipEventCreateWithFlags(&event, EVENT_DISABLE_TIMING), "making an event"));
  return HIPC_OK;
}

int32_t open(hipc_context *context, const hipc_fs *fs, int64_t constants_bytes) {
  HIPC_TRY(open_device(context));
  HIPC_TRY(enter_device(context));
  int32_t status = load_modules(context, fs);
  if (!status) status = make_stream(context);
  if (!status) status = load_constants(context, fs, constants_bytes);
  for (Pinned &chunk : context->chunks) free_pinned(context, &chunk);
  leave_device(context);
  return status;
}

// Everything but the host's own memory. The device is the thread's.
void close(hipc_context *context) {
  Hip &hip = context->hip;
  wait_pending(context);
  if (context->own_stream) hip.hipStreamSynchronize(context->own_stream);
  forget_recordings(context);
  free_matmul(context);
  release_io(context);
  release_memory(context);
  if (context->counters) hip.hipFree(context->counters);
  if (context->constants) hip.hipFree((void *)context->constants);
  unload_modules(context);
  for (hipEvent_t event : context->done)
    if (event) hip.hipEventDestroy(event);
  for (hipEvent_t event : context->chunk_free)
    if (event) hip.hipEventDestroy(event);
  if (context->own_stream) hip.hipStreamDestroy(context->own_stream);
}

} // namespace

HIPC_EXPORT int32_t hipc_init(hipc_context **result, const hipc_fs *fs, int64_t constants_bytes) {
  void *memory = nullptr;
  *result = nullptr;
  if (posix_memalign(&memory, ALIGNMENT, sizeof(hipc_context)) != 0) return HIPC_ERROR_MEMORY;
  hipc_context *context = (hipc_context *)memset(memory, 0, sizeof(hipc_context));
  *result = context;
  pthread_mutex_init(&context->message_lock, nullptr);
  context->device = fs->device_id;
  context->capture = fs->graph_capture;
  return open(context, fs, constants_bytes);
}

HIPC_EXPORT void hipc_cleanup(hipc_context *context) {
  if (!context) return;
  // An architecture is known once the device is open.
  if (*context->architecture && enter_device(context) == HIPC_OK) {
    close(context);
    leave_device(context);
  }
#ifdef HIPC_PLATFORM_NVIDIA
  if (context->primary) context->hip.cuDevicePrimaryCtxRelease(context->device);
#endif
  pthread_mutex_destroy(&context->message_lock);
  free(context->blocks);
  free(context->tensors);
  free(context->output_blocks);
  free(context->host_outputs);
  for (Recording &recording : context->recordings) free(recording.commands);
  free(context->blaslt);
  free(context->symbols);
  free(context->events);
  free(context);
}

HIPC_EXPORT int32_t hipc_trim(hipc_context *context) {
  HIPC_TRY(enter_device(context));
  int32_t status = wait_pending(context);
  forget_recordings(context);
  release_io(context);
  release_memory(context);
  leave_device(context);
  return status;
}

HIPC_EXPORT const void *hipc_constants(hipc_context *context) { return context->constants; }

const void *hipc::host_constant(hipc_context *context, const void *device) {
  uint64_t offset = (uint64_t)device - (uint64_t)context->constants;
  return context->constants && offset < (uint64_t)context->constants_bytes ? context->host_constants + offset : nullptr;
}
