// The vendor's kernel for GPUs: one thread takes elements of the result, a grid apart.
#include "hipc_device.h"

#include "addition.h"

KERNEL(256) vendor_add_f32(Addition job, i64 elements) {
  for (i64 i = hipc::global_thread(); i < elements; i += hipc::global_threads()) {
    i64 a = 0, b = 0, rest = i;
    // Every axis by a number that is known when this is compiled: the extents stay in registers.
    UNROLL for (int axis = MAX_AXES - 1; axis > 0; --axis) {
      if (axis >= job.rank) continue;
      const i64 index = rest % job.shape[axis];
      rest /= job.shape[axis];
      a += index * job.a_step[axis];
      b += index * job.b_step[axis];
    }
    job.out[i] = job.a[a + rest * job.a_step[0]] + job.b[b + rest * job.b_step[0]];
  }
}
