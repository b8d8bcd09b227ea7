// Places of a window that slides over up to three spatial axes.
#pragma once
#include "hipc_device.h"
#include "shared/window.h"

namespace hipc {

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
// The place behind it; whether it is the first one again.
DEVICE bool advance(Place &place, const i32 (&extent)[3]) {
  for (int axis = 2; axis >= 0; axis--) {
    if (++place.at[axis] < extent[axis]) return false;
    place.at[axis] = 0;
  }
  return true;
}

} // namespace hipc
