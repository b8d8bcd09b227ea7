// What blocks do together: sums before a thread, and results that several blocks have parts of.
#pragma once
#include "hipc_device.h"
#include "shared/reduction.h"

namespace hipc {

// The value of lane `source`, of any type.
template <class T> DEVICE T value_of_lane(T value, u32 source) {
  if constexpr (sizeof(T) == 8) {
    u64 bits = bit_cast<u64>(value);
    u64 low = from_lane((u32)bits, source), high = from_lane((u32)(bits >> 32), source);
    return bit_cast<T>(low | (high << 32));
  } else if constexpr (sizeof(T) == 4) {
    return bit_cast<T>(from_lane(bit_cast<u32>(value), source));
  } else {
    return (T)from_lane((u32)value, source);
  }
}

// As combine_block, with one copy of `combine` where that matters more than the time between lanes.
template <class T, class Combine> DEVICE T join_block(T value, T *shared, Combine combine) {
  _Pragma("nounroll") for (u32 mask = 1; mask < WAVE; mask <<= 1) value = combine(value, value_of_lane(value, lane() ^ mask));
  if (lane() == 0) shared[wave()] = value;
  barrier();
  value = shared[0];
  _Pragma("nounroll") for (u32 w = 1; w < waves(); w++) value = combine(value, shared[w]);
  barrier();
  return value;
}

// Whether this block is the last of those that share element `at`; what the others wrote before is seen by all threads then.
DEVICE bool ends_last(const Sharing &sharing, i64 at, u32 *shared) {
  if (thread() == 0) {
    release_device();
    bool last = add_device(sharing.counters + at, 1) == (u32)sharing.blocks - 1;
    if (last) sharing.counters[at] = 0;
    *shared = last;
  }
  barrier();
  bool last = *shared;
  if (last) acquire_device();
  barrier();
  return last;
}

} // namespace hipc
