// What ONNX Runtime and hip-compiler call by name.
#include "factory.h"

#include "provider.h"

namespace hip_ep {
namespace {

// Kept as a copy. Sessions are made while Python is there; it takes the compiler away before it ends.
hip_ep_compiler compiler;

// The functions of every runtime that has registered the library. They stay: a runtime lets a program unregister it while
// there are sessions. The library itself is linked to stay, too.
struct Runtime : Heap {
  const OrtApiBase *base;
  Api api;
  Runtime *next;
};

Runtime *runtimes;
Lock runtimes_lock;

// NULL, when the runtime is too old or memory ran out.
const Api *api_of_runtime(const OrtApiBase *base) {
  Held held(runtimes_lock);
  Runtime *found = runtimes;
  while (found && found->base != base) found = found->next;
  if (!found && (found = new Runtime)) {
    if (found->api.load(base)) {
      found->base = base;
      found->next = runtimes;
      runtimes = found;
    } else {
      delete found;
      found = nullptr;
    }
  }
  return found ? &found->api : nullptr;
}

OrtStatus *supported_devices(OrtEpFactory *self, const OrtHardwareDevice *const *devices, size_t count, OrtEpDevice **out,
                             size_t max, size_t *made) {
  auto &factory = *(Factory *)self;
  const Api &api = *factory.api;
  *made = 0;
  for (size_t i = 0; i < count && *made < max; i++) {
    if (api.HardwareDevice_Type(devices[i]) != ORT_CPU) continue;
    TRY(api.CreateEpDevice(&factory, devices[i], nullptr, nullptr, out + *made));
    ++*made;
  }
  return add_gpus(factory, devices, count, out, max, made);
}

OrtStatus *create_ep(OrtEpFactory *self, const OrtHardwareDevice *const *, const OrtKeyValuePairs *const *facts,
                     size_t count, const OrtSessionOptions *options, const OrtLogger *logger, OrtEp **out) {
  auto &factory = *(Factory *)self;
  const Api &api = *factory.api;
  auto provider = new Provider(factory, logger);
  if (!provider) return api.no_memory();
  *out = provider;
  factory.enter();
  Selection selection;
  for (size_t i = 0; i < count; i++) {
    const char *number = facts && facts[i] ? api.GetKeyValue(facts[i], "device_id") : nullptr;
    if (!number)
      selection.host = true;
    else if (selection.count < Gpus::MAX)
      selection.gpus[selection.count++] = atoi(number);
  }
  // An error here would be a session on the CPU without a word: the provider tells of it when it compiles.
  if (OrtStatus *status = provider->settings.read(factory, options, selection)) {
    provider->settings.trouble.add(api.GetErrorMessage(status));
    api.ReleaseStatus(status);
  }
  provider->take_profile_option();
  return nullptr;
}

// The answer that a runtime asks for before it loads a context model. One that does not fit is refused when it is loaded,
// by the message that names both sides.
OrtStatus *validate(OrtEpFactory *, const OrtHardwareDevice *const *, size_t, const char *info, int *result) {
  *result = info && !strcmp(info, compatibility()) ? ORT_OPTIMAL : ORT_PREFER_RECOMPILATION;
  return nullptr;
}

} // namespace

const hip_ep_compiler *registered_compiler() { return compiler.version ? &compiler : nullptr; }

const char *compatibility() {
  static char text[96];
  snprintf(text, sizeof text, "hip-compiler version=%s abi=%d", HIP_EP_VERSION, HIPC_ABI_VERSION);
  return text;
}

} // namespace hip_ep

using namespace hip_ep;

HIP_EP_EXPORT OrtStatus *CreateEpFactories(const char *, const OrtApiBase *base, const OrtLogger *, OrtEpFactory **out,
                                           size_t max, size_t *made) {
  *made = 0;
  auto factory = new Factory;
  if (!factory || max < 1) {
    delete factory;
    return nullptr;
  }
  factory->api = api_of_runtime(base);
  if (!factory->api) {
    auto create = (decltype(Api::CreateStatus))((void *const *)base->GetApi(1))[0];
    OrtStatus *status = create(ORT_FAIL, "hip-compiler needs ONNX Runtime 1.23.1 or later");
    delete factory;
    return status;
  }
  factory->ort_version_supported = ORT_ABI;
  factory->GetName = [](const OrtEpFactory *) { return EP_NAME; };
  factory->GetVendor = [](const OrtEpFactory *) { return "hip-compiler"; };
  factory->GetVendorId = [](const OrtEpFactory *) { return VENDOR_ID; };
  factory->GetVersion = [](const OrtEpFactory *) { return (const char *)HIP_EP_VERSION; };
  factory->GetSupportedDevices = supported_devices;
  factory->CreateEp = create_ep;
  factory->gpus = Gpus::open();
  factory->ReleaseEp = [](OrtEpFactory *factory, OrtEp *ep) {
    delete (Provider *)ep;
    ((Factory *)factory)->leave();
  };
  factory->ValidateCompiledModelCompatibilityInfo = validate;
  factory->CreateAllocator = [](OrtEpFactory *self, const OrtMemoryInfo *info, const OrtKeyValuePairs *, OrtAllocator **out) {
    return create_allocator(*(Factory *)self, info, false, out);
  };
  factory->ReleaseAllocator = [](OrtEpFactory *, OrtAllocator *allocator) { release_allocator(allocator); };
  factory->CreateDataTransfer = [](OrtEpFactory *self, OrtDataTransfer **out) {
    return create_data_transfer(*(Factory *)self, out);
  };
  // A run is complete when it returns, and so are copies: there are no streams to hand out.
  factory->IsStreamAware = [](const OrtEpFactory *) { return false; };
  factory->CreateSyncStreamForDevice = [](OrtEpFactory *, const OrtMemoryDevice *, const OrtKeyValuePairs *, void **stream) {
    *stream = nullptr;
    return (OrtStatus *)nullptr;
  };
  out[0] = factory;
  *made = 1;
  return nullptr;
}

HIP_EP_EXPORT OrtStatus *ReleaseEpFactory(OrtEpFactory *factory) {
  ((Factory *)factory)->leave();
  return nullptr;
}

// Registers the compiler of this process; NULL: there is none any more. Returns 0, or the version that is understood.
HIP_EP_EXPORT uint32_t hip_ep_set_compiler(const hip_ep_compiler *chosen) {
  if (chosen && chosen->version != HIP_EP_COMPILER_VERSION) return HIP_EP_COMPILER_VERSION;
  compiler = chosen ? *chosen : hip_ep_compiler{};
  return 0;
}

// The option of a number, or NULL behind the last one.
HIP_EP_EXPORT const char *hip_ep_option(int32_t number) {
  return number >= 0 && (size_t)number < sizeof OPTIONS / sizeof *OPTIONS ? OPTIONS[number] : nullptr;
}
