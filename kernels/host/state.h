// What the context of every target holds: arenas, the interface of a run, the last error. The GPU runtimes share it.
#pragma once
#include <pthread.h>

#include "hipc_host.h"

namespace hipc {

constexpr int64_t ALIGNMENT = 64;
constexpr int MAX_DOMAINS = 1024;

struct Block {
  void *memory;
  int64_t bytes;
};

struct Outgrown {
  void *memory;
  int64_t bytes;
  Outgrown *next;
};

// Extent of a symbol, and the input and dimension that decided it; `input` is -1 where none has.
struct SymbolValue {
  int64_t extent, input;
  int32_t dimension;
};

struct State {
  const hipc_io *io;
  const void *constants;
  Block arenas[MAX_DOMAINS], scratch;
  Outgrown *outgrown;
  int64_t arena_bytes, arena_peak;
  SymbolValue *symbols;
  int64_t num_symbols;
  const char *const *symbol_names;
  int64_t num_symbol_names;
  hipc_event *events;
  int64_t num_events, capacity_events, last_time;
  pthread_mutex_t message_lock;
  char message[1024];
  alignas(ALIGNMENT) char nothing[ALIGNMENT];
};

} // namespace hipc
