// The kernel that sample.scale launches on the host: y = factor * x, over elements [begin, end).
#include <hipc.h>

extern "C" void sample_scale(const void *const *arguments, int64_t begin, int64_t end) {
  const float *x = static_cast<const float *>(static_cast<const hipc_tensor *>(arguments[0])->data);
  float *y = static_cast<float *>(static_cast<const hipc_tensor *>(arguments[1])->data);
  const double factor = *static_cast<const double *>(arguments[2]);
  for (int64_t i = begin; i < end; ++i) y[i] = static_cast<float>(factor) * x[i];
}
