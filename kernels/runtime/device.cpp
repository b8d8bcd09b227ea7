// The device of a context: which it is, and which of the artifact's code objects it runs.
#include <stdlib.h>

#include "gpu_context.h"

using namespace hipc;

int32_t hipc::check_hip(hipc_context *context, int32_t error, const char *what) {
  if (error == 0) return HIPC_OK;
  const char *name = nullptr;
  if (!context->hip.hipDrvGetErrorName || context->hip.hipDrvGetErrorName(error, &name) != 0) name = nullptr;
  int32_t status = error == ERROR_OUT_OF_MEMORY ? HIPC_ERROR_MEMORY : HIPC_ERROR_DEVICE;
  if (name) return hipc_error(context, status, "%s failed on device %d: %s", what, context->device, name);
  return hipc_error(context, status, "%s failed on device %d: error %d", what, context->device, error);
}

#ifdef HIPC_PLATFORM_NVIDIA

int32_t hipc::enter_device(hipc_context *context) {
  return check_hip(context, context->hip.cuCtxPushCurrent(context->primary), "choosing the device");
}

void hipc::leave_device(hipc_context *context) {
  void *popped;
  context->hip.cuCtxPopCurrent(&popped);
}

namespace {

int32_t identify(hipc_context *context) {
  Hip &hip = context->hip;
  int32_t major = 0, minor = 0;
  HIPC_TRY(check_hip(context, hip.hipDeviceGetAttribute(&major, MAJOR, context->device), "asking for the architecture"));
  HIPC_TRY(check_hip(context, hip.hipDeviceGetAttribute(&minor, MINOR, context->device), "asking for the architecture"));
  snprintf(context->architecture, sizeof context->architecture, "sm_%d%d", major, minor);
  return check_hip(context, hip.cuDevicePrimaryCtxRetain(&context->primary, context->device), "opening the device");
}

// The number behind "sm_"; -1 for anything else.
int32_t capability(const char *name) { return strncmp(name, "sm_", 3) ? -1 : (int32_t)atoi(name + 3); }

// How well code for `name` fits the device: the highest wins, 0 is not at all. PTX runs on what is not older than it.
int32_t fit(const hipc_context *context, const char *name) {
  int32_t own = capability(context->architecture), offered = capability(name);
  return offered > 0 && offered <= own ? offered : 0;
}

} // namespace

#else

int32_t hipc::enter_device(hipc_context *context) {
  HIPC_TRY(check_hip(context, context->hip.hipGetDevice(&context->previous_device), "asking for the device"));
  if (context->previous_device == context->device) return HIPC_OK;
  return check_hip(context, context->hip.hipSetDevice(context->device), "choosing the device");
}

void hipc::leave_device(hipc_context *context) {
  if (context->previous_device != context->device) context->hip.hipSetDevice(context->previous_device);
}

namespace {

int32_t identify(hipc_context *context) {
  char properties[PROPERTIES_BYTES] = {};
  HIPC_TRY(check_hip(context, context->hip.hipGetDeviceProperties(properties, context->device), "asking for the architecture"));
  // "gfx90a:sramecc+:xnack-"
  const char *name = properties + PROPERTIES_ARCHITECTURE;
  size_t length = strcspn(name, ":");
  snprintf(context->architecture, sizeof context->architecture, "%.*s", (int)length, name);
  if (strncmp(context->architecture, "gfx", 3))
    return hipc_error(context, HIPC_ERROR_DEVICE, "the HIP runtime names the architecture of device %d '%s'", context->device,
                      context->architecture);
  return HIPC_OK;
}

// Processors that a generic target covers (LLVM's "User Guide for AMDGPU Backend", "Generic Processors").
struct Generic {
  const char *name, *covers;
};
constexpr Generic GENERIC[] = {
    {"gfx9-generic", " gfx900 gfx902 gfx904 gfx906 gfx909 gfx90c "},
    {"gfx9-4-generic", " gfx942 gfx950 "},
    {"gfx10-1-generic", " gfx1010 gfx1011 gfx1012 gfx1013 "},
    {"gfx10-3-generic", " gfx1030 gfx1031 gfx1032 gfx1033 gfx1034 gfx1035 gfx1036 "},
    {"gfx11-generic", " gfx1100 gfx1101 gfx1102 gfx1103 gfx1150 gfx1151 gfx1152 gfx1153 "},
    {"gfx12-generic", " gfx1200 gfx1201 "},
};

// How well code for `name` fits the device: the highest wins, 0 is not at all.
int32_t fit(const hipc_context *context, const char *name) {
  if (!strcmp(name, context->architecture)) return 2;
  char word[80];
  snprintf(word, sizeof word, " %s ", context->architecture);
  for (const Generic &generic : GENERIC)
    if (!strcmp(generic.name, name) && strstr(generic.covers, word)) return 1;
  return 0;
}

} // namespace

#endif

namespace {

int32_t attribute(hipc_context *context, DeviceAttribute which, int32_t *value) {
  return check_hip(context, context->hip.hipDeviceGetAttribute(value, which, context->device), "asking for its properties");
}

// The best architecture of the artifact's list, one a line; "" when none fits.
void choose(hipc_context *context, const char *list, int64_t size, char *best, size_t best_size, char *names,
            size_t names_size) {
  int32_t best_fit = 0;
  size_t used = 0;
  *best = *names = 0;
  for (const char *end = list + size; list < end;) {
    const char *line_end = (const char *)memchr(list, '\n', (size_t)(end - list));
    if (!line_end) line_end = end;
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)(line_end - list), list);
    list = line_end + 1;
    if (!*name) continue;
    if (used < names_size) used += (size_t)snprintf(names + used, names_size - used, "%s%s", used ? ", " : "", name);
    int32_t found = fit(context, name);
    if (found <= best_fit) continue;
    best_fit = found;
    snprintf(best, best_size, "%s", name);
  }
}

int32_t load_module(hipc_context *context, const hipc_fs *fs, const char *file, bool needed) {
  Module module{};
  module.image = fs->map(fs->self, file, &module.bytes);
  if (!module.image && !needed) {
    context->num_modules++;
    return HIPC_OK;
  }
  if (!module.image) return hipc_error(context, HIPC_ERROR_DEVICE, "%s is missing from the artifact", file);
  if (context->num_modules == MAX_MODULES)
    return hipc_error(context, HIPC_ERROR_UNSUPPORTED, "the artifact has more than %d code objects", MAX_MODULES);
  char what[160];
  snprintf(what, sizeof what, "loading %s", file);
  HIPC_TRY(check_hip(context, context->hip.hipModuleLoadData(&module.module, module.image), what));
  context->modules[context->num_modules++] = module;
  return HIPC_OK;
}

} // namespace

int32_t hipc::open_device(hipc_context *context) {
  Hip &hip = context->hip;
  HIPC_TRY(load_hip(context, &hip));
  int32_t count = 0, error = hip.hipInit(0);
  if (error == 0) error = hip.hipGetDeviceCount(&count);
  const char *name = nullptr;
  if (error != 0) {
    if (hip.hipDrvGetErrorName(error, &name) != 0 || !name) name = "an error without a name";
    return hipc_error(context, HIPC_ERROR_DEVICE, "there is no GPU that can be used: %s", name);
  }
  if (context->device < 0 || context->device >= count)
    return hipc_error(context, HIPC_ERROR_DEVICE, "there is no device %d; this machine has %d", context->device, count);
  HIPC_TRY(identify(context));
  HIPC_TRY(attribute(context, WAVE_SIZE, &context->lanes));
  HIPC_TRY(attribute(context, COMPUTE_UNITS, &context->units));
  return attribute(context, LDS_BYTES, &context->lds);
}

int32_t hipc::load_modules(hipc_context *context, const hipc_fs *fs) {
  int64_t size = 0;
  const char *list = fs->map ? (const char *)fs->map(fs->self, "device/index", &size) : nullptr;
  if (!list) return hipc_error(context, HIPC_ERROR_DEVICE, "device/index is missing from the artifact");
  char best[64], names[512], file[128];
  choose(context, list, size, best, sizeof best, names, sizeof names);
  if (!*best)
    return hipc_error(context, HIPC_ERROR_DEVICE,
                      "the device is %s; the artifact has code for %s: compile the model again with --arch %s",
                      context->architecture, names, context->architecture);
  snprintf(file, sizeof file, "device/%s.library", best);
  HIPC_TRY(load_module(context, fs, file, true));
  snprintf(file, sizeof file, "device/%s.generated", best);
  HIPC_TRY(load_module(context, fs, file, false));
  for (int number = 0;; number++) {
    int64_t bytes = 0;
    snprintf(file, sizeof file, "device/%s.plugin%d", best, number);
    if (!fs->map(fs->self, file, &bytes)) return HIPC_OK;
    HIPC_TRY(load_module(context, fs, file, true));
  }
}

void hipc::unload_modules(hipc_context *context) {
  for (int32_t i = 0; i < context->num_modules; i++)
    if (context->modules[i].module) context->hip.hipModuleUnload(context->modules[i].module);
  context->num_modules = 0;
  for (Kernel *&first : context->kernels)
    while (Kernel *kernel = first) {
      first = kernel->next;
      free(kernel);
    }
}

int32_t hipc::wave_size(hipc_context *context) { return context->lanes; }
int32_t hipc::compute_units(hipc_context *context) { return context->units; }
int32_t hipc::lds_bytes(hipc_context *context) { return context->lds; }
