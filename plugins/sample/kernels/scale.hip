// The kernel that sample.scale launches on GPUs: y = factor * x; a thread takes elements that lie a grid apart.
#include <hipc.h>
#include <hipc_device.h>

KERNEL(256) sample_scale(hipc_tensor x, hipc_tensor y, double factor, int64_t elements) {
  const float *from = static_cast<const float *>(x.data);
  float *to = static_cast<float *>(y.data);
  for (int64_t i = hipc::global_thread(); i < elements; i += hipc::global_threads()) to[i] = static_cast<float>(factor) * from[i];
}
