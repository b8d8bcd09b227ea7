// Errors of a context, and the checks of what a caller gives a run. A runtime includes it in one of its sources, after its
// context.
#pragma once
#include <stdarg.h>
#include <stdio.h>

#include "state.h"

namespace hipc {

inline void keep_message(hipc_context *context, const char *format, va_list arguments) {
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

inline int32_t check_input(hipc_context *context, const hipc_tensor *tensor, const hipc_input_spec *spec) {
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
inline int32_t check_symbols(hipc_context *context, const hipc_io *io, const hipc_input_spec *specs) {
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

// Checks every input against its specification.
inline int32_t check_inputs(hipc_context *context, const hipc_io *io, const hipc_input_spec *specs, int64_t num_inputs,
                            int64_t num_symbols) {
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
    if (int32_t status = check_input(context, io->inputs + i, specs + i)) return status;
  return check_symbols(context, io, specs);
}

// Memory for an output from the caller, checked; NULL when it gave none (the error is kept). What is empty needs an
// address that is not NULL, but no memory.
inline void *caller_output(hipc_context *context, int64_t index, int32_t dtype, int32_t rank, const int64_t *shape) {
  bool empty = false;
  for (int32_t i = 0; i < rank; i++) {
    empty = empty || shape[i] == 0;
    if (shape[i] < 0) {
      hipc_error(context, HIPC_ERROR_SHAPE, "output %lld would have extent %lld in dimension %d", (long long)index,
                 (long long)shape[i], i);
      return nullptr;
    }
  }
  const hipc_io *io = context->io;
  void *memory = io && io->alloc_output ? io->alloc_output(io->allocator, (int32_t)index, dtype, rank, shape) : nullptr;
  // An empty output needs an address that is not NULL, but no memory.
  if (!memory && empty) return context->nothing;
  if (!memory) {
    char extents[256];
    Text text{extents, sizeof extents};
    text.add("[");
    for (int32_t i = 0; i < rank; i++) text.add(i ? ", %lld" : "%lld", (long long)shape[i]);
    text.add("]");
    hipc_error(context, HIPC_ERROR_OUTPUT, "the caller gave no memory for output %lld: %s%s", (long long)index,
               dtype_name(dtype), extents);
  }
  if ((uintptr_t)memory % ALIGNMENT && !empty) {
    hipc_error(context, HIPC_ERROR_OUTPUT, "the caller's memory for output %lld is not 64-byte aligned", (long long)index);
    return nullptr;
  }
  return memory;
}

} // namespace hipc

using namespace hipc;

HIPC_EXPORT const char *hipc_last_error(hipc_context *context) {
  return context ? context->message : "out of memory while the state was made";
}

HIPC_EXPORT int32_t hipc_name_symbols(hipc_context *context, const char *const *names, int64_t count) {
  context->symbol_names = names;
  context->num_symbol_names = count;
  return HIPC_OK;
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
