// Copies within the device and fills, in the order of the stream: kernels, so that a graph holds nothing else.
#include "gpu.h"

using namespace hipc;

namespace {

template <class T> int32_t fill(hipc_context *context, const char *kernel, void *device, T value, int64_t count) {
  return launch(context, kernel, over(context, count), device, value, count);
}

} // namespace

HIPC_EXPORT int32_t hipc_copy(hipc_context *context, void *to, const void *from, int64_t bytes) {
  if (bytes <= 0 || to == from) return HIPC_OK;
  bool wide = ((uintptr_t)to | (uintptr_t)from | (uint64_t)bytes) % 16 == 0;
  int64_t count = wide ? bytes / 16 : bytes;
  return launch(context, wide ? "copy_b16" : "copy_b1", over(context, count), to, from, count);
}

int32_t hipc::device_fill(hipc_context *context, void *device, uint8_t byte, int64_t bytes) {
  if (bytes <= 0) return HIPC_OK;
  if (((uintptr_t)device | (uint64_t)bytes) % 8 != 0) return fill<uint8_t>(context, "fill_b1", device, byte, bytes);
  return fill<uint64_t>(context, "fill_b8", device, byte * 0x0101010101010101u, bytes / 8);
}

HIPC_EXPORT int32_t hipc_write(hipc_context *context, void *device, int64_t bits, int64_t bytes) {
  switch (bytes) {
  case 1: return fill<uint8_t>(context, "fill_b1", device, (uint8_t)bits, 1);
  case 2: return fill<uint16_t>(context, "fill_b2", device, (uint16_t)bits, 1);
  case 4: return fill<uint32_t>(context, "fill_b4", device, (uint32_t)bits, 1);
  case 8: return fill<uint64_t>(context, "fill_b8", device, (uint64_t)bits, 1);
  default: return hipc_error(context, HIPC_ERROR_INTERNAL, "a scalar of %lld bytes", (long long)bytes);
  }
}
