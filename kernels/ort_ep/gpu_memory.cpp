// Memory of GPUs as ONNX Runtime wants it: devices that say where it is, allocators, and what copies tensors.
#include "factory.h"

namespace hip_ep {
namespace {

constexpr size_t SMALLEST = 256, SMALL = 64 << 10;
constexpr size_t BUCKETS = 256;
thread_local bool asks_for_outputs = false;

// Taking memory from a driver and giving it back wait for the device: what is given back is kept for the next one who
// asks for about as much.
struct Allocator : OrtAllocator, Heap {
  struct Block {
    void *memory;
    size_t bytes;
    bool pinned, used;
    Block *next;
  };

  Factory *factory;
  const OrtMemoryInfo *info;
  int device;
  bool pinned, small_on_host;
  Lock lock;
  Block *blocks[BUCKETS]; // by size, so that one that fits is in the bucket of its size

  // Eight sizes to a doubling: what grows by a little each time finds its last block again most times.
  static size_t rounded(size_t bytes) {
    if (bytes <= SMALLEST) return SMALLEST;
    size_t step = (size_t)1 << (63 - __builtin_clzll(bytes - 1));
    step /= 8;
    return (bytes + step - 1) / step * step;
  }
  static size_t bucket(size_t bytes) { return bytes * 0x9e3779b97f4a7c15u >> 56; }

  void *take(size_t bytes) {
    bool host = pinned || (small_on_host && bytes <= SMALL && !for_outputs());
    bytes = rounded(bytes);
    Held held(lock);
    Block *block = blocks[bucket(bytes)];
    while (block && (block->used || block->bytes != bytes || block->pinned != host)) block = block->next;
    if (!block) block = make(bytes, host);
    if (block) block->used = true;
    return block ? block->memory : nullptr;
  }

  Block *make(size_t bytes, bool host) {
    void *memory = factory->gpus->take(device, bytes, host);
    if (!memory) {
      drop(false);
      memory = factory->gpus->take(device, bytes, host);
    }
    auto block = memory ? (Block *)malloc(sizeof(Block)) : nullptr;
    if (!block) {
      if (memory) factory->gpus->give(device, memory, host);
      return nullptr;
    }
    *block = {memory, bytes, host, false, blocks[bucket(bytes)]};
    return blocks[bucket(bytes)] = block;
  }

  void give(void *memory) {
    Held held(lock);
    for (Block *first : blocks)
      for (Block *block = first; block; block = block->next)
        if (block->memory == memory) block->used = false;
  }

  // Gives blocks back to the driver: those that nobody uses, or all of them.
  void drop(bool all) {
    for (Block *&first : blocks)
      for (Block **link = &first; Block *block = *link;) {
        if (block->used && !all) {
          link = &block->next;
          continue;
        }
        factory->gpus->give(device, block->memory, block->pinned);
        *link = block->next;
        free(block);
      }
  }
};

// Where a tensor is, for copies.
struct Place {
  bool gpu, pinned;
  int device;
};

Place place_of(const Api &api, const OrtMemoryDevice *memory) {
  bool gpu = api.MemoryDevice_GetDeviceType(memory) == ORT_GPU;
  bool pinned = gpu && api.MemoryDevice_GetMemoryType(memory) == ORT_HOST_ACCESSIBLE;
  return {gpu && !pinned, pinned, gpu ? (int)api.MemoryDevice_GetDeviceId(memory) : -1};
}

struct DataTransfer : OrtDataTransfer, Heap {
  Factory *factory;

  bool knows(const OrtMemoryDevice *memory) const {
    const Api &api = *factory->api;
    if (api.MemoryDevice_GetDeviceType(memory) == ORT_CPU) return true;
    return api.MemoryDevice_GetDeviceType(memory) == ORT_GPU && api.MemoryDevice_GetVendorId(memory) == VENDOR_ID &&
           (int)api.MemoryDevice_GetDeviceId(memory) < factory->gpus->count;
  }

  bool can_copy(const OrtMemoryDevice *from, const OrtMemoryDevice *to) const {
    if (!knows(from) || !knows(to)) return false;
    Place source = place_of(*factory->api, from), target = place_of(*factory->api, to);
    if (source.device < 0 && target.device < 0) return false; // that is ONNX Runtime's own
    return !source.gpu || !target.gpu || source.device == target.device;
  }

  OrtStatus *copy(const OrtValue *from, OrtValue *to, int *device) {
    const Api &api = *factory->api;
    Gpus &gpus = *factory->gpus;
    Place source = place_of(api, api.Value_GetMemoryDevice(from)), target = place_of(api, api.Value_GetMemoryDevice(to));
    const void *data = nullptr;
    void *memory = nullptr;
    size_t bytes = 0;
    TRY(api.GetTensorSizeInBytes(from, &bytes));
    TRY(api.GetTensorData(from, &data));
    TRY(api.GetTensorMutableData(to, &memory));
    if (!bytes) return nullptr;
    // ONNX Runtime makes tensors of what an allocator does not have.
    if (!data || !memory) return api.fail("hip-compiler: memory ran out: there are no %zu bytes for a tensor", bytes);
    // Small inputs of a session may be on the host's side, whatever ONNX Runtime calls it.
    bool on_host = !source.gpu && (!target.gpu || gpus.is_pinned(memory));
    if (on_host) {
      memcpy(memory, data, bytes);
      return nullptr;
    }
    *device = target.gpu ? target.device : source.device;
    auto direction = !source.gpu ? Gpus::TO_DEVICE : target.gpu ? Gpus::WITHIN : Gpus::TO_HOST;
    int32_t error = gpus.copy(*device, direction, memory, data, bytes);
    return error ? api.fail("hip-compiler: a copy of %zu bytes on GPU %d failed with error %d", bytes, *device, error) : nullptr;
  }

  OrtStatus *copy_all(const OrtValue **from, OrtValue **to, size_t count) {
    OrtStatus *status = nullptr;
    bool busy[Gpus::MAX] = {};
    for (size_t i = 0; i < count && !status; i++) {
      int device = -1;
      status = copy(from[i], to[i], &device);
      if (device >= 0) busy[device] = true;
    }
    // One wait for all of them, and also behind an error: nothing may be under way afterwards.
    for (int device = 0; device < factory->gpus->count; device++)
      if (busy[device])
        if (int32_t error = factory->gpus->finish(device); error && !status)
          status = factory->api->fail("hip-compiler: copies on GPU %d failed with error %d", device, error);
    return status;
  }
};

OrtStatus *add_gpu(Factory &factory, int number, const OrtHardwareDevice *hardware, OrtEpDevice **out) {
  const Api &api = *factory.api;
  const Gpus::Gpu &gpu = factory.gpus->list[number];
  constexpr int KINDS[] = {ORT_DEVICE_MEMORY, ORT_HOST_ACCESSIBLE};
  constexpr const char *NAMES[] = {"HipDevice", "HipPinned"};
  for (int kind = 0; kind < 2; kind++)
    if (!factory.memory[number][kind])
      TRY(api.CreateMemoryInfo_V2(NAMES[kind], ORT_GPU, VENDOR_ID, number, KINDS[kind], 0, ORT_DEVICE_ALLOCATOR,
                                  &factory.memory[number][kind]));
  if (api.since(24) && !factory.hardware[number])
    TRY(api.CreateHardwareDevice(ORT_GPU, factory.gpus->nvidia ? NVIDIA_ID : VENDOR_ID, (uint32_t)number,
                                 factory.gpus->nvidia ? "NVIDIA" : "AMD", nullptr, &factory.hardware[number]));
  if (factory.hardware[number]) hardware = factory.hardware[number];
  OrtKeyValuePairs *facts = nullptr;
  char text[16];
  snprintf(text, sizeof text, "%d", number);
  api.CreateKeyValuePairs(&facts);
  api.AddKeyValuePair(facts, "device_id", text);
  api.AddKeyValuePair(facts, "name", gpu.name);
  api.AddKeyValuePair(facts, "architecture", gpu.architecture);
  OrtStatus *status = api.CreateEpDevice(&factory, hardware, facts, nullptr, out);
  api.ReleaseKeyValuePairs(facts);
  for (int kind = 0; kind < 2 && !status; kind++)
    status = api.EpDevice_AddAllocatorInfo(*out, factory.memory[number][kind]);
  return status;
}

} // namespace

Factory::~Factory() {
  for (OrtMemoryInfo **infos : memory)
    for (int kind = 0; kind < 2; kind++)
      if (infos[kind]) api->ReleaseMemoryInfo(infos[kind]);
  for (OrtHardwareDevice *device : hardware)
    if (device) api->ReleaseHardwareDevice(device);
  delete gpus;
}

OrtStatus *add_gpus(Factory &factory, const OrtHardwareDevice *const *devices, size_t count, OrtEpDevice **out, size_t max,
                    size_t *made) {
  if (!factory.gpus || !count) return nullptr;
  for (int number = 0; number < factory.gpus->count && *made < max; number++) {
    // Before 1.24 only the runtime makes devices, and it need not have seen the GPU: any of its devices will do.
    TRY(add_gpu(factory, number, devices[0], out + *made));
    ++*made;
  }
  return nullptr;
}

bool &for_outputs() { return asks_for_outputs; }

OrtStatus *create_allocator(Factory &factory, const OrtMemoryInfo *info, bool small_on_host, OrtAllocator **out) {
  *out = nullptr;
  if (!info || !factory.gpus) return nullptr;
  const Api &api = *factory.api;
  Place place = place_of(api, api.MemoryInfo_GetMemoryDevice(info));
  if (place.device < 0 || place.device >= factory.gpus->count) return nullptr; // the host's own will do
  auto made = new Allocator();
  if (!made) return api.no_memory();
  made->version = ORT_ABI;
  made->Alloc = [](OrtAllocator *self, size_t bytes) { return ((Allocator *)self)->take(bytes); };
  made->Reserve = made->Alloc;
  made->Free = [](OrtAllocator *self, void *memory) {
    if (memory) ((Allocator *)self)->give(memory);
  };
  made->Info = [](const OrtAllocator *self) { return ((const Allocator *)self)->info; };
  made->factory = &factory;
  made->info = factory.memory[place.device][place.pinned];
  made->device = place.device;
  made->pinned = place.pinned;
  made->small_on_host = small_on_host;
  factory.enter();
  *out = made;
  return nullptr;
}

void release_allocator(OrtAllocator *allocator) {
  if (!allocator) return;
  auto made = (Allocator *)allocator;
  Factory *factory = made->factory;
  made->drop(true);
  delete made;
  factory->leave();
}

OrtStatus *create_data_transfer(Factory &factory, OrtDataTransfer **out) {
  *out = nullptr;
  if (!factory.gpus) return nullptr;
  auto made = new DataTransfer();
  if (!made) return factory.api->no_memory();
  made->ort_version_supported = ORT_ABI;
  made->factory = &factory;
  made->Release = [](OrtDataTransfer *self) {
    Factory *factory = ((DataTransfer *)self)->factory;
    delete (DataTransfer *)self;
    factory->leave();
  };
  made->CanCopy = [](const OrtDataTransfer *self, const OrtMemoryDevice *from, const OrtMemoryDevice *to) {
    return ((const DataTransfer *)self)->can_copy(from, to);
  };
  made->CopyTensors = [](OrtDataTransfer *self, const OrtValue **from, OrtValue **to, OrtSyncStream **, size_t count) {
    return ((DataTransfer *)self)->copy_all(from, to, count);
  };
  factory.enter();
  *out = made;
  return nullptr;
}

} // namespace hip_ep
