// The GPUs of this machine, for the memory of sessions on them: through HIP, or CUDA's driver where HIP_PLATFORM is
// nvidia. Programs open their devices themselves; this is what moves tensors to and from them.
#pragma once
#include "support.h"
#include "system.h"

namespace hip_ep {

// All of them return 0 or an error. X(name here, HIP's, CUDA's, parameters)
#define HIP_EP_FUNCTIONS(X)                                                                                            \
  X(init, hipInit, cuInit, (uint32_t flags))                                                                           \
  X(get_count, hipGetDeviceCount, cuDeviceGetCount, (int32_t * count))                                                 \
  X(allocate, hipMalloc, cuMemAlloc_v2, (void **memory, size_t bytes))                                                 \
  X(release, hipFree, cuMemFree_v2, (void *memory))                                                                    \
  X(allocate_host, hipHostMalloc, cuMemHostAlloc, (void **memory, size_t bytes, uint32_t flags))                       \
  X(release_host, hipHostFree, cuMemFreeHost, (void *memory))                                                          \
  X(to_device, hipMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, (void *to, const void *from, size_t bytes, void *stream))     \
  X(to_host, hipMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, (void *to, const void *from, size_t bytes, void *stream))       \
  X(within, hipMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, (void *to, const void *from, size_t bytes, void *stream))        \
  X(wait, hipStreamSynchronize, cuStreamSynchronize, (void *stream))
#define HIP_EP_AMD_FUNCTIONS(X)                                                                                        \
  X(get_device, hipGetDevice, , (int32_t * device))                                                                    \
  X(set_device, hipSetDevice, , (int32_t device))                                                                      \
  X(properties, hipGetDevicePropertiesR0600, , (void *properties, int32_t device))
#define HIP_EP_NVIDIA_FUNCTIONS(X)                                                                                     \
  X(device_name, , cuDeviceGetName, (char *name, int32_t bytes, int32_t device))                                       \
  X(attribute, , cuDeviceGetAttribute, (int32_t * value, int32_t attribute, int32_t device))                           \
  X(retain, , cuDevicePrimaryCtxRetain, (void **primary, int32_t device))                                              \
  X(push, , cuCtxPushCurrent_v2, (void *primary))                                                                      \
  X(pop, , cuCtxPopCurrent_v2, (void **primary))

class Gpus : public Heap {
public:
  static constexpr int MAX = 16;

  // Finds the library and the devices; NULL: there are none. The library stays loaded: runtimes of GPUs do not survive
  // being unloaded.
  static Gpus *open();

  int count = 0;
  bool nvidia = false;
  struct Gpu {
    char name[256], architecture[64];
    void *primary; // CUDA's context
  } list[MAX] = {};

  // Memory of a device, or of the host that devices reach; NULL: memory ran out.
  void *take(int device, size_t bytes, bool pinned);
  void give(int device, void *memory, bool pinned);
  // Whether pinned memory that `take` gave begins at an address.
  bool is_pinned(const void *memory);

  enum Direction { TO_DEVICE, TO_HOST, WITHIN };
  // Begins a copy; `finish` waits for all of a device. 0, or the error of the library.
  int32_t copy(int device, Direction direction, void *to, const void *from, size_t bytes);
  int32_t finish(int device);

private:
  struct Pinned {
    void *memory;
    Pinned *next;
  };
  struct Entered; // the device is the thread's for a while

  bool load();
  bool describe(int device);

#define X(name, hip, cuda, parameters) int32_t(*name) parameters = nullptr;
  HIP_EP_FUNCTIONS(X)
  HIP_EP_AMD_FUNCTIONS(X)
  HIP_EP_NVIDIA_FUNCTIONS(X)
#undef X
  Lock lock;
  Pinned *pinned_blocks = nullptr;
};

} // namespace hip_ep
