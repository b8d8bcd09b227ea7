#include "padding.h"

namespace hip_ep {
namespace {

constexpr int32_t INT32 = 6;
constexpr size_t MOST_OUTPUTS = 4096;

int64_t elements(int32_t rank, const int64_t *shape) {
  int64_t count = 1;
  for (int32_t axis = 0; axis < rank; axis++) count *= shape[axis];
  return count;
}

} // namespace

Padding::~Padding() {
  for (Buffer &buffer : outputs) drop(buffer);
  for (void *memory : replaced) free(memory);
}

void Padding::drop(Buffer &buffer) {
  if (!buffer.memory) return;
  if (gpus)
    gpus->give(gpu, buffer.memory, false);
  else
    give_aligned(buffer.memory);
  buffer = {};
}

bool Padding::read(const char *words) {
  int64_t head[6];
  char *end = (char *)words;
  for (int64_t &number : head) {
    const char *start = end;
    number = strtoll(start, &end, 10);
    if (end == start) return false;
  }
  multiple = head[0], limit = head[1], ids = head[2], mask = head[3], positions = head[4];
  if (!caches.resize((size_t)head[5] * 2)) return false;
  for (int64_t &number : caches) number = strtoll(end, &end, 10);
  return multiple > 1;
}

// Numbers of an input, wherever it is.
OrtStatus *Padding::fetch(const Api &api, const hipc_tensor &tensor, bool on_device, Array<int64_t> &out) {
  size_t count = (size_t)elements(tensor.rank, tensor.shape);
  if (!out.resize(count)) return api.no_memory();
  size_t bytes = count * (tensor.dtype == INT32 ? sizeof(int32_t) : sizeof(int64_t));
  if (!on_device) {
    memcpy(out.data, tensor.data, bytes);
  } else {
    int32_t error = gpus->copy(gpu, Gpus::TO_HOST, out.data, tensor.data, bytes);
    if (!error) error = gpus->finish(gpu);
    if (error) return api.fail("hip-compiler: a prompt cannot be read: error %d", error);
  }
  if (tensor.dtype == INT32)
    for (size_t i = count; i-- > 0;) out[i] = ((int32_t *)out.data)[i];
  return nullptr;
}

// Points an input at numbers of our own, in memory of the host.
OrtStatus *Padding::replace(const Api &api, Array<hipc_tensor> &inputs, Array<uint8_t> &on_device, int64_t input,
                            int64_t extent, const Array<int64_t> &numbers) {
  hipc_tensor &tensor = inputs[(size_t)input];
  free(replaced[(size_t)input]);
  void *memory = replaced[(size_t)input] = malloc((size_t)extent * sizeof(int64_t));
  if (!memory) return api.no_memory();
  for (int64_t i = 0; i < extent; i++)
    if (tensor.dtype == INT32)
      ((int32_t *)memory)[i] = (int32_t)numbers[(size_t)i];
    else
      ((int64_t *)memory)[i] = numbers[(size_t)i];
  tensor.data = memory;
  tensor.shape[1] = extent;
  tensor.strides[0] = extent;
  on_device[(size_t)input] = 0;
  return nullptr;
}

OrtStatus *Padding::begin(const Api &api, Gpus *device, int number, Array<hipc_tensor> &inputs, Array<uint8_t> &on_device) {
  gpus = device, gpu = number, added = 0;
  if (!replaced.size && !(replaced.resize(inputs.size) && outputs.resize(MOST_OUTPUTS))) return api.no_memory();
  const hipc_tensor &prompt = inputs[(size_t)ids], &masked = inputs[(size_t)mask];
  int64_t length = prompt.shape[1], width = masked.shape[1], more = (multiple - length % multiple) % multiple;
  bool single = prompt.rank == 2 && masked.rank == 2 && prompt.shape[0] == 1 && masked.shape[0] == 1;
  if (!single || length < 2 || !more) return nullptr;
  TRY(fetch(api, masked, on_device[(size_t)mask], values));
  int64_t ones = 0;
  while (ones < width && values[(size_t)ones] == 1) ones++;
  for (int64_t i = ones; i < width; i++)
    if (values[(size_t)i]) return nullptr;
  int64_t room = caches.size ? inputs[(size_t)caches[0]].shape[2] : 0;
  grows = room < ones;
  bool whole = ones == width;
  if (ones < length || ones + more > limit || (!whole && ones + more > width) || (!grows && ones + more > room)) return nullptr;
  // The mask: ones for the added tokens as well.
  int64_t extent = whole ? width + more : width;
  if (!extended.resize((size_t)extent)) return api.no_memory();
  for (int64_t i = 0; i < extent; i++) extended[(size_t)i] = i < ones + more;
  TRY(replace(api, inputs, on_device, mask, extent, extended));
  // Tokens and positions: the last one, again and again.
  const int64_t repeated[] = {ids, positions};
  for (int64_t input : repeated) {
    if (input < 0) continue;
    TRY(fetch(api, inputs[(size_t)input], on_device[(size_t)input], values));
    if (!extended.resize((size_t)(length + more))) return api.no_memory();
    for (int64_t i = 0; i < length + more; i++) extended[(size_t)i] = values[(size_t)(i < length ? i : length - 1)];
    TRY(replace(api, inputs, on_device, input, length + more, extended));
  }
  added = more, tokens = length, valid = ones;
  return nullptr;
}

int Padding::cut(int32_t index, int32_t rank, const int64_t *shape, int64_t *wanted) const {
  memcpy(wanted, shape, (size_t)rank * sizeof *shape);
  bool cache = false;
  for (size_t i = 1; i < caches.size; i += 2) cache = cache || caches[i] == index;
  int axis = cache ? 2 : 1;
  int64_t padded = cache ? valid + added : tokens + added;
  if (cache && !grows) return -1;
  if (rank <= axis || shape[axis] != padded || index >= (int32_t)MOST_OUTPUTS) return -2;
  wanted[axis] = padded - added;
  return axis;
}

void *Padding::memory(int32_t index, size_t bytes) {
  Buffer &buffer = outputs[(size_t)index];
  if (buffer.bytes >= bytes) return buffer.memory;
  drop(buffer);
  buffer.memory = gpus ? gpus->take(gpu, bytes, false) : take_aligned(64, bytes);
  buffer.bytes = buffer.memory ? bytes : 0;
  return buffer.memory;
}

int32_t Padding::finish(int32_t index, int axis, int32_t rank, const int64_t *shape, const int64_t *wanted, size_t element,
                        void *to, bool to_host) {
  int64_t rows = elements(axis, shape), inner = elements(rank - axis - 1, shape + axis + 1) * (int64_t)element;
  size_t from_row = (size_t)(shape[axis] * inner), to_row = (size_t)(wanted[axis] * inner);
  int32_t error = 0;
  for (int64_t row = 0; row < rows && !error; row++) {
    char *target = (char *)to + (size_t)row * to_row;
    const char *source = (const char *)outputs[(size_t)index].memory + (size_t)row * from_row;
    if (gpus)
      error = gpus->copy(gpu, to_host ? Gpus::TO_HOST : Gpus::WITHIN, target, source, to_row);
    else
      memcpy(target, source, to_row);
  }
  if (gpus && !error) error = gpus->finish(gpu);
  return error;
}

} // namespace hip_ep
