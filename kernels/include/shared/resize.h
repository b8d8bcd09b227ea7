// Resizing: which positions of the input an output position is made of, and with which weights. Coordinates are computed
// in double, as ONNX's definition does.
#pragma once
#include "arguments.h"
#include "vocabulary.h"

namespace hipc {

enum ResizeMode : i64 { RESIZE_NEAREST, RESIZE_LINEAR, RESIZE_CUBIC };
enum ResizeCoordinate : i64 {
  HALF_PIXEL,
  ASYMMETRIC,
  ALIGN_CORNERS,
  PYTORCH_HALF_PIXEL,
  TF_CROP_AND_RESIZE,
  HALF_PIXEL_SYMMETRIC
};
// ROUND_BY_SCALE: up along an axis that shrinks, down along one that grows, as of opset 10.
enum ResizeRounding : i64 { PREFER_FLOOR, PREFER_CEIL, ROUND_FLOOR, ROUND_CEIL, ROUND_BY_SCALE };

struct ResizeOptions {
  i64 mode, coordinate, nearest;
  f64 cubic_a, extrapolation;
  i32 exclude_outside, antialias;
};

struct ResizeAxis {
  i64 in, out;
  f64 scale, roi_begin, roi_end;
};

// Position on the input that an output position stands for. Where it lies outside the region of interest, `outside` is set.
HIPC_SHARED f64 source_position(const ResizeOptions &options, const ResizeAxis &axis, i64 at, bool *outside) {
  // The same products on every target: contracted ones would round to other neighbours.
#pragma clang fp contract(off)
  f64 x = (f64)at, resized = axis.scale * (f64)axis.in, last = (f64)(axis.in - 1);
  *outside = false;
  switch (options.coordinate) {
  case ASYMMETRIC: return x / axis.scale;
  case ALIGN_CORNERS: return resized == 1 ? 0 : x * last / (resized - 1);
  case PYTORCH_HALF_PIXEL: return resized == 1 ? -0.5 : (x + 0.5) / axis.scale - 0.5;
  case TF_CROP_AND_RESIZE: {
    f64 range = axis.roi_end - axis.roi_begin;
    f64 position = (resized == 1 ? range * last / 2 : x * range * last / (resized - 1)) + axis.roi_begin * last;
    *outside = !(position >= 0 && position <= last);
    return position;
  }
  case HALF_PIXEL_SYMMETRIC: {
    f64 adjustment = (f64)axis.out / resized, offset = (f64)axis.in / 2 * (1 - adjustment);
    return offset + (x + 0.5) / axis.scale - 0.5;
  }
  default: return (x + 0.5) / axis.scale - 0.5;
  }
}

HIPC_SHARED i64 nearest_position(i64 rounding, f64 scale, f64 position) {
  if (rounding == ROUND_BY_SCALE) rounding = scale < 1 ? ROUND_CEIL : ROUND_FLOOR;
  switch (rounding) {
  case PREFER_CEIL: return (i64)floor_of(position + 0.5);
  case ROUND_FLOOR: return (i64)floor_of(position);
  case ROUND_CEIL: return (i64)ceil_of(position);
  default: return (i64)ceil_of(position - 0.5);
  }
}

HIPC_SHARED f64 cubic_weight(f64 distance, f64 a) {
  f64 x = abs_of(distance);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

// Downsampling with antialiasing stretches the filter by the inverse of the scale.
HIPC_SHARED f64 stretch_of(const ResizeOptions &options, const ResizeAxis &axis) {
  return options.antialias && axis.scale < 1 ? axis.scale : 1;
}

HIPC_SHARED i64 taps_of(const ResizeOptions &options, const ResizeAxis &axis) {
  if (options.mode == RESIZE_NEAREST) return 1;
  f64 radius = options.mode == RESIZE_LINEAR ? 1 : 2;
  return 2 * -(i64)floor_of(-radius / stretch_of(options, axis));
}

HIPC_SHARED bool is_identity(const ResizeAxis &axis, const ResizeOptions &options) {
  if (axis.in != axis.out || abs_of(axis.scale - 1) > 1e-9) return false;
  return options.coordinate != TF_CROP_AND_RESIZE || (axis.roi_begin == 0 && axis.roi_end == 1);
}

// The `count` taps of output position `at`; true: it takes the extrapolation value.
template <class C>
HIPC_SHARED bool fill_taps(const ResizeOptions &options, const ResizeAxis &axis, i64 at, i64 count, i64 *source, C *weight) {
  f64 stretch = stretch_of(options, axis), sum = 0;
  bool outside;
  f64 position = source_position(options, axis, at, &outside);
  // Far outside, or not a number: the border, without overflow on the way to an integer.
  if (!(position > -1e15)) position = -1e15;
  if (position > 1e15) position = 1e15;
  if (options.mode == RESIZE_NEAREST) {
    source[0] = max((i64)0, min(axis.in - 1, nearest_position(options.nearest, axis.scale, position)));
    weight[0] = 1;
    return outside;
  }
  // The left neighbour of a whole position is the one before it: its weight is 0 where the filter has radius 1.
  i64 left = (i64)ceil_of(position) - 1;
  for (i64 k = 0; k < count; k++) {
    i64 place = left + 1 - count / 2 + k;
    f64 distance = (position - (f64)place) * stretch;
    f64 value = options.mode == RESIZE_LINEAR ? max(0.0, 1 - abs_of(distance)) : cubic_weight(distance, options.cubic_a);
    if (options.exclude_outside && (place < 0 || place >= axis.in)) value = 0;
    source[k] = max((i64)0, min(axis.in - 1, place));
    weight[k] = (C)value;
    sum += value;
  }
  if ((options.exclude_outside || options.antialias) && sum != 0)
    for (i64 k = 0; k < count; k++) weight[k] = (C)((f64)weight[k] / sum);
  return outside;
}

} // namespace hipc
