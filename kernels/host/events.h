// Times of operators. A runtime includes it in one of its sources, after its context.
#pragma once
#include <stdlib.h>
#include <time.h>

#include "state.h"

namespace hipc {

// A run that does more than this is known in its beginning.
constexpr int64_t MAX_EVENTS = 1 << 20;

inline int64_t now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

inline int32_t keep_time(hipc_context *context, const char *place) {
  int64_t time = now();
  if (!place) context->num_events = 0;
  if (place && context->num_events == context->capacity_events && context->num_events < MAX_EVENTS) {
    int64_t capacity = max<int64_t>(256, 2 * context->capacity_events);
    void *grown = realloc(context->events, (size_t)capacity * sizeof(hipc_event));
    if (!grown) return hipc_error(context, HIPC_ERROR_MEMORY, "no memory for the times of %lld operators", (long long)capacity);
    context->events = (hipc_event *)grown;
    context->capacity_events = capacity;
  }
  if (place && context->num_events < context->capacity_events)
    context->events[context->num_events++] = {place, context->last_time, time};
  context->last_time = now();
  return HIPC_OK;
}

} // namespace hipc

HIPC_EXPORT const hipc_event *hipc_events(hipc_context *context, int64_t *count) {
  *count = context->num_events;
  return context->events;
}
