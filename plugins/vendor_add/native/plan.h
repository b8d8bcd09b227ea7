// From operands to what a kernel is told; the same on the host and on GPUs.
#pragma once
#include <hipc.h>

#include "addition.h"

static_assert(MAX_AXES == HIPC_MAX_RANK);

// Step of an operand along an axis of the result; -1 when their extents do not fit.
inline int64_t step(const hipc_tensor *operand, const hipc_tensor *out, int32_t axis) {
  const int32_t own = axis - (out->rank - operand->rank);
  if (own < 0 || operand->shape[own] == 1) return 0;
  return operand->shape[own] == out->shape[axis] ? operand->strides[own] : -1;
}

inline int32_t plan(hipc_context *context, const hipc_tensor *a, const hipc_tensor *b, const hipc_tensor *out,
                    Addition *job, int64_t *elements) {
  *job = {static_cast<const float *>(a->data), static_cast<const float *>(b->data), static_cast<float *>(out->data),
          0, {}, {}, {}};
  *elements = 1;
  for (int32_t axis = 0; axis < out->rank; ++axis) {
    const int64_t extent = out->shape[axis], a_step = step(a, out, axis), b_step = step(b, out, axis);
    if (a_step < 0 || b_step < 0)
      return hipc_error(context, HIPC_ERROR_SHAPE, "the operands do not broadcast along axis %d", axis);
    *elements *= extent;
    if (extent == 1) continue;
    // An axis that both operands walk as one with the axis before joins it: most additions have a single axis left.
    const int32_t last = job->rank - 1;
    if (last >= 0 && job->a_step[last] == a_step * extent && job->b_step[last] == b_step * extent) {
      job->shape[last] *= extent;
      job->a_step[last] = a_step;
      job->b_step[last] = b_step;
      continue;
    }
    job->shape[job->rank] = extent;
    job->a_step[job->rank] = a_step;
    job->b_step[job->rank] = b_step;
    ++job->rank;
  }
  if (job->rank == 0) job->shape[job->rank++] = 1;
  return HIPC_OK;
}
