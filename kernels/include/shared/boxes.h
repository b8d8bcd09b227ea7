// Boxes of non-maximum suppression.
#pragma once
#include "arguments.h"
#include "vocabulary.h"

namespace hipc {

struct Suppression {
  const f32 *boxes, *scores;
  i64 batches, classes, count, limit;
  f32 iou_threshold, score_threshold;
  i32 has_score_threshold, centered;
};

struct Box {
  f32 x0, y0, x1, y1;
};

HIPC_SHARED Box box_at(const Suppression &p, i64 batch, i64 index) {
  const f32 *b = p.boxes + (batch * p.count + index) * 4;
  if (p.centered) return {b[0] - b[2] / 2, b[1] - b[3] / 2, b[0] + b[2] / 2, b[1] + b[3] / 2};
  return {min(b[1], b[3]), min(b[0], b[2]), max(b[1], b[3]), max(b[0], b[2])};
}

HIPC_SHARED bool overlaps(const Box &a, const Box &b, f32 threshold) {
  // The same products on every target: contracted ones would decide otherwise at the threshold.
#pragma clang fp contract(off)
  f32 width = min(a.x1, b.x1) - max(a.x0, b.x0), height = min(a.y1, b.y1) - max(a.y0, b.y0);
  if (!(width > 0) || !(height > 0)) return false;
  f32 common = width * height, area_a = (a.x1 - a.x0) * (a.y1 - a.y0), area_b = (b.x1 - b.x0) * (b.y1 - b.y0);
  f32 all = area_a + area_b - common;
  return area_a > 0 && area_b > 0 && all > 0 && common / all > threshold;
}

} // namespace hipc
