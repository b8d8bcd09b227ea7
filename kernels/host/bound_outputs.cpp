// Output memory that the caller has bound before the run: looked up here, without a call back into the caller.
#include "hipc_host.h"

using namespace hipc;

extern "C" {

// Outputs of the caller by index; `data` is NULL where there is none, and the caller's own allocator is asked.
struct hipc_bound_outputs {
  const hipc_tensor *tensors;
  int64_t count;
  void *allocator;
  void *(*otherwise)(void *allocator, int32_t index, int32_t dtype, int32_t rank, const int64_t *shape);
};
}

// Is an `alloc_output` of hipc_io; `bound` is a hipc_bound_outputs.
HIPC_EXPORT void *hipc_bound_output(void *bound, int32_t index, int32_t dtype, int32_t rank, const int64_t *shape) {
  const hipc_bound_outputs *outputs = (const hipc_bound_outputs *)bound;
  const hipc_tensor *own = outputs->tensors + index;
  bool fits = index < outputs->count && own->data && own->dtype == dtype && own->rank == rank;
  for (int32_t i = 0; fits && i < rank; i++) fits = own->shape[i] == shape[i];
  return fits ? own->data : outputs->otherwise(outputs->allocator, index, dtype, rank, shape);
}
