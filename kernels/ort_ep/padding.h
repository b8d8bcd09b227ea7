// Prompts of a decoder, padded to a multiple of so many tokens: runs of many lengths become runs of one, which a GPU
// replays. What is added are tokens behind the prompt. In a causal model nothing before them depends on them; their
// results are cut off, and what they leave in a cache that has room lies behind its valid part, where the next tokens go.
#pragma once
#include "gpu.h"
#include "hipc.h"

namespace hip_ep {

class Padding : public Heap {
public:
  ~Padding();

  // Reads what the compiler found: the multiple, the most positions that there can be, the inputs with tokens, mask and
  // positions (-1: none), and pairs of the inputs and outputs that are caches. False: it says nothing.
  bool read(const char *words);

  // Points inputs of a run at padded ones, where the run is a prompt that can be padded: one of more than one token,
  // whose mask is ones and then zeros, with room behind it.
  OrtStatus *begin(const Api &api, Gpus *gpus, int gpu, Array<hipc_tensor> &inputs, Array<uint8_t> &on_device);
  bool active() const { return added; }

  // The extents that an output has for the caller, when it is one that is cut off; the axis. -1: it is as it is.
  int cut(int32_t index, int32_t rank, const int64_t *shape, int64_t *wanted) const;
  // Memory for an output that is cut off, the same from run to run. NULL: memory ran out.
  void *memory(int32_t index, size_t bytes);
  // Copies what is left of an output to the caller's memory, which may be the host's.
  int32_t finish(int32_t index, int axis, int32_t rank, const int64_t *shape, const int64_t *wanted, size_t element, void *to,
                 bool to_host);

private:
  struct Buffer {
    void *memory;
    size_t bytes;
  };
  OrtStatus *fetch(const Api &api, const hipc_tensor &tensor, bool on_device, Array<int64_t> &out);
  OrtStatus *replace(const Api &api, Array<hipc_tensor> &inputs, Array<uint8_t> &on_device, int64_t input, int64_t extent,
                     const Array<int64_t> &values);
  void drop(Buffer &buffer);

  Gpus *gpus = nullptr;
  int gpu = 0;
  int64_t multiple = 0, limit = 0, ids = 0, mask = 0, positions = -1;
  Array<int64_t> caches; // input and output of each
  int64_t added = 0, tokens = 0, valid = 0;
  bool grows = false; // the caches have no room: a run makes larger ones
  Array<Buffer> outputs;
  Array<void *> replaced; // by input
  Array<int64_t> values, extended;
};

} // namespace hip_ep
