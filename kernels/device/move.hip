// Copies within the device, and fills. Graphs of nothing but kernels are launched at once, where a node of another kind
// makes the driver hand over the rest one by one; a copy by a kernel is also faster than the copy engine's.
#include "hipc_device.h"

using namespace hipc;

#define COPY(WORD, T)                                                                                                  \
  KERNEL(256) copy_##WORD(T *to, const T *from, i64 count) {                                                           \
    for (i64 i = global_thread(); i < count; i += global_threads()) to[i] = from[i];                                   \
  }
COPY(b1, u8) COPY(b16, bytes16)

#define FILL(WORD, T)                                                                                                  \
  KERNEL(256) fill_##WORD(T *to, T value, i64 count) {                                                                 \
    for (i64 i = global_thread(); i < count; i += global_threads()) to[i] = value;                                     \
  }
FILL(b1, u8) FILL(b2, u16) FILL(b4, u32) FILL(b8, u64)
