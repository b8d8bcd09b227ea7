// Finds the libraries of the platform.
#include "api.h"

#include <dlfcn.h>
#include <stdio.h>

#include "hipc_host.h"

using namespace hipc;

namespace {

#ifdef HIPC_PLATFORM_NVIDIA
const char *const HIP_FILES[] = {"libcuda.so.1"};
const char *const BLASLT_FILES[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"};
constexpr const char *HIP_WORDS = "CUDA's driver", *BLASLT_WORDS = "cuBLASLt";
constexpr const char *ROOT_VARIABLE = "CUDA_HOME", *ROOT_DEFAULT = "/usr/local/cuda", *ROOT_FOLDER = "lib64";
#define HIPC_SYMBOL(HIP, CUDA, PARAMETERS) {#CUDA, offsetof(Table, HIP)},
#define HIPC_OWN_SYMBOL HIPC_SYMBOL
#else
const char *const HIP_FILES[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so"};
const char *const BLASLT_FILES[] = {"libhipblaslt.so.1", "libhipblaslt.so.0", "libhipblaslt.so"};
constexpr const char *HIP_WORDS = "the HIP runtime", *BLASLT_WORDS = "hipBLASLt";
constexpr const char *ROOT_VARIABLE = "ROCM_PATH", *ROOT_DEFAULT = "/opt/rocm", *ROOT_FOLDER = "lib";
#define HIPC_SYMBOL(HIP, CUDA, PARAMETERS) {#HIP, offsetof(Table, HIP)},
#define HIPC_OWN_SYMBOL(HIP, REAL, PARAMETERS) {#REAL, offsetof(Table, HIP)},
#endif

struct Symbol {
  const char *name;
  size_t offset;
};

struct Library {
  const char *words, *variable;
  const char *const *files;
  int count;
};

void *open_library(hipc_context *context, const Library &library) {
  const char *chosen = getenv(library.variable);
  if (chosen && *chosen) {
    void *handle = dlopen(chosen, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
      hipc_error(context, HIPC_ERROR_DEVICE, "%s cannot be loaded from %s, which %s names: %s", library.words, chosen,
                 library.variable, dlerror());
    return handle;
  }
  const char *root = getenv(ROOT_VARIABLE);
  if (!root || !*root) root = ROOT_DEFAULT;
  char path[512], names[256] = "";
  for (int i = 0; i < library.count; i++) {
    if (void *handle = dlopen(library.files[i], RTLD_NOW | RTLD_LOCAL)) return handle;
    snprintf(path, sizeof path, "%s/%s/%s", root, ROOT_FOLDER, library.files[i]);
    if (void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL)) return handle;
    size_t used = strlen(names);
    snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", library.files[i]);
  }
  hipc_error(context, HIPC_ERROR_DEVICE,
             "%s is not found: %s is neither on the loader's search path nor in %s/%s; install it, or name the file in %s",
             library.words, names, root, ROOT_FOLDER, library.variable);
  return nullptr;
}

int32_t load(hipc_context *context, const Library &library, void *table, const Symbol *symbols, int count) {
  void *handle = open_library(context, library);
  if (!handle) return HIPC_ERROR_DEVICE;
  for (int i = 0; i < count; i++) {
    void *address = dlsym(handle, symbols[i].name);
    if (!address)
      return hipc_error(context, HIPC_ERROR_DEVICE, "%s has no function %s: it is too old for this program", library.words,
                        symbols[i].name);
    memcpy((char *)table + symbols[i].offset, &address, sizeof address);
  }
  return HIPC_OK;
}

} // namespace

int32_t hipc::load_hip(hipc_context *context, Hip *hip) {
  using Table = Hip;
  static const Symbol symbols[] = {HIPC_HIP_FUNCTIONS(HIPC_SYMBOL) HIPC_PLATFORM_FUNCTIONS(HIPC_OWN_SYMBOL)};
  const Library library = {HIP_WORDS, "HIPC_HIP_LIBRARY", HIP_FILES, sizeof HIP_FILES / sizeof *HIP_FILES};
  return load(context, library, hip, symbols, sizeof symbols / sizeof *symbols);
}

int32_t hipc::load_blaslt(hipc_context *context, BlasLt *blaslt) {
  using Table = BlasLt;
  static const Symbol symbols[] = {HIPC_BLASLT_FUNCTIONS(HIPC_SYMBOL)};
  const Library library = {BLASLT_WORDS, "HIPC_HIPBLASLT_LIBRARY", BLASLT_FILES, sizeof BLASLT_FILES / sizeof *BLASLT_FILES};
  return load(context, library, blaslt, symbols, sizeof symbols / sizeof *symbols);
}
