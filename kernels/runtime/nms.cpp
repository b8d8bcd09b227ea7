// hipc_nms_count and hipc_nms on GPUs. Limit and thresholds are read on the host: they are constants as a rule.
#include "shared/boxes.h"
#include "gpu.h"

using namespace hipc;

namespace {

struct Problem : Suppression {
  int64_t tasks, *found, *kept;
};

int32_t read_threshold(hipc_context *context, const char *op, const hipc_tensor *tensor, float *value) {
  if (!tensor) return HIPC_OK;
  if (elements(tensor) != 1 || tensor->dtype != F32)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: limit and thresholds must be single numbers", op);
  float buffer = 0;
  const void *found = host_view(context, tensor->data, &buffer, 4);
  if (!found) return HIPC_ERROR_INTERNAL;
  *value = *(const float *)found;
  return HIPC_OK;
}

// Every batch entry and class: `found[task]` boxes stay, at `kept + task * limit`.
int32_t solve(hipc_context *context, const char *op, const hipc_tensor *boxes, const hipc_tensor *scores,
              const hipc_tensor *max_output, const hipc_tensor *iou, const hipc_tensor *score, int64_t center_point_box,
              Problem *p) {
  HIPC_TRY(check_contiguous(context, op, boxes, scores, max_output, iou, score));
  if (boxes->dtype != F32) return unsupported_dtype(context, op, boxes->dtype);
  if (scores->dtype != F32) return unsupported_dtype(context, op, scores->dtype);
  if (boxes->rank != 3 || scores->rank != 3 || boxes->shape[2] != 4 || boxes->shape[0] != scores->shape[0] ||
      boxes->shape[1] != scores->shape[2])
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: boxes and scores do not fit each other", op);
  int64_t limit = 0;
  if (max_output) HIPC_TRY(read_number(context, op, "the limit", max_output, &limit));
  HIPC_TRY(read_threshold(context, op, iou, &p->iou_threshold));
  HIPC_TRY(read_threshold(context, op, score, &p->score_threshold));
  p->boxes = data<float>(boxes), p->scores = data<float>(scores);
  p->batches = boxes->shape[0], p->classes = scores->shape[1], p->count = boxes->shape[1];
  p->limit = max<int64_t>(min(limit, p->count), 0);
  p->has_score_threshold = score != nullptr, p->centered = center_point_box != 0;
  p->tasks = p->batches * p->classes;
  ScratchPlan plan;
  int64_t found_at = plan.add(p->tasks * 8), kept_at = plan.add(p->tasks * p->limit * 8), gone_at = plan.add(p->tasks * p->count);
  char *scratch = (char *)device_scratch(context, max(plan.bytes, (int64_t)64));
  if (!scratch) return out_of_memory(context, op);
  p->found = (int64_t *)(scratch + found_at), p->kept = (int64_t *)(scratch + kept_at);
  if (p->tasks == 0) return HIPC_OK;
  if (p->tasks * p->count) HIPC_TRY(device_fill(context, scratch + gone_at, 0, p->tasks * p->count));
  return launch(context, "nms_suppress", rows(p->tasks), (Suppression)*p, scratch + gone_at, p->found, p->kept);
}

} // namespace

HIPC_EXPORT int32_t hipc_nms_count(hipc_context *context, const hipc_tensor *boxes, const hipc_tensor *scores,
                                   const hipc_tensor *max_output, const hipc_tensor *iou_threshold,
                                   const hipc_tensor *score_threshold, hipc_tensor *n, int64_t center_point_box) {
  const char *op = "nms_count";
  if (n->dtype != I64 || elements(n) != 1)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s writes one int64 number", op);
  Problem p{};
  HIPC_TRY(solve(context, op, boxes, scores, max_output, iou_threshold, score_threshold, center_point_box, &p));
  return launch(context, "nms_total", rows(1), (const int64_t *)p.found, p.tasks, n->data);
}

HIPC_EXPORT int32_t hipc_nms(hipc_context *context, const hipc_tensor *boxes, const hipc_tensor *scores,
                             const hipc_tensor *max_output, const hipc_tensor *iou_threshold,
                             const hipc_tensor *score_threshold, hipc_tensor *y, int64_t center_point_box) {
  const char *op = "nms";
  HIPC_TRY(check_contiguous(context, op, y));
  if (y->dtype != I64) return unsupported_dtype(context, op, y->dtype);
  if (y->rank != 2 || y->shape[1] != 3) return hipc_error(context, HIPC_ERROR_SHAPE, "%s writes rows of three numbers", op);
  if (elements(y) == 0) return HIPC_OK;
  Problem p{};
  HIPC_TRY(solve(context, op, boxes, scores, max_output, iou_threshold, score_threshold, center_point_box, &p));
  return launch(context, "nms_write", over(context, p.tasks), (const int64_t *)p.found, (const int64_t *)p.kept, y->data, p.tasks,
                p.classes, p.limit, y->shape[0]);
}
