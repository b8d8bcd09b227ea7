// What vendor.add calls, and the kernel that it launches on the threads of the run.
#include <hipc.h>

namespace {

// out[i] = a[i] + b[i] over the axes of `out`, the last one innermost; a step is 0 along a broadcast axis.
struct Addition {
  const float *a, *b;
  float *out;
  int32_t rank;
  int64_t shape[HIPC_MAX_RANK], a_step[HIPC_MAX_RANK], b_step[HIPC_MAX_RANK];
};

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

// Step of an operand along an axis of the result; -1 when their extents do not fit.
int64_t step(const hipc_tensor *operand, const hipc_tensor *out, int32_t axis) {
  const int32_t own = axis - (out->rank - operand->rank);
  if (own < 0 || operand->shape[own] == 1) return 0;
  return operand->shape[own] == out->shape[axis] ? operand->strides[own] : -1;
}

}  // namespace

extern "C" int32_t vendor_wrap_add(hipc_context *context, const hipc_tensor *a, const hipc_tensor *b,
                                   hipc_tensor *out) {
  Addition job = {static_cast<const float *>(a->data), static_cast<const float *>(b->data),
                  static_cast<float *>(out->data), 0, {}, {}, {}};
  int64_t elements = 1;
  for (int32_t axis = 0; axis < out->rank; ++axis) {
    const int64_t extent = out->shape[axis], a_step = step(a, out, axis), b_step = step(b, out, axis);
    if (a_step < 0 || b_step < 0)
      return hipc_error(context, HIPC_ERROR_SHAPE, "the operands do not broadcast along axis %d", axis);
    elements *= extent;
    if (extent == 1) continue;
    // An axis that both operands walk as one with the axis before joins it: most additions have a single axis left.
    const int32_t last = job.rank - 1;
    if (last >= 0 && job.a_step[last] == a_step * extent && job.b_step[last] == b_step * extent) {
      job.shape[last] *= extent;
      job.a_step[last] = a_step;
      job.b_step[last] = b_step;
      continue;
    }
    job.shape[job.rank] = extent;
    job.a_step[job.rank] = a_step;
    job.b_step[job.rank] = b_step;
    ++job.rank;
  }
  if (job.rank == 0) job.shape[job.rank++] = 1;
  if (elements > 0) hipc_launch(context, vendor_add_f32, &job, elements, 1);
  return HIPC_OK;
}
