// Life of a state: constants, arenas, scratch, inputs, outputs, errors.
#include "context.h"

#include "arena.h"
#include "interface.h"

using namespace hipc;

void *hipc::allocate(hipc_context *, int64_t bytes) {
  void *memory = nullptr;
  return posix_memalign(&memory, ALIGNMENT, (size_t)round_up(max<int64_t>(bytes, 1), ALIGNMENT)) == 0 ? memory : nullptr;
}

void hipc::deallocate(hipc_context *, void *memory, int64_t) { free(memory); }

namespace {

int32_t load_constants(hipc_context *context, const hipc_fs *fs, int64_t bytes) {
  if (bytes <= 0) return HIPC_OK;
  int64_t size = 0;
  const void *memory = fs->map ? fs->map(fs->self, "constants.bin", &size) : nullptr;
  if (!memory) return hipc_error(context, HIPC_ERROR_CONSTANTS, "constants.bin is missing from the artifact");
  if (size < bytes)
    return hipc_error(context, HIPC_ERROR_CONSTANTS, "constants.bin has %lld bytes; the model reads %lld",
                      (long long)size, (long long)bytes);
  if ((uintptr_t)memory % ALIGNMENT)
    return hipc_error(context, HIPC_ERROR_CONSTANTS, "constants.bin is mapped at an address that is not 64-byte aligned");
  context->constants = memory;
  return HIPC_OK;
}

} // namespace

HIPC_EXPORT int32_t hipc_init(hipc_context **result, const hipc_fs *fs, int64_t constants_bytes) {
  hipc_context *context = (hipc_context *)allocate(nullptr, sizeof *context);
  *result = context;
  if (!context) return HIPC_ERROR_MEMORY;
  memset(context, 0, sizeof *context);
  pthread_mutex_init(&context->message_lock, nullptr);
  pool_init(&context->pool, fs->num_threads);
  return load_constants(context, fs, constants_bytes);
}

HIPC_EXPORT void hipc_cleanup(hipc_context *context) {
  if (!context) return;
  pool_destroy(&context->pool);
  hipc_trim(context);
  pthread_mutex_destroy(&context->message_lock);
  free(context->symbols);
  free(context->events);
  free(context);
}

HIPC_EXPORT int32_t hipc_trim(hipc_context *context) {
  release_all(context);
  return HIPC_OK;
}

HIPC_EXPORT int32_t hipc_begin(hipc_context *context, const hipc_io *io, const hipc_input_spec *specs,
                               int64_t num_inputs, int64_t num_symbols) {
  context->io = io;
  release_outgrown(context);
  for (int64_t i = 0; i < min(io->num_inputs, num_inputs); i++)
    if (io->inputs_on_device && io->inputs_on_device[i])
      return hipc_error(context, HIPC_ERROR_INPUT, "input '%s' is in device memory; the host target takes host memory",
                        specs[i].name);
  if (io->outputs_on_device)
    return hipc_error(context, HIPC_ERROR_OUTPUT, "outputs in device memory were asked for; the host target has none");
  if (int32_t status = check_inputs(context, io, specs, num_inputs, num_symbols)) return status;
  context->message[0] = 0;
  pool_begin_run(&context->pool);
  return HIPC_OK;
}

HIPC_EXPORT int32_t hipc_end(hipc_context *context, int32_t status) {
  pool_end_run(&context->pool);
  return status;
}

HIPC_EXPORT const void *hipc_constants(hipc_context *context) { return context->constants; }

HIPC_EXPORT void *hipc_scratch(hipc_context *context, int64_t bytes) {
  if (bytes < 0 || !reserve(context, &context->scratch, bytes, /*keep_old=*/false)) {
    hipc_error(context, HIPC_ERROR_MEMORY, "no memory for %lld bytes of scratch", (long long)bytes);
    return nullptr;
  }
  return context->scratch.memory;
}

HIPC_EXPORT void *hipc_alloc_output(hipc_context *context, int64_t index, int32_t dtype, int32_t rank,
                                    const int64_t *shape) {
  return caller_output(context, index, dtype, rank, shape);
}
