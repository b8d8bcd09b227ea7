// Times of operators on a GPU: what is under way is waited for, so that every operator's time is its own.
#include "gpu_context.h"

#include "../host/events.h"

using namespace hipc;

HIPC_EXPORT int32_t hipc_time(hipc_context *context, const char *place) {
  // A replayed run would have no times but its own.
  HIPC_TRY(catch_up(context));
  context->reads = true;
  HIPC_TRY(check_hip(context, context->hip.hipStreamSynchronize(context->stream), "waiting for an operator"));
  return keep_time(context, place);
}
