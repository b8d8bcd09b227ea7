// hipc_pairwise_scores and hipc_pairwise_coupling on GPUs. Kernels report vectors that are not there.
#include "shared/pairwise.h"
#include "gpu.h"

using namespace hipc;

HIPC_EXPORT int32_t hipc_pairwise_scores(hipc_context *context, const hipc_tensor *values, const hipc_tensor *coefficients,
                                         const hipc_tensor *starts, const hipc_tensor *offsets, hipc_tensor *scores,
                                         hipc_tensor *winners) {
  const char *op = "pairwise_scores";
  HIPC_TRY(check_contiguous(context, op, values, coefficients, starts, offsets, scores, winners));
  int64_t classes = elements(starts) - 1, count = values->shape[0], vectors = values->shape[1], pairs = pairs_of(classes);
  if (classes < 2 || coefficients->shape[0] != classes - 1 || coefficients->shape[1] != vectors ||
      elements(offsets) != pairs || elements(scores) != count * pairs || elements(winners) != count)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: shapes of the operands do not fit", op);
  if (count == 0) return HIPC_OK;
  int32_t *fault = device_fault(context);
  if (!fault) return HIPC_ERROR_MEMORY;
  PairwiseMachine machine{data<const float>(coefficients), data<const float>(offsets), data<const int64_t>(starts), classes, vectors};
  HIPC_TRY(launch(context, "pairwise_scores", over(context, count * pairs), machine, values->data, scores->data, count, fault));
  return launch(context, "pairwise_winners", over(context, count), scores->data, winners->data, count, classes);
}

HIPC_EXPORT int32_t hipc_pairwise_coupling(hipc_context *context, const hipc_tensor *scores, const hipc_tensor *a,
                                           const hipc_tensor *b, hipc_tensor *y) {
  const char *op = "pairwise_coupling";
  HIPC_TRY(check_contiguous(context, op, scores, a, b, y));
  int64_t count = y->shape[0], classes = y->shape[1], pairs = pairs_of(classes);
  if (classes < 2 || elements(scores) != count * pairs || elements(a) != pairs || elements(b) != pairs)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: shapes of the operands do not fit", op);
  if (count == 0) return HIPC_OK;
  float *room = (float *)device_scratch(context, count * coupling_room(classes) * 4);
  if (!room) return out_of_memory(context, op);
  return launch(context, "pairwise_coupling", over(context, count), scores->data, a->data, b->data, room, y->data, count, classes);
}
