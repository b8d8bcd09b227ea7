// What vendor.add calls on the host, and the kernel that it launches on the threads of the run.
#include "plan.h"

namespace {

void add_run(const float *a, int64_t a_step, const float *b, int64_t b_step, float *out, int64_t count) {
  if (a_step == 1 && b_step == 1)
    for (int64_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
  else
    for (int64_t i = 0; i < count; ++i) out[i] = a[i * a_step] + b[i * b_step];
}

// The kernel: elements [begin, end) of the result, one run along the innermost axis after the other.
void vendor_add_f32(const void *arguments, int64_t begin, int64_t end) {
  const Addition &job = *static_cast<const Addition *>(arguments);
  const int32_t inner = job.rank - 1;
  while (begin < end) {
    int64_t a = 0, b = 0, rest = begin;
    int64_t position = 0;
    for (int32_t axis = inner; axis >= 0; --axis) {
      const int64_t index = rest % job.shape[axis];
      rest /= job.shape[axis];
      a += index * job.a_step[axis];
      b += index * job.b_step[axis];
      if (axis == inner) position = index;
    }
    const int64_t left = job.shape[inner] - position;
    const int64_t count = left < end - begin ? left : end - begin;
    add_run(job.a + a, job.a_step[inner], job.b + b, job.b_step[inner], job.out + begin, count);
    begin += count;
  }
}

}  // namespace

extern "C" int32_t vendor_wrap_add(hipc_context *context, const hipc_tensor *a, const hipc_tensor *b,
                                   hipc_tensor *out) {
  Addition job;
  int64_t elements;
  if (int32_t status = plan(context, a, b, out, &job, &elements)) return status;
  if (elements > 0) hipc_launch(context, vendor_add_f32, &job, elements, 1);
  return HIPC_OK;
}
