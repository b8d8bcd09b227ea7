// What the test programs share: ONNX Runtime's functions by their numbers, and a registered provider.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>

#include "ort_abi.h"

static void *const *api;

template <class Result, class... Arguments> static Result call(int number, Arguments... arguments) {
  return ((Result(*)(Arguments...))api[number])(arguments...);
}

static void check(OrtStatus *status) {
  if (!status) return;
  fprintf(stderr, "%s\n", call<const char *>(2, (const OrtStatus *)status));
  exit(1);
}

// Loads ONNX Runtime, makes its environment and registers the provider's library there as "hip"; its first device.
static const OrtEpDevice *open_provider(const char *runtime, const char *provider, void **environment) {
  void *library = dlopen(runtime, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  auto base = ((const OrtApiBase *(*)())dlsym(library, "OrtGetApiBase"))();
  api = (void *const *)base->GetApi(ORT_ABI);
  check(call<OrtStatus *>(3, (int)3, "hip-compiler's test", environment));
  check(call<OrtStatus *>(301, *environment, (const char *)"hip", provider));
  const OrtEpDevice *const *devices = nullptr, *mine = nullptr;
  size_t count = 0;
  check(call<OrtStatus *>(303, (const void *)*environment, &devices, &count));
  for (size_t i = 0; i < count; i++)
    if (!strcmp(call<const char *>(312, devices[i]), "HipExecutionProvider")) mine = devices[i];
  if (!mine) {
    fprintf(stderr, "the provider has no device\n");
    exit(1);
  }
  return mine;
}
