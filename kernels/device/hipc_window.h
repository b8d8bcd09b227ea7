// A window that slides over up to three spatial axes (depth, height, width; missing ones have extent 1).
#pragma once
#include "hipc_device.h"

namespace hipc {

struct Window {
  i32 in[3], out[3], kernel[3], strides[3], dilations[3], before[3], after[3];

  __attribute__((device, always_inline)) i32 source(int axis, i32 o, i32 k) const {
    return o * strides[axis] + k * dilations[axis] - before[axis];
  }
};
// Position in the output, row-major.
struct Place {
  i32 at[3];
};
DEVICE Place place_in(const i32 (&extent)[3], u32 number) {
  Place place;
  for (int axis = 2; axis >= 0; axis--) {
    u32 rest = number / (u32)extent[axis];
    place.at[axis] = (i32)(number - rest * (u32)extent[axis]);
    number = rest;
  }
  return place;
}

} // namespace hipc
