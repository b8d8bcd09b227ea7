// Life of a state: constants, arenas, scratch, inputs, outputs, errors.
#include "context.h"

#include <stdarg.h>
#include <stdio.h>

using namespace hipc;

namespace {

constexpr int64_t ALIGNMENT = 64;

void *allocate(int64_t bytes) {
  void *memory = nullptr;
  return posix_memalign(&memory, ALIGNMENT, (size_t)round_up(max<int64_t>(bytes, 1), ALIGNMENT)) == 0 ? memory : nullptr;
}

// Held bytes of all blocks, after a change.
void account(hipc_context *context, int64_t change) {
  context->arena_bytes += change;
  context->arena_peak = max(context->arena_peak, context->arena_bytes);
}

void release(hipc_context *context, Block *block) {
  account(context, -block->bytes);
  free(block->memory);
  *block = Block{};
}

// Blocks that a run outgrew, and blocks that it asked for by hipc_alloc: compiled code may hold pointers into them until
// the run ends.
void release_outgrown(hipc_context *context) {
  while (Outgrown *outgrown = context->outgrown) {
    context->outgrown = outgrown->next;
    account(context, -outgrown->bytes);
    free(outgrown->memory);
    free(outgrown);
  }
}

bool reserve(hipc_context *context, Block *block, int64_t bytes, bool keep_old) {
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
  block->memory = allocate(bytes);
  if (!block->memory) return false;
  block->bytes = bytes;
  account(context, bytes);
  return true;
}

void keep_message(hipc_context *context, const char *format, va_list arguments) {
  char message[sizeof context->message];
  vsnprintf(message, sizeof message, format, arguments);
  pthread_mutex_lock(&context->message_lock);
  memcpy(context->message, message, sizeof message);
  pthread_mutex_unlock(&context->message_lock);
}

// A buffer of text that stops at its end.
struct Text {
  char *memory;
  size_t size, used = 0;
  __attribute__((format(printf, 2, 3))) void add(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(memory + used, size - used, format, arguments);
    va_end(arguments);
    if (length > 0) used = min(used + (size_t)length, size - 1);
  }
};

int32_t check_input(hipc_context *context, const hipc_tensor *tensor, const hipc_input_spec *spec) {
  if (tensor->dtype != spec->dtype)
    return hipc_error(context, HIPC_ERROR_INPUT, "input '%s' has element type %s; the model takes %s", spec->name,
                      dtype_name(tensor->dtype), dtype_name(spec->dtype));
  if (tensor->rank != spec->rank)
    return hipc_error(context, HIPC_ERROR_INPUT, "input '%s' has rank %d; the model takes rank %d", spec->name,
                      tensor->rank, spec->rank);
  for (int32_t i = 0; i < tensor->rank; i++) {
    if (tensor->shape[i] < 0)
      return hipc_error(context, HIPC_ERROR_INPUT, "input '%s' dimension %d is %lld, which is no extent", spec->name, i,
                        (long long)tensor->shape[i]);
    if (spec->dims[i] >= 0 && tensor->shape[i] != spec->dims[i])
      return hipc_error(context, HIPC_ERROR_INPUT, "input '%s' dimension %d is %lld; the model takes %lld", spec->name, i,
                        (long long)tensor->shape[i], (long long)spec->dims[i]);
  }
  if (!is_contiguous(tensor))
    return hipc_error(context, HIPC_ERROR_INPUT, "input '%s' is not contiguous in memory", spec->name);
  if (!tensor->data && elements(tensor) > 0)
    return hipc_error(context, HIPC_ERROR_INPUT, "input '%s' has no memory", spec->name);
  return HIPC_OK;
}

// Equal symbols must have equal extents: remembers the first extent of each symbol and where it was seen.
int32_t check_symbols(hipc_context *context, const hipc_io *io, const hipc_input_spec *specs) {
  for (int64_t input = 0; input < io->num_inputs; input++) {
    const hipc_input_spec *spec = specs + input;
    for (int32_t i = 0; i < spec->rank; i++) {
      if (spec->dims[i] >= 0) continue;
      int64_t number = -spec->dims[i] - 1, found = io->inputs[input].shape[i];
      SymbolValue *known = context->symbols + number;
      if (known->input < 0) {
        *known = {found, input, i};
      } else if (known->extent != found) {
        const char *other = specs[known->input].name;
        if (number < context->num_symbol_names && context->symbol_names[number])
          return hipc_error(context, HIPC_ERROR_INPUT, "input '%s' dimension %d is %lld, but '%s' is %lld in input '%s'",
                            spec->name, i, (long long)found, context->symbol_names[number], (long long)known->extent, other);
        return hipc_error(context, HIPC_ERROR_INPUT,
                          "input '%s' dimension %d is %lld, but it must equal dimension %d of input '%s', which is %lld",
                          spec->name, i, (long long)found, known->dimension, other, (long long)known->extent);
      }
    }
  }
  return HIPC_OK;
}

int32_t load_constants(hipc_context *context, const hipc_fs *fs, int64_t bytes) {
  if (bytes <= 0) return HIPC_OK;
  int64_t size = 0;
  const void *memory = fs->map ? fs->map(fs->self, "constants.bin", &size) : nullptr;
  if (!memory) return hipc_error(context, HIPC_ERROR_CONSTANTS, "constants.bin is missing from the artifact");
  if (size < bytes)
    return hipc_error(context, HIPC_ERROR_CONSTANTS, "constants.bin has %lld bytes; the model reads %lld",
                      (long long)size, (long long)bytes);
  if ((uintptr_t)memory % ALIGNMENT)
    return hipc_error(context, HIPC_ERROR_CONSTANTS, "constants.bin is mapped at an address that is not 64-byte aligned");
  context->constants = memory;
  return HIPC_OK;
}

} // namespace

HIPC_EXPORT int32_t hipc_init(hipc_context **result, const hipc_fs *fs, int64_t constants_bytes) {
  hipc_context *context = (hipc_context *)allocate(sizeof *context);
  *result = context;
  if (!context) return HIPC_ERROR_MEMORY;
  memset(context, 0, sizeof *context);
  pthread_mutex_init(&context->message_lock, nullptr);
  pool_init(&context->pool, fs->num_threads);
  return load_constants(context, fs, constants_bytes);
}

HIPC_EXPORT void hipc_cleanup(hipc_context *context) {
  if (!context) return;
  pool_destroy(&context->pool);
  hipc_trim(context);
  pthread_mutex_destroy(&context->message_lock);
  free(context->symbols);
  free(context);
}

HIPC_EXPORT const char *hipc_last_error(hipc_context *context) {
  return context ? context->message : "out of memory while the state was made";
}

HIPC_EXPORT int64_t hipc_arena_bytes(hipc_context *context) { return context->arena_bytes; }

HIPC_EXPORT int64_t hipc_arena_peak(hipc_context *context) { return context->arena_peak; }

HIPC_EXPORT int32_t hipc_trim(hipc_context *context) {
  release_outgrown(context);
  for (Block &block : context->arenas)
    if (block.memory) release(context, &block);
  if (context->scratch.memory) release(context, &context->scratch);
  return HIPC_OK;
}

HIPC_EXPORT int32_t hipc_name_symbols(hipc_context *context, const char *const *names, int64_t count) {
  context->symbol_names = names;
  context->num_symbol_names = count;
  return HIPC_OK;
}

HIPC_EXPORT int32_t hipc_begin(hipc_context *context, const hipc_io *io, const hipc_input_spec *specs,
                               int64_t num_inputs, int64_t num_symbols) {
  context->io = io;
  release_outgrown(context);
  if (io->num_inputs != num_inputs)
    return hipc_error(context, HIPC_ERROR_INPUT, "%lld inputs were given; the model takes %lld",
                      (long long)io->num_inputs, (long long)num_inputs);
  if (num_symbols > context->num_symbols) {
    SymbolValue *symbols = (SymbolValue *)realloc(context->symbols, (size_t)num_symbols * sizeof *symbols);
    if (!symbols) return hipc_error(context, HIPC_ERROR_MEMORY, "out of memory while the inputs were checked");
    context->symbols = symbols;
    context->num_symbols = num_symbols;
  }
  for (int64_t i = 0; i < num_symbols; i++) context->symbols[i] = {0, -1, 0};
  for (int64_t i = 0; i < num_inputs; i++)
    if (io->inputs_on_device && io->inputs_on_device[i])
      return hipc_error(context, HIPC_ERROR_INPUT, "input '%s' is in device memory; the host target takes host memory",
                        specs[i].name);
  if (io->outputs_on_device)
    return hipc_error(context, HIPC_ERROR_OUTPUT, "outputs in device memory were asked for; the host target has none");
  for (int64_t i = 0; i < num_inputs; i++)
    if (int32_t status = check_input(context, io->inputs + i, specs + i)) return status;
  if (int32_t status = check_symbols(context, io, specs)) return status;
  context->message[0] = 0;
  pool_begin_run(&context->pool);
  return HIPC_OK;
}

HIPC_EXPORT int32_t hipc_end(hipc_context *context, int32_t status) {
  pool_end_run(&context->pool);
  return status;
}

HIPC_EXPORT const void *hipc_constants(hipc_context *context) { return context->constants; }

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
  void *memory = entry ? allocate(bytes) : nullptr;
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
    free(entry->memory);
    free(entry);
  }
}

HIPC_EXPORT void *hipc_scratch(hipc_context *context, int64_t bytes) {
  if (bytes < 0 || !reserve(context, &context->scratch, bytes, /*keep_old=*/false)) {
    hipc_error(context, HIPC_ERROR_MEMORY, "no memory for %lld bytes of scratch", (long long)bytes);
    return nullptr;
  }
  return context->scratch.memory;
}

HIPC_EXPORT void *hipc_alloc_output(hipc_context *context, int64_t index, int32_t dtype, int32_t rank,
                                    const int64_t *shape) {
  bool empty = false;
  char extents[256];
  Text text{extents, sizeof extents};
  text.add("[");
  for (int32_t i = 0; i < rank; i++) {
    text.add(i ? ", %lld" : "%lld", (long long)shape[i]);
    empty = empty || shape[i] == 0;
    if (shape[i] < 0) {
      hipc_error(context, HIPC_ERROR_SHAPE, "output %lld would have extent %lld in dimension %d", (long long)index,
                 (long long)shape[i], i);
      return nullptr;
    }
  }
  text.add("]");
  const hipc_io *io = context->io;
  void *memory = io && io->alloc_output ? io->alloc_output(io->allocator, (int32_t)index, dtype, rank, shape) : nullptr;
  // An empty output needs an address that is not NULL, but no memory.
  if (!memory && empty) return context->nothing;
  if (!memory)
    hipc_error(context, HIPC_ERROR_OUTPUT, "the caller gave no memory for output %lld: %s%s", (long long)index,
               dtype_name(dtype), extents);
  if ((uintptr_t)memory % ALIGNMENT && !empty) {
    hipc_error(context, HIPC_ERROR_OUTPUT, "the caller's memory for output %lld is not 64-byte aligned", (long long)index);
    return nullptr;
  }
  return memory;
}

HIPC_EXPORT int32_t hipc_error(hipc_context *context, int32_t status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  keep_message(context, format, arguments);
  va_end(arguments);
  return status;
}

HIPC_EXPORT int32_t hipc_fail(hipc_context *context, int32_t status, const char *place) {
  char kept[sizeof context->message];
  pthread_mutex_lock(&context->message_lock);
  memcpy(kept, context->message, sizeof kept);
  pthread_mutex_unlock(&context->message_lock);
  if (kept[0]) return hipc_error(context, status, "%s: %s", place, kept);
  return hipc_error(context, status, "%s: failed with status %d", place, status);
}

HIPC_EXPORT int32_t hipc_check(hipc_context *context, int32_t condition, const char *message) {
  return condition ? (int32_t)HIPC_OK : hipc_error(context, HIPC_ERROR_SHAPE, "%s", message);
}
