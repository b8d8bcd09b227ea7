// Support vector classifiers of pairs of classes: a thread for every pair of a row, then one for every row.
#include "hipc_math.h"
#include "shared/pairwise.h"

using namespace hipc;

namespace {

constexpr i32 FAULT_INDEX = 2;  // of kernels/runtime/gpu.h

} // namespace

KERNEL(256) pairwise_scores(PairwiseMachine machine, const f32 *values, f32 *scores, i64 rows, i32 *fault) {
  i64 classes = machine.classes, pairs = pairs_of(classes);
  for (i64 at = global_thread(); at < rows * pairs; at += global_threads()) {
    i64 row = at / pairs, left = at % pairs, i = 0;
    while (left >= classes - 1 - i) left -= classes - 1 - i++;
    i64 j = i + 1 + left;
    if (!has_vectors(machine, i) || !has_vectors(machine, j)) {
      *fault = FAULT_INDEX;
      continue;
    }
    scores[at] = pair_score(machine, values + row * machine.vectors, i, j);
  }
}

KERNEL(256) pairwise_winners(const f32 *scores, i64 *winners, i64 rows, i64 classes) {
  for (i64 row = global_thread(); row < rows; row += global_threads())
    winners[row] = winner_of(scores + row * pairs_of(classes), classes);
}

KERNEL(256) pairwise_coupling(const f32 *scores, const f32 *a, const f32 *b, f32 *room, f32 *y, i64 rows, i64 classes) {
  for (i64 row = global_thread(); row < rows; row += global_threads())
    couple(scores + row * pairs_of(classes), a, b, classes, room + row * coupling_room(classes), y + row * classes);
}
