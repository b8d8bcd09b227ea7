// A stable merge sort of positions.
#pragma once
#include "hipc_ops.h"

namespace hipc {

// Sorts `order[0, count)` so that before(order[i + 1], order[i]) is never true; equals keep their order. `spare` has room
// for `count` positions.
template <class Before> void sort_positions(int64_t *order, int64_t *spare, int64_t count, Before &&before) {
  constexpr int64_t RUN = 16;
  for (int64_t begin = 0; begin < count; begin += RUN) {
    int64_t end = min(begin + RUN, count);
    for (int64_t i = begin + 1; i < end; i++) {
      int64_t moving = order[i], at = i;
      for (; at > begin && before(moving, order[at - 1]); at--) order[at] = order[at - 1];
      order[at] = moving;
    }
  }
  int64_t *from = order, *to = spare;
  for (int64_t width = RUN; width < count; width *= 2) {
    for (int64_t begin = 0; begin < count; begin += 2 * width) {
      int64_t middle = min(begin + width, count), end = min(begin + 2 * width, count);
      for (int64_t left = begin, right = middle, at = begin; at < end; at++)
        to[at] = right < end && (left == middle || before(from[right], from[left])) ? from[right++] : from[left++];
    }
    int64_t *other = from;
    from = to;
    to = other;
  }
  if (from != order) memcpy(order, from, (size_t)count * sizeof(int64_t));
}

// Order of numbers in which a NaN stands above all others and beside itself.
template <class C> HIPC_INLINE bool ranks_below(C a, C b) {
  if constexpr ((C)0.5 != (C)0) return a < b || (b != b && a == a);
  return a < b;
}

} // namespace hipc
