#include "gpu.h"

namespace hip_ep {
namespace {

constexpr int32_t CUDA_MAJOR = 75, CUDA_MINOR = 76;
// hipDeviceProp_tR0600 has 1,472 bytes: the name at the beginning, that of the architecture at byte 1,160.
constexpr size_t PROPERTIES_BYTES = 4096, PROPERTIES_ARCHITECTURE = 1160;

void *open_runtime(bool nvidia) {
  if (const char *chosen = getenv("HIPC_HIP_LIBRARY"); chosen && *chosen) return open_library(chosen);
#ifdef _WIN32
  return open_library(nvidia ? "nvcuda.dll" : "amdhip64_7.dll");
#else
  if (nvidia) return open_library("libcuda.so.1");
  const char *root = getenv("ROCM_PATH");
  if (!root || !*root) root = "/opt/rocm";
  constexpr const char *FILES[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so"};
  for (const char *file : FILES) {
    if (void *library = open_library(file)) return library;
    Bytes path;
    path.print("%s/lib/%s", root, file);
    if (void *library = open_library(path.text())) return library;
  }
  return nullptr;
#endif
}

} // namespace

// One of its two ways changes nothing when the device is the thread's already.
struct Gpus::Entered {
  Gpus &gpus;
  int32_t previous = -1, error = 0;
  bool pushed = false;

  Entered(Gpus &gpus, int device) : gpus(gpus) {
    if (gpus.nvidia) {
      error = gpus.push(gpus.list[device].primary);
      pushed = !error;
      return;
    }
    error = gpus.get_device(&previous);
    if (!error && previous != device)
      error = gpus.set_device(device);
    else
      previous = -1;
  }
  ~Entered() {
    void *popped;
    if (pushed) gpus.pop(&popped);
    if (previous >= 0) gpus.set_device(previous);
  }
};

Gpus *Gpus::open() {
  auto gpus = new Gpus;
  if (!gpus) return nullptr;
  if (gpus->load()) {
    int32_t found = 0;
    if (!gpus->init(0) && !gpus->get_count(&found))
      while (gpus->count < found && gpus->count < MAX && gpus->describe(gpus->count)) gpus->count++;
  }
  if (gpus->count) return gpus;
  delete gpus;
  return nullptr;
}

bool Gpus::load() {
  const char *platform = getenv("HIP_PLATFORM");
  nvidia = platform && !strcmp(platform, "nvidia");
  void *library = open_runtime(nvidia);
  if (!library) return false;
#define X(name, hip, cuda, parameters)                                                                                 \
  name = (int32_t(*) parameters)find_symbol(library, nvidia ? #cuda : #hip);                                                 \
  if (!name) return false;
  HIP_EP_FUNCTIONS(X)
  if (nvidia) {
    HIP_EP_NVIDIA_FUNCTIONS(X)
  } else {
    HIP_EP_AMD_FUNCTIONS(X)
  }
#undef X
  return true;
}

bool Gpus::describe(int device) {
  Gpu &gpu = list[device];
  if (nvidia) {
    int32_t major = 0, minor = 0;
    if (attribute(&major, CUDA_MAJOR, device) || attribute(&minor, CUDA_MINOR, device)) return false;
    snprintf(gpu.architecture, sizeof gpu.architecture, "sm_%d%d", major, minor);
    return !device_name(gpu.name, sizeof gpu.name, device) && !retain(&gpu.primary, device);
  }
  Array<char> found;
  if (!found.resize(PROPERTIES_BYTES) || properties(found.data, device)) return false;
  snprintf(gpu.name, sizeof gpu.name, "%.255s", found.data);
  const char *architecture = found.data + PROPERTIES_ARCHITECTURE; // "gfx90a:sramecc+:xnack-"
  snprintf(gpu.architecture, sizeof gpu.architecture, "%.*s", (int)strcspn(architecture, ":"), architecture);
  return true;
}

void *Gpus::take(int device, size_t bytes, bool pinned) {
  Entered entered(*this, device);
  void *memory = nullptr;
  if (entered.error || (pinned ? allocate_host(&memory, bytes, 0) : allocate(&memory, bytes))) return nullptr;
  if (!pinned) return memory;
  auto block = (Pinned *)malloc(sizeof(Pinned));
  if (!block) {
    release_host(memory);
    return nullptr;
  }
  Held held(lock);
  *block = {memory, pinned_blocks};
  pinned_blocks = block;
  return memory;
}

void Gpus::give(int device, void *memory, bool pinned) {
  Entered entered(*this, device);
  if (!pinned) {
    release(memory);
    return;
  }
  {
    Held held(lock);
    Pinned **link = &pinned_blocks;
    while (*link && (*link)->memory != memory) link = &(*link)->next;
    if (Pinned *block = *link) {
      *link = block->next;
      free(block);
    }
  }
  release_host(memory);
}

bool Gpus::is_pinned(const void *memory) {
  Held held(lock);
  Pinned *block = pinned_blocks;
  while (block && block->memory != memory) block = block->next;
  return block;
}

int32_t Gpus::copy(int device, Direction direction, void *to, const void *from, size_t bytes) {
  Entered entered(*this, device);
  if (entered.error || !bytes) return entered.error;
  return direction == TO_DEVICE ? to_device(to, from, bytes, nullptr)
         : direction == TO_HOST ? to_host(to, from, bytes, nullptr)
                                : within(to, from, bytes, nullptr);
}

int32_t Gpus::finish(int device) {
  Entered entered(*this, device);
  return entered.error ? entered.error : wait(nullptr);
}

} // namespace hip_ep
