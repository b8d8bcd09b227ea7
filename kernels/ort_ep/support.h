// What the provider needs of a standard library: it is built without one, so that one file runs everywhere.
#pragma once
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ort_abi.h"

#ifdef _WIN32
#define HIP_EP_EXPORT extern "C" __declspec(dllexport)
#else
#define HIP_EP_EXPORT extern "C" __attribute__((visibility("default")))
#endif

namespace hip_ep {

// Objects on the heap, zeroed; NULL when memory ran out.
struct Heap {
  static void *operator new(size_t bytes) noexcept { return calloc(1, bytes); }
  static void operator delete(void *memory) { free(memory); }
};

// Bytes that grow. `failed` says that memory ran out: what was added since is lost.
struct Bytes {
  char *data = nullptr;
  size_t size = 0, capacity = 0;
  bool failed = false;

  Bytes() = default;
  Bytes(const Bytes &) = delete;
  Bytes &operator=(const Bytes &) = delete;
  ~Bytes() { free(data); }

  void add(const void *from, size_t bytes) {
    if (size + bytes + 1 > capacity) {
      size_t wanted = (size + bytes + 1) * 2;
      char *grown = (char *)realloc(data, wanted);
      if (!grown) failed = true;
      if (failed) return;
      data = grown;
      capacity = wanted;
    }
    if (bytes) memcpy(data + size, from, bytes);
    size += bytes;
    data[size] = 0;
  }
  void add(const char *text) { add(text, strlen(text)); }
  __attribute__((format(printf, 2, 3))) void print(const char *format, ...) {
    char line[2048];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (length > 0) add(line, (size_t)length < sizeof line ? (size_t)length : sizeof line - 1);
  }
  void clear() { size = 0; }
  const char *text() const { return data ? data : ""; }
};

// An array of plain values whose length is known once.
template <class T> struct Array {
  T *data = nullptr;
  size_t size = 0;

  Array() = default;
  Array(const Array &) = delete;
  Array &operator=(const Array &) = delete;
  ~Array() { free(data); }

  bool resize(size_t count) {
    free(data);
    data = (T *)calloc(count ? count : 1, sizeof(T));
    size = data ? count : 0;
    return data;
  }
  T &operator[](size_t i) { return data[i]; }
  const T &operator[](size_t i) const { return data[i]; }
  T *begin() const { return data; }
  T *end() const { return data + size; }
};

// The functions of one ONNX Runtime: a process may hold two of them.
struct Api {
  unsigned major = 0, minor = 0;
#define X(name, number, result, parameters) result(*name) parameters = nullptr;
  ORT_API(X)
  ORT_API_24(X)
  ORT_EP_API(X)
  ORT_EP_API_24(X)
  ORT_EP_API_25(X)
  ORT_MODEL_EDITOR_API(X)
#undef X

  bool since(unsigned wanted) const { return major > 1 || minor >= wanted; }

  // False, when the runtime is older than 1.23.1; only `CreateStatus` may be used then.
  bool load(const OrtApiBase *base) {
    // Read first: GetApi complains on the terminal about a version that it does not have.
    unsigned patch = 0;
    sscanf(base->GetVersionString(), "%u.%u.%u", &major, &minor, &patch);
    // 1.23.0 has the functions, but cannot run a model of which a part is compiled.
    if (major == 1 && (minor < ORT_ABI || (minor == ORT_ABI && patch < 1))) return false;
    auto table = (void *const *)base->GetApi(ORT_ABI);
    if (!table) return false;
#define X(name, number, result, parameters) name = (result(*) parameters)table[number];
    ORT_API(X)
    if (since(24)) {
      ORT_API_24(X)
    }
    table = (void *const *)GetEpApi();
    ORT_EP_API(X)
    if (since(24)) {
      ORT_EP_API_24(X)
    }
    if (since(25)) {
      ORT_EP_API_25(X)
    }
    table = (void *const *)GetModelEditorApi();
    ORT_MODEL_EDITOR_API(X)
#undef X
    return true;
  }

  __attribute__((format(printf, 2, 3))) OrtStatus *fail(const char *format, ...) const {
    char message[2048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return CreateStatus(ORT_FAIL, message);
  }
  OrtStatus *no_memory() const { return CreateStatus(ORT_FAIL, "hip-compiler: memory ran out"); }
  void drop(OrtStatus *status) const {
    if (status) ReleaseStatus(status);
  }
};

#define TRY(expression)                                                                                                \
  do {                                                                                                                 \
    if (OrtStatus *status_ = (expression)) return status_;                                                             \
  } while (0)

// A list that ONNX Runtime hands out in two steps: its length, then its elements.
template <class T, class Owner>
OrtStatus *list(const Api &api, OrtStatus *(*count)(const Owner *, size_t *),
                OrtStatus *(*get)(const Owner *, const T **, size_t), const Owner *owner, Array<const T *> &out) {
  size_t length = 0;
  TRY(count(owner, &length));
  if (!out.resize(length)) return api.no_memory();
  return get(owner, out.data, length);
}

} // namespace hip_ep
