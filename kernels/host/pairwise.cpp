// hipc_pairwise_scores, hipc_pairwise_coupling: support vector classifiers of pairs of classes, row by row.
#include "shared/pairwise.h"

using namespace hipc;

// scores [rows, pairs] and winners [rows] from the kernel's values [rows, vectors], coefficients [classes - 1, vectors],
// starts [classes + 1] and offsets [pairs].
HIPC_EXPORT int32_t hipc_pairwise_scores(hipc_context *context, const hipc_tensor *values, const hipc_tensor *coefficients,
                                         const hipc_tensor *starts, const hipc_tensor *offsets, hipc_tensor *scores,
                                         hipc_tensor *winners) {
  const char *op = "pairwise_scores";
  HIPC_TRY(check_contiguous(context, op, values, coefficients, starts, offsets, scores, winners));
  int64_t classes = elements(starts) - 1, rows = values->shape[0], vectors = values->shape[1], pairs = pairs_of(classes);
  if (classes < 2 || coefficients->shape[0] != classes - 1 || coefficients->shape[1] != vectors ||
      elements(offsets) != pairs || elements(scores) != rows * pairs || elements(winners) != rows)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: shapes of the operands do not fit", op);
  PairwiseMachine machine{data<const float>(coefficients), data<const float>(offsets), data<const int64_t>(starts), classes, vectors};
  for (int64_t c = 0; c < classes; c++)
    if (!has_vectors(machine, c))
      return hipc_error(context, HIPC_ERROR_INDEX, "%s: class %lld has vectors that are not there", op, (long long)c);
  const float *from = data<float>(values);
  float *to = data<float>(scores);
  int64_t *best = data<int64_t>(winners);
  parallel_for(context, rows, vectors * (classes - 1) + pairs * 4, [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; row++) {
      float *score = to + row * pairs;
      for (int64_t i = 0; i < classes; i++)
        for (int64_t j = i + 1; j < classes; j++)
          score[pair_at(classes, i, j)] = pair_score(machine, from + row * vectors, i, j);
      best[row] = winner_of(score, classes);
    }
  });
  return HIPC_OK;
}

// Probabilities [rows, classes] from scores [rows, pairs] and the pairs' sigmoids.
HIPC_EXPORT int32_t hipc_pairwise_coupling(hipc_context *context, const hipc_tensor *scores, const hipc_tensor *a,
                                           const hipc_tensor *b, hipc_tensor *y) {
  const char *op = "pairwise_coupling";
  HIPC_TRY(check_contiguous(context, op, scores, a, b, y));
  int64_t rows = y->shape[0], classes = y->shape[1], pairs = pairs_of(classes);
  if (classes < 2 || elements(scores) != rows * pairs || elements(a) != pairs || elements(b) != pairs)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: shapes of the operands do not fit", op);
  int64_t room = round_up(coupling_room(classes), 16);
  float *memory = (float *)hipc_scratch(context, hipc_num_threads(context) * room * 4);
  if (!memory) return out_of_memory(context, op);
  const float *from = data<float>(scores), *slopes = data<float>(a), *shifts = data<float>(b);
  float *to = data<float>(y);
  parallel_for_threads(context, rows, classes * classes * 100, [=](int64_t begin, int64_t end, int32_t thread) {
    for (int64_t row = begin; row < end; row++)
      couple(from + row * pairs, slopes, shifts, classes, memory + thread * room, to + row * classes);
  });
  return HIPC_OK;
}
