// What one registration of the library with one ONNX Runtime has: its functions, the GPUs, and their memory.
#pragma once
#include "gpu.h"

namespace hip_ep {

// Of the provider, and of the memory that it hands out, whatever the platform: other providers know NVIDIA's as theirs.
constexpr uint32_t VENDOR_ID = 0x1002;
constexpr uint32_t NVIDIA_ID = 0x10de;

struct Factory : OrtEpFactory, Heap {
  const Api *api = nullptr;
  Gpus *gpus = nullptr; // NULL: there are none
  // What ONNX Runtime knows of each GPU: its memory, the host's that it reaches, and itself where the runtime lets
  // providers make devices.
  OrtMemoryInfo *memory[Gpus::MAX][2] = {};
  OrtHardwareDevice *hardware[Gpus::MAX] = {};
  // The registration, providers of sessions, allocators, copiers: the last one takes the factory along.
  int users = 1;

  ~Factory();
  void enter() { __atomic_add_fetch(&users, 1, __ATOMIC_RELAXED); }
  void leave() {
    if (!__atomic_sub_fetch(&users, 1, __ATOMIC_ACQ_REL)) delete this;
  }
};

// Adds a device of ONNX Runtime for every GPU, as far as there is room.
OrtStatus *add_gpus(Factory &factory, const OrtHardwareDevice *const *devices, size_t count, OrtEpDevice **out, size_t max,
                    size_t *made);

// Memory that an allocator of a session or of the whole runtime hands out. `small_on_host`: what is small lies in memory
// of the host that the GPU reaches, but for what is taken while `for_outputs()` holds.
OrtStatus *create_allocator(Factory &factory, const OrtMemoryInfo *info, bool small_on_host, OrtAllocator **out);
void release_allocator(OrtAllocator *allocator);
// This thread asks for memory of outputs.
bool &for_outputs();

OrtStatus *create_data_transfer(Factory &factory, OrtDataTransfer **out);

} // namespace hip_ep
