// What vendor.add calls on GPU targets: it launches the kernel of kernels/vendor_add.hip, which the runtime finds by name.
#include "plan.h"

extern "C" int32_t vendor_wrap_add(hipc_context *context, const hipc_tensor *a, const hipc_tensor *b,
                                   hipc_tensor *out) {
  Addition job;
  int64_t elements;
  if (int32_t status = plan(context, a, b, out, &job, &elements)) return status;
  const void *arguments[] = {&job};
  return hipc_launch_kernel(context, "vendor_add_f32", arguments, 1, elements, 1);
}
