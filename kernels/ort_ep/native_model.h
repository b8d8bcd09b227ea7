// A native artifact: a shared library that carries its constants. Its form is described in
// hip_compiler/runtime/native_file.py.
#pragma once
#include "hipc.h"
#include "support.h"

namespace hip_ep {

class NativeModel : public Heap {
public:
  // Artifacts are shared libraries of Linux; elsewhere none is ever open.
#ifdef __linux__
  static constexpr bool LOADS = true;
#else
  static constexpr bool LOADS = false;
#endif
  void *state = nullptr;
  int32_t (*compute)(void *, const hipc_io *) = nullptr;
  const char *(*last_error)(void *) = nullptr;
  const hipc_event *(*events)(void *, int64_t *) = nullptr; // NULL: it was made by an older version

  ~NativeModel();

  // Loads a file, which may be removed afterwards. False, and a sentence, when it does not fit this library or machine.
  bool open_file(const char *path, const char *target, const hipc_fs &placement, Bytes &why);
  // The same from memory.
  bool open_memory(const char *data, size_t size, const char *target, const hipc_fs &placement, Bytes &why);

  // Pairs of an input and an output that may share memory.
  void shared(Bytes &out) const;

private:
  struct Mapping {
    void *memory;
    size_t size;
    Mapping *next;
  };

  bool load(const char *target, const hipc_fs &placement, Bytes &why);
  bool read_index(Bytes &index, Bytes &why);
  bool find(const char *name, int64_t *offset, int64_t *size) const;
  static const void *map(void *self, const char *name, int64_t *size);

  int file = -1;
  void *library = nullptr;
  void (*cleanup)(void *) = nullptr;
  Bytes index;
  Mapping *mappings = nullptr;
};

} // namespace hip_ep
