// hipc_nms_count, hipc_nms: greedy suppression per batch and class, best score first, lower box first among equals.
#include "hipc_sort.h"
#include "shared/boxes.h"

using namespace hipc;

namespace {

struct Problem : Suppression {
  const char *op;
};

// Boxes that stay, for one batch and class, in order; `order` and `spare` have room for all boxes.
int64_t suppress(const Problem &p, int64_t batch, int64_t category, int64_t *kept, int64_t *order, int64_t *spare) {
  const float *scores = p.scores + (batch * p.classes + category) * p.count;
  int64_t candidates = 0, found = 0;
  for (int64_t i = 0; i < p.count; i++)
    if (!p.has_score_threshold || scores[i] > p.score_threshold) order[candidates++] = i;
  sort_positions(order, spare, candidates, [&](int64_t a, int64_t b) { return ranks_below(scores[b], scores[a]); });
  for (int64_t i = 0; i < candidates && found < p.limit; i++) {
    Box box = box_at(p, batch, order[i]);
    bool stays = true;
    for (int64_t k = 0; stays && k < found; k++) stays = !overlaps(box, box_at(p, batch, kept[k]), p.iou_threshold);
    if (stays) kept[found++] = order[i];
  }
  return found;
}

int32_t read_problem(hipc_context *context, const hipc_tensor *boxes, const hipc_tensor *scores,
                     const hipc_tensor *max_output, const hipc_tensor *iou, const hipc_tensor *score,
                     int64_t center_point_box, Problem *p) {
  HIPC_TRY(check_contiguous(context, p->op, boxes, scores, max_output, iou, score));
  if (boxes->dtype != F32) return unsupported_dtype(context, p->op, boxes->dtype);
  if (scores->dtype != F32) return unsupported_dtype(context, p->op, scores->dtype);
  if (boxes->rank != 3 || scores->rank != 3 || boxes->shape[2] != 4 || boxes->shape[0] != scores->shape[0] ||
      boxes->shape[1] != scores->shape[2])
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: boxes and scores do not fit each other", p->op);
  auto single = [&](const hipc_tensor *tensor, int32_t dtype) {
    return !tensor || (elements(tensor) == 1 && tensor->dtype == dtype);
  };
  if (!single(max_output, I64) || !single(iou, F32) || !single(score, F32))
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: limit and thresholds must be single numbers", p->op);
  int64_t limit = max_output ? max(data<int64_t>(max_output)[0], (int64_t)0) : 0;
  *p = {{data<float>(boxes), data<float>(scores), boxes->shape[0], scores->shape[1], boxes->shape[1],
         min(limit, boxes->shape[1]), iou ? data<float>(iou)[0] : 0.0f, score ? data<float>(score)[0] : 0.0f,
         score != nullptr, center_point_box != 0},
        p->op};
  return HIPC_OK;
}

// Runs every batch and class; `found[task]` boxes of each stay, at `kept + task * limit`.
int32_t solve(hipc_context *context, const Problem &p, int64_t **found, int64_t **kept) {
  int64_t tasks = p.batches * p.classes, threads = hipc_num_threads(context);
  int64_t *memory =
      (int64_t *)hipc_scratch(context, (tasks * (p.limit + 1) + threads * 2 * p.count + 1) * (int64_t)sizeof(int64_t));
  if (!memory) return out_of_memory(context, p.op);
  *found = memory;
  *kept = memory + tasks;
  int64_t *own_found = *found, *own_kept = *kept, *sorting = *kept + tasks * p.limit;
  parallel_for_threads(context, tasks, p.count * 64, [=, &p](int64_t begin, int64_t end, int32_t thread) {
    int64_t *order = sorting + thread * 2 * p.count;
    for (int64_t task = begin; task < end; task++)
      own_found[task] = suppress(p, task / p.classes, task % p.classes, own_kept + task * p.limit, order, order + p.count);
  });
  return HIPC_OK;
}

} // namespace

HIPC_EXPORT int32_t hipc_nms_count(hipc_context *context, const hipc_tensor *boxes, const hipc_tensor *scores,
                                   const hipc_tensor *max_output, const hipc_tensor *iou_threshold,
                                   const hipc_tensor *score_threshold, hipc_tensor *n, int64_t center_point_box) {
  Problem p{};
  p.op = "nms_count";
  HIPC_TRY(read_problem(context, boxes, scores, max_output, iou_threshold, score_threshold, center_point_box, &p));
  if (n->dtype != I64 || elements(n) != 1)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s writes one int64 number", p.op);
  int64_t *found, *kept, total = 0;
  HIPC_TRY(solve(context, p, &found, &kept));
  for (int64_t task = 0; task < p.batches * p.classes; task++) total += found[task];
  *data<int64_t>(n) = total;
  return HIPC_OK;
}

HIPC_EXPORT int32_t hipc_nms(hipc_context *context, const hipc_tensor *boxes, const hipc_tensor *scores,
                             const hipc_tensor *max_output, const hipc_tensor *iou_threshold,
                             const hipc_tensor *score_threshold, hipc_tensor *y, int64_t center_point_box) {
  Problem p{};
  p.op = "nms";
  HIPC_TRY(read_problem(context, boxes, scores, max_output, iou_threshold, score_threshold, center_point_box, &p));
  HIPC_TRY(check_contiguous(context, p.op, y));
  if (y->dtype != I64) return unsupported_dtype(context, p.op, y->dtype);
  int64_t *found, *kept, total = 0;
  HIPC_TRY(solve(context, p, &found, &kept));
  for (int64_t task = 0; task < p.batches * p.classes; task++) total += found[task];
  if (elements(y) != 3 * total)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: the output does not have room for %lld boxes", p.op,
                      (long long)total);
  int64_t *out = data<int64_t>(y);
  for (int64_t task = 0; task < p.batches * p.classes; task++)
    for (int64_t i = 0; i < found[task]; i++, out += 3) {
      out[0] = task / p.classes;
      out[1] = task % p.classes;
      out[2] = kept[task * p.limit + i];
    }
  return HIPC_OK;
}
