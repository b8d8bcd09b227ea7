// gather: slices of data along an axis, by number. Threads walk the elements of y; wide rows move 16 bytes at a time.
#include "hipc_device.h"

using namespace hipc;

namespace {

constexpr i32 FAULT_INDEX = 2;  // of kernels/runtime/gpu.h

// data is [outer, extent, inner], y is [outer, count, inner] in units of T.
template <class T, class I>
DEVICE void gather(const T *data, const I *indices, T *y, i64 total, i64 extent, i64 count, i64 inner, i32 *fault) {
  for (i64 i = global_thread(); i < total; i += global_threads()) {
    i64 row = i / inner, column = i - row * inner, outer = row / count;
    i64 index = (i64)indices[row - outer * count];
    if (index < 0) index += extent;
    if (index < 0 || index >= extent) {
      *fault = FAULT_INDEX;
      continue;
    }
    y[i] = data[(outer * extent + index) * inner + column];
  }
}

} // namespace

#define GATHER(WORD, T)                                                                                                \
  KERNEL(256) gather_i32_##WORD(const T *data, const i32 *indices, T *y, i64 total, i64 extent, i64 count, i64 inner,  \
                                i32 *fault) {                                                                          \
    gather<T, i32>(data, indices, y, total, extent, count, inner, fault);                                              \
  }                                                                                                                    \
  KERNEL(256) gather_i64_##WORD(const T *data, const i64 *indices, T *y, i64 total, i64 extent, i64 count, i64 inner,  \
                                i32 *fault) {                                                                          \
    gather<T, i64>(data, indices, y, total, extent, count, inner, fault);                                              \
  }
HIPC_BYTES(GATHER)
