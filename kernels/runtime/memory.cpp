// Memory of the device, and pinned memory of the host.
#include <stdlib.h>

#include "gpu_context.h"

#include "../host/arena.h"

namespace {

// The smallest free block that is not far too large.
DeviceBlock *find_free(hipc_context *context, int64_t bytes) {
  DeviceBlock *best = nullptr;
  for (DeviceBlock *block = context->blocks; block < context->blocks + context->num_blocks; block++)
    if (!block->used && block->bytes >= bytes && block->bytes <= 2 * bytes + (64 << 10) &&
        (!best || block->bytes < best->bytes))
      best = block;
  return best;
}

// Gives free blocks back to the device that no run has needed since run number `since`.
void free_blocks(hipc_context *context, uint64_t since) {
  int64_t kept = 0;
  for (int64_t i = 0; i < context->num_blocks; i++) {
    DeviceBlock block = context->blocks[i];
    if (block.used || block.run > since) {
      context->blocks[kept++] = block;
      continue;
    }
    context->hip.hipFree(block.memory);
    account(context, -block.bytes);
  }
  context->num_blocks = kept;
}

bool grow_table(hipc_context *context) {
  if (context->num_blocks < context->capacity_blocks) return true;
  int64_t capacity = max<int64_t>(64, 2 * context->capacity_blocks);
  DeviceBlock *blocks = (DeviceBlock *)realloc(context->blocks, (size_t)capacity * sizeof *blocks);
  if (!blocks) return false;
  context->blocks = blocks;
  context->capacity_blocks = capacity;
  return true;
}

} // namespace

// Blocks are given to whoever asks next in the order of the stream, so that work under way may still use them.
void *hipc::allocate(hipc_context *context, int64_t bytes) {
  bytes = round_up(max<int64_t>(bytes, 1), DEVICE_ALIGNMENT);
  if (DeviceBlock *block = find_free(context, bytes)) {
    block->used = true;
    // Whoever takes it accounts for it.
    account(context, -block->bytes);
    return block->memory;
  }
  if (!grow_table(context)) return nullptr;
  void *memory = nullptr;
  int32_t error = context->hip.hipMalloc(&memory, (size_t)bytes);
  // Deferred commands name addresses: nothing goes back to the device while there are any.
  if (error == ERROR_OUT_OF_MEMORY && catch_up(context) == HIPC_OK) {
    free_blocks(context, context->run);
    error = context->hip.hipMalloc(&memory, (size_t)bytes);
  }
  if (error) return nullptr;
  context->blocks[context->num_blocks++] = {(char *)memory, bytes, true, 0};
  return memory;
}

void hipc::deallocate(hipc_context *context, void *memory, int64_t) {
  for (DeviceBlock *block = context->blocks; block < context->blocks + context->num_blocks; block++)
    if (block->memory == memory) {
      block->used = false;
      block->run = context->run;
      account(context, block->bytes);
      return;
    }
}

void hipc::recycle_memory(hipc_context *context) {
  release_outgrown(context);
  if (context->run >= 2) free_blocks(context, context->run - 2);
}

void hipc::release_memory(hipc_context *context) {
  if (context->workspace.memory) release(context, &context->workspace);
  if (context->input_block.memory) release(context, &context->input_block);
  for (int64_t i = 0; i < context->num_output_blocks; i++)
    if (context->output_blocks[i].memory) release(context, context->output_blocks + i);
  release_all(context);
  free_blocks(context, context->run);
}

void *hipc::reserve_block(hipc_context *context, Block *block, int64_t bytes, const char *what) {
  if (bytes >= 0 && reserve(context, block, bytes, /*keep_old=*/true)) return block->memory;
  hipc_error(context, HIPC_ERROR_MEMORY, "device %d has no memory for %lld bytes of %s", context->device, (long long)bytes,
             what);
  return nullptr;
}

// Tensors are on the device, and so is scratch.
HIPC_EXPORT void *hipc_scratch(hipc_context *context, int64_t bytes) { return device_scratch(context, bytes); }

void *hipc::device_scratch(hipc_context *context, int64_t bytes) {
  return reserve_block(context, &context->scratch, bytes, "scratch");
}

uint32_t *hipc::device_counters(hipc_context *context) {
  if (context->counters) return context->counters;
  void *memory = nullptr;
  int32_t error = context->hip.hipMalloc(&memory, MOST_COUNTERS * sizeof(uint32_t));
  // Not a command of the run: it is done once, and before whatever the run has deferred.
  if (!error) error = context->hip.hipMemsetD32Async(memory, 0, MOST_COUNTERS, context->stream);
  if (error) return check_hip(context, error, "making counters"), nullptr;
  return context->counters = (uint32_t *)memory;
}

bool hipc::reserve_pinned(hipc_context *context, Pinned *pinned, int64_t bytes) {
  if (pinned->bytes >= bytes) return true;
  free_pinned(context, pinned);
  void *memory = nullptr;
  bytes = round_up(bytes, 4096);
  if (int32_t error = context->hip.hipHostMalloc(&memory, (size_t)bytes, 0)) {
    if (error != ERROR_OUT_OF_MEMORY) return check_hip(context, error, "taking pinned memory"), false;
    hipc_error(context, HIPC_ERROR_MEMORY, "there is no pinned memory for %lld bytes", (long long)bytes);
    return false;
  }
  *pinned = {(char *)memory, bytes};
  return true;
}

void hipc::free_pinned(hipc_context *context, Pinned *pinned) {
  if (pinned->memory) context->hip.hipHostFree(pinned->memory);
  *pinned = Pinned{};
}

// While one chunk is on its way the next is filled.
int32_t hipc::upload(hipc_context *context, void *device, const void *host, int64_t bytes) {
  Hip &hip = context->hip;
  int64_t chunk = min(CHUNK_BYTES, bytes);
  for (int i = 0; i < 2; i++) {
    if (!context->chunk_free[i])
      HIPC_TRY(check_hip(context, hip.hipEventCreateWithFlags(context->chunk_free + i, EVENT_DISABLE_TIMING), "making an event"));
    if (i * chunk >= bytes || context->chunks[i].bytes >= chunk) continue;
    // A smaller one may still be on its way.
    HIPC_TRY(check_hip(context, hip.hipEventSynchronize(context->chunk_free[i]), "copying to the device"));
    if (!reserve_pinned(context, context->chunks + i, chunk)) return HIPC_ERROR_MEMORY;
  }
  int which = 0;
  for (int64_t at = 0; at < bytes; at += chunk, which ^= 1) {
    int64_t count = min(chunk, bytes - at);
    HIPC_TRY(check_hip(context, hip.hipEventSynchronize(context->chunk_free[which]), "copying to the device"));
    memcpy(context->chunks[which].memory, (const char *)host + at, (size_t)count);
    HIPC_TRY(check_hip(context,
                       hip.hipMemcpyHtoDAsync((char *)device + at, context->chunks[which].memory, (size_t)count, context->stream),
                       "copying to the device"));
    HIPC_TRY(check_hip(context, hip.hipEventRecord(context->chunk_free[which], context->stream), "copying to the device"));
  }
  return HIPC_OK;
}
