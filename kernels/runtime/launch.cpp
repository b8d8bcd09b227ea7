// Kernels: found by name, their arguments checked against what their code says, launched on the stream of the run.
#include <stdlib.h>

#include "gpu_context.h"

using namespace hipc;

namespace {

constexpr int LIBRARY = 0, GENERATED = 1;
constexpr int64_t MAX_ARGUMENT_BYTES = 4096;

uint32_t hash_of(const char *name, bool generated) {
  uint32_t hash = generated ? 1 : 2;
  for (; *name; name++) hash = (hash ^ (uint8_t)*name) * 16777619u;
  return hash % KERNEL_BUCKETS;
}

int32_t find_parameters(hipc_context *context, const Module &module, Kernel *kernel) {
#ifdef HIPC_PLATFORM_NVIDIA
  (void)module;
  size_t offset, size;
  Parameters &known = kernel->parameters;
  while (context->hip.cuFuncGetParamInfo(kernel->function, (size_t)known.count, &offset, &size) == 0) {
    if (known.count == MAX_ARGUMENTS) return hipc_error(context, HIPC_ERROR_UNSUPPORTED, "kernel %s has more than %d parameters", kernel->name, MAX_ARGUMENTS);
    known.offsets[known.count] = (uint32_t)offset;
    known.sizes[known.count++] = (uint32_t)size;
    known.bytes = max(known.bytes, (int64_t)(offset + size));
  }
#else
  if (!read_parameters(module.image, module.bytes, kernel->name, &kernel->parameters))
    return hipc_error(context, HIPC_ERROR_DEVICE, "the code object says nothing of the parameters of kernel %s", kernel->name);
#endif
  if (kernel->parameters.bytes <= MAX_ARGUMENT_BYTES) return HIPC_OK;
  return hipc_error(context, HIPC_ERROR_UNSUPPORTED, "kernel %s has %lld bytes of parameters", kernel->name,
                    (long long)kernel->parameters.bytes);
}

// The kernel of the library, or else of the generated and contributed ones; null with `status` HIPC_OK: there is none.
Kernel *find(hipc_context *context, const char *name, bool generated, int32_t *status) {
  *status = HIPC_OK;
  Kernel **bucket = context->kernels + hash_of(name, generated);
  for (Kernel *kernel = *bucket; kernel; kernel = kernel->next)
    if (kernel->generated == generated && !strcmp(kernel->name, name)) return kernel;
  if (strlen(name) >= sizeof(Kernel{}.name)) return nullptr;
  int32_t first = generated ? GENERATED : LIBRARY, last = generated ? context->num_modules : GENERATED;
  for (int32_t i = first; i < last; i++) {
    const Module &module = context->modules[i];
    hipFunction_t function = nullptr;
    int32_t error = module.module ? context->hip.hipModuleGetFunction(&function, module.module, name) : ERROR_NOT_FOUND;
    if (error == ERROR_NOT_FOUND) continue;
    if ((*status = check_hip(context, error, "looking for a kernel"))) return nullptr;
    Kernel *kernel = (Kernel *)calloc(1, sizeof *kernel);
    if (!kernel) return *status = hipc_error(context, HIPC_ERROR_MEMORY, "no memory for kernel %s", name), nullptr;
    kernel->function = function;
    kernel->generated = generated;
    snprintf(kernel->name, sizeof kernel->name, "%s", name);
    if ((*status = find_parameters(context, module, kernel))) return free(kernel), nullptr;
    kernel->next = *bucket;
    return *bucket = kernel;
  }
  return nullptr;
}

Kernel *require(hipc_context *context, const char *name, bool generated, int32_t *status) {
  Kernel *kernel = find(context, name, generated, status);
  if (!kernel && *status == HIPC_OK)
    *status = hipc_error(context, HIPC_ERROR_UNSUPPORTED, "there is no kernel %s for %s in the artifact", name,
                         context->architecture);
  return kernel;
}

int32_t submit_launch(hipc_context *context, Kernel *kernel, const Launch &launch, const void *arguments, int64_t bytes) {
  for (int i = 0; i < 3; i++)
    if (!launch.grid[i] || !launch.block[i]) return HIPC_OK;
  // HIP counts the threads of each axis of a grid in 32 bits.
  for (int i = 0; i < 3; i++)
    if ((uint64_t)launch.grid[i] * launch.block[i] > 0xffffffffu || (i && launch.grid[i] > 0xffff))
      return hipc_error(context, HIPC_ERROR_UNSUPPORTED, "kernel %s: a grid of %u x %u x %u blocks", kernel->name,
                        launch.grid[0], launch.grid[1], launch.grid[2]);
  alignas(16) char storage[sizeof(LaunchCommand) + MAX_ARGUMENT_BYTES];
  LaunchCommand *command = (LaunchCommand *)storage;
  int64_t padded = round_up(bytes, 8);
  command->kind = LAUNCH;
  command->bytes = (int64_t)sizeof *command + padded;
  command->kernel = kernel;
  memcpy(command->grid, launch.grid, sizeof command->grid);
  memcpy(command->block, launch.block, sizeof command->block);
  command->shared = launch.shared;
  command->argument_bytes = bytes;
  memcpy(command + 1, arguments, (size_t)bytes);
  memset((char *)(command + 1) + bytes, 0, (size_t)(padded - bytes));
  return submit(context, command);
}

} // namespace

bool hipc::has_kernel(hipc_context *context, const char *name) {
  int32_t status;
  return find(context, name, false, &status) != nullptr;
}

int32_t hipc::launch_packed(hipc_context *context, const char *name, const Launch &launch, const void *arguments,
                            int64_t bytes) {
  int32_t status;
  Kernel *kernel = require(context, name, false, &status);
  if (!kernel) return status;
  if (bytes != kernel->parameters.bytes)
    return hipc_error(context, HIPC_ERROR_INTERNAL, "kernel %s takes %lld bytes of arguments; %lld were given", name,
                      (long long)kernel->parameters.bytes, (long long)bytes);
  return submit_launch(context, kernel, launch, arguments, bytes);
}

HIPC_EXPORT int32_t hipc_launch_kernel(hipc_context *context, const char *name, const void *const *arguments,
                                       int64_t count, int64_t iterations, int64_t) {
  constexpr uint32_t THREADS = 256;
  if (iterations <= 0) return HIPC_OK;
  int32_t status;
  Kernel *kernel = require(context, name, true, &status);
  if (!kernel) return status;
  const Parameters &known = kernel->parameters;
  if (known.count != count + 1 || known.sizes[count] != sizeof iterations)
    return hipc_error(context, HIPC_ERROR_INTERNAL, "kernel %s takes %d arguments; %lld and the iterations were given", name,
                      known.count, (long long)count);
  alignas(16) char packed[MAX_ARGUMENT_BYTES] = {};
  for (int64_t i = 0; i < count; i++)
    if (arguments[i]) memcpy(packed + known.offsets[i], arguments[i], known.sizes[i]);
  memcpy(packed + known.offsets[count], &iterations, sizeof iterations);
  int64_t blocks = ceil_div(iterations, (int64_t)THREADS);
  if (blocks > 0xffffffffll / THREADS)
    return hipc_error(context, HIPC_ERROR_UNSUPPORTED, "kernel %s over %lld iterations", name, (long long)iterations);
  Launch launch;
  launch.grid[0] = (uint32_t)blocks;
  launch.block[0] = THREADS;
  return submit_launch(context, kernel, launch, packed, known.bytes);
}

int32_t hipc::execute_launch(hipc_context *context, const LaunchCommand *command) {
  Kernel *kernel = command->kernel;
  uint32_t shared = (uint32_t)command->shared;
#ifdef HIPC_PLATFORM_NVIDIA
  if (shared > max(kernel->shared_allowed, DEFAULT_DYNAMIC_SHARED)) {
    HIPC_TRY(check_hip(context, context->hip.cuFuncSetAttribute(kernel->function, FUNCTION_MAX_DYNAMIC_SHARED, (int32_t)shared),
                       kernel->name));
    kernel->shared_allowed = shared;
  }
#endif
  size_t bytes = (size_t)command->argument_bytes;
  void *extra[] = {(void *)1, (void *)(command + 1), (void *)2, &bytes, (void *)LAUNCH_PARAMETERS_END};
  int32_t error = context->hip.hipModuleLaunchKernel(kernel->function, command->grid[0], command->grid[1], command->grid[2],
                                                     command->block[0], command->block[1], command->block[2], shared,
                                                     context->stream, nullptr, extra);
  if (error == 0) return HIPC_OK;
  char what[160];
  snprintf(what, sizeof what, "launching kernel %s", kernel->name);
  return check_hip(context, error, what);
}
