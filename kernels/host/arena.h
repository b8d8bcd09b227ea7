// Arenas, blocks and scratch of a context, and their accounts. A runtime includes it in one of its sources, after its
// context, and says where memory comes from.
#pragma once
#include "state.h"

namespace hipc {

// Memory, 64-byte aligned; NULL when there is none. Of the host, or of the device.
void *allocate(hipc_context *context, int64_t bytes);
void deallocate(hipc_context *context, void *memory, int64_t bytes);

// Held bytes of all blocks, after a change.
inline void account(hipc_context *context, int64_t change) {
  context->arena_bytes += change;
  context->arena_peak = max(context->arena_peak, context->arena_bytes);
}

inline void release(hipc_context *context, Block *block) {
  account(context, -block->bytes);
  deallocate(context, block->memory, block->bytes);
  *block = Block{};
}

// Blocks that a run outgrew, and blocks that it asked for by hipc_alloc: compiled code may hold pointers into them until
// the run ends.
inline void release_outgrown(hipc_context *context) {
  while (Outgrown *outgrown = context->outgrown) {
    context->outgrown = outgrown->next;
    account(context, -outgrown->bytes);
    deallocate(context, outgrown->memory, outgrown->bytes);
    free(outgrown);
  }
}

inline bool reserve(hipc_context *context, Block *block, int64_t bytes, bool keep_old) {
  if (block->memory && block->bytes >= bytes) return true;
  if (block->memory && keep_old) {
    Outgrown *outgrown = (Outgrown *)malloc(sizeof *outgrown);
    if (!outgrown) return false;
    *outgrown = {block->memory, block->bytes, context->outgrown};
    context->outgrown = outgrown;
    *block = Block{};
  } else if (block->memory) {
    release(context, block);
  }
  block->memory = allocate(context, bytes);
  if (!block->memory) return false;
  block->bytes = bytes;
  account(context, bytes);
  return true;
}

// Everything that runs may have taken.
inline void release_all(hipc_context *context) {
  release_outgrown(context);
  for (Block &block : context->arenas)
    if (block.memory) release(context, &block);
  if (context->scratch.memory) release(context, &context->scratch);
}

} // namespace hipc

using namespace hipc;

HIPC_EXPORT int64_t hipc_arena_bytes(hipc_context *context) { return context->arena_bytes; }

HIPC_EXPORT int64_t hipc_arena_peak(hipc_context *context) { return context->arena_peak; }

HIPC_EXPORT void *hipc_pool(hipc_context *context, int64_t domain, int64_t bytes) {
  if (domain < 0 || domain >= MAX_DOMAINS) {
    hipc_error(context, HIPC_ERROR_INTERNAL, "pool domain %lld is outside [0, %d)", (long long)domain, MAX_DOMAINS);
    return nullptr;
  }
  if (bytes < 0 || !reserve(context, &context->arenas[domain], bytes, /*keep_old=*/true)) {
    hipc_error(context, HIPC_ERROR_MEMORY, "no memory for an arena of %lld bytes", (long long)bytes);
    return nullptr;
  }
  return context->arenas[domain].memory;
}

HIPC_EXPORT void *hipc_alloc(hipc_context *context, int64_t bytes) {
  Outgrown *entry = bytes < 0 ? nullptr : (Outgrown *)malloc(sizeof *entry);
  void *memory = entry ? allocate(context, bytes) : nullptr;
  if (!memory) {
    free(entry);
    hipc_error(context, HIPC_ERROR_MEMORY, "no memory for a buffer of %lld bytes", (long long)bytes);
    return nullptr;
  }
  *entry = {memory, bytes, context->outgrown};
  context->outgrown = entry;
  account(context, bytes);
  return memory;
}

HIPC_EXPORT int64_t hipc_mark(hipc_context *context) { return (int64_t)context->outgrown; }

HIPC_EXPORT void hipc_release(hipc_context *context, int64_t mark, const void *const *kept, int64_t num_kept) {
  Outgrown **link = &context->outgrown;
  while (*link && (int64_t)*link != mark) {
    Outgrown *entry = *link;
    bool keep = false;
    for (int64_t i = 0; i < num_kept; i++)
      keep = keep || (kept[i] >= entry->memory && (const char *)kept[i] <= (const char *)entry->memory + entry->bytes);
    if (keep) {
      link = &entry->next;
      continue;
    }
    *link = entry->next;
    account(context, -entry->bytes);
    deallocate(context, entry->memory, entry->bytes);
    free(entry);
  }
}
