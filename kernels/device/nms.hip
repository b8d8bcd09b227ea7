// Non-maximum suppression, a block per batch entry and class: the best box that is left stays, and those that overlap it go.
#include "hipc_math.h"
#include "shared/boxes.h"

using namespace hipc;

namespace {

struct Candidate {
  f32 score;
  i64 at;  // -1: none
};

// By score, a NaN being greatest, then by position.
DEVICE Candidate better(Candidate a, Candidate b) {
  if (a.at < 0) return b;
  if (b.at < 0) return a;
  bool a_nan = a.score != a.score, b_nan = b.score != b.score;
  if (a_nan != b_nan) return a_nan ? a : b;
  if (!a_nan && a.score != b.score) return a.score > b.score ? a : b;
  return a.at < b.at ? a : b;
}

} // namespace

// `gone` is [tasks][count] and holds zeros; kept[task][limit] and found[task] are written.
KERNEL(256) nms_suppress(Suppression p, u8 *gone, i64 *found, i64 *kept) {
  SHARED Candidate shared[256];
  for (i64 task = block(); task < p.batches * p.classes; task += blocks()) {
    i64 batch = task / p.classes, taken = 0;
    const f32 *scores = p.scores + task * p.count;
    u8 *own = gone + task * p.count;
    for (; taken < p.limit; taken++) {
      Candidate best{0, -1};
      for (i64 i = thread(); i < p.count; i += threads())
        if (!own[i] && (!p.has_score_threshold || scores[i] > p.score_threshold)) best = better(best, Candidate{scores[i], i});
      shared[thread()] = best;
      barrier();
      for (u32 half = threads() / 2; half > 0; half /= 2) {
        if (thread() < half) shared[thread()] = better(shared[thread()], shared[thread() + half]);
        barrier();
      }
      best = shared[0];
      barrier();
      if (best.at < 0) break;
      Box chosen = box_at(p, batch, best.at);
      for (i64 i = thread(); i < p.count; i += threads())
        if (i == best.at || (!own[i] && overlaps(box_at(p, batch, i), chosen, p.iou_threshold))) own[i] = 1;
      if (thread() == 0) kept[task * p.limit + taken] = best.at;
    }
    if (thread() == 0) found[task] = taken;
  }
}

// One block: the number of boxes that stay.
KERNEL(256) nms_total(const i64 *found, i64 tasks, i64 *total) {
  SHARED i64 shared[MOST_WAVES];
  i64 sum = 0;
  for (i64 task = thread(); task < tasks; task += threads()) sum += found[task];
  sum = sum_block(sum, shared);
  if (thread() == 0) *total = sum;
}

// Rows (batch entry, class, box), task after task; at most `room` of them.
KERNEL(256) nms_write(const i64 *found, const i64 *kept, i64 *y, i64 tasks, i64 classes, i64 limit, i64 room) {
  for (i64 task = global_thread(); task < tasks; task += global_threads()) {
    i64 row = 0;
    for (i64 other = 0; other < task; other++) row += found[other];
    for (i64 i = 0; i < found[task] && row < room; i++, row++) {
      y[3 * row] = task / classes;
      y[3 * row + 1] = task % classes;
      y[3 * row + 2] = kept[task * limit + i];
    }
  }
}
