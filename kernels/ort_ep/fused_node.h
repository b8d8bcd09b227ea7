// A fused node: what ONNX Runtime calls for the nodes that were compiled together.
#pragma once
#include "compiler.h"
#include "gpu.h"
#include "native_model.h"
#include "padding.h"
#include "profile.h"

namespace hip_ep {

// The compiler of this process, or NULL.
const hip_ep_compiler *registered_compiler();

struct FusedNode : OrtNodeComputeInfo, Heap {
  const Api *api = nullptr;
  Bytes name;
  // The program: of the compiler in this process, or a native model.
  hip_ep_program program = {};
  int64_t linked = 0; // a native artifact to release with the node
  NativeModel *native = nullptr;
  // The native artifact to load for the first run, and its placement: a context can be made for another machine.
  Bytes later;
  hipc_fs placement = {};
  Gpus *gpus = nullptr; // ONNX Runtime's tensors are in memory of its device `gpu`; NULL: they are in that of the host
  int gpu = 0;
  Profile *profile = nullptr; // the provider's
  bool kv_share = true; // outputs may lie in the memory of the inputs that they share it with

  ~FusedNode();
  // Takes inputs, outputs and functions of the node. The program may come later.
  OrtStatus *prepare(const Api &api, const OrtNode *node);
  // Says which outputs may lie in the memory of an input: numbers, an input's before its output's.
  void share(const char *pairs);
  // Takes what the compiler says of padding, behind the pairs.
  OrtStatus *pad(const char *words);
  // Takes the program of a native model, which is the node's from now on.
  void use(NativeModel *model);
  OrtStatus *run(OrtKernelContext *kernel);

private:
  struct Output {
    void *given, *staged;
    size_t bytes;
    bool to_host; // given is memory of the host, staged of the device
    // What is cut off of a padded run's: staged is the padding's.
    int axis, rank;
    int64_t shape[HIPC_MAX_RANK], wanted[HIPC_MAX_RANK];
    size_t element;
    bool padded;
  };
  struct Input {
    size_t bytes;
    int32_t partner; // number of the output that may grow in its memory, from 1; 0: none
  };

  static void *allocate(void *self, int32_t index, int32_t dtype, int32_t rank, const int64_t *shape);
  OrtStatus *finish_outputs(bool failed);
  OrtStatus *finish_output(size_t index, bool failed);
  bool stage(Output &output, size_t bytes);
  void *output_memory(int32_t index, int32_t dtype, int32_t rank, const int64_t *shape);
  OrtStatus *load();
  OrtStatus *take_inputs();
  bool overlaps_input(const char *memory, size_t bytes, int32_t index, const int64_t *shape, int32_t rank) const;

  // One run at a time: a program has one arena, and uses every core that it may.
  Lock lock;
  Array<hipc_tensor> inputs;
  Array<Input> details;
  Array<uint8_t> on_device; // by input
  Padding *padding = nullptr;
  Array<Output> outputs;
  OrtKernelContext *kernel = nullptr;
  OrtStatus *failure = nullptr;
};

} // namespace hip_ep
