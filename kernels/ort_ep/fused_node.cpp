#include "fused_node.h"

#include "factory.h"

namespace hip_ep {
namespace {

constexpr size_t ALIGNMENT = 64; // of outputs, by the runtime ABI
alignas(ALIGNMENT) char nothing[ALIGNMENT]; // memory of outputs without elements

size_t element_bytes(int32_t dtype) {
  // By TensorProto.DataType. Types without a row hold several elements in a byte, or are no numbers.
  static constexpr uint8_t SIZES[] = {0, 4, 1, 1, 2, 2, 4, 8, 0, 1, 2, 8, 4, 8, 8, 16, 2, 1, 1, 1, 1, 0, 0, 0, 1};
  return dtype > 0 && dtype < (int32_t)sizeof SIZES ? SIZES[dtype] : 0;
}

OrtStatus *element_type(const Api &api, const OrtValueInfo *info, int32_t *dtype) {
  const OrtTypeInfo *type = nullptr;
  const OrtTensorTypeAndShapeInfo *tensor = nullptr;
  int element = 0;
  TRY(api.GetValueInfoTypeInfo(info, &type));
  if (type) TRY(api.CastTypeInfoToTensorInfo(type, &tensor));
  if (tensor) TRY(api.GetTensorElementType(tensor, &element));
  *dtype = element;
  return nullptr;
}

OrtStatus *create_state(OrtNodeComputeInfo *self, OrtNodeComputeContext *, void **state) {
  *state = self;
  return nullptr;
}

OrtStatus *compute(OrtNodeComputeInfo *, void *state, OrtKernelContext *kernel) {
  return ((FusedNode *)state)->run(kernel);
}

void release_state(OrtNodeComputeInfo *, void *) {}

} // namespace

FusedNode::~FusedNode() {
  delete native;
  delete padding;
  // A compiler that is gone has taken its programs with it.
  const hip_ep_compiler *compiler = registered_compiler();
  if (compiler && program.id) compiler->release(program.id);
  if (compiler && linked) compiler->release(linked);
}

OrtStatus *FusedNode::prepare(const Api &functions, const OrtNode *node) {
  api = &functions;
  ort_version_supported = ORT_ABI;
  CreateState = create_state;
  Compute = compute;
  ReleaseState = release_state;
  const char *words;
  TRY(api->Node_GetName(node, &words));
  name.add(words);
  Array<const OrtValueInfo *> infos;
  size_t count = 0;
  TRY(list(*api, api->Node_GetNumInputs, api->Node_GetInputs, node, infos));
  TRY(api->Node_GetNumOutputs(node, &count));
  if (!inputs.resize(infos.size) || !details.resize(infos.size) || !outputs.resize(count) ||
      !on_device.resize(infos.size))
    return api->no_memory();
  for (size_t i = 0; i < infos.size; i++)
    if (infos[i]) TRY(element_type(*api, infos[i], &inputs[i].dtype));
  return nullptr;
}

void FusedNode::share(const char *pairs) {
  for (char *end; kv_share && *pairs; pairs = end) {
    size_t input = (size_t)strtoul(pairs, &end, 10);
    if (end == pairs) return;
    unsigned long output = strtoul(end, &end, 10);
    if (input < inputs.size && output < outputs.size) details[input].partner = (int32_t)output + 1;
  }
}

OrtStatus *FusedNode::pad(const char *words) {
  if (!*words) return nullptr;
  padding = new Padding();
  return padding && padding->read(words) ? nullptr : api->no_memory();
}

void FusedNode::use(NativeModel *model) {
  native = model;
  Bytes pairs;
  native->shared(pairs);
  share(pairs.text());
  program.state = native->state;
  program.compute = native->compute;
  program.last_error = native->last_error;
  program.events = native->events;
}

OrtStatus *FusedNode::load() {
  Bytes why;
  auto model = new NativeModel;
  if (!model) return api->no_memory();
  if (!model->open_file(later.text(), "", placement, why)) {
    delete model;
    return api->fail("HIPC0601: the compiled model of %s does not load: %s", name.text(), why.text());
  }
  later.clear();
  use(model);
  return nullptr;
}

OrtStatus *FusedNode::run(OrtKernelContext *context) {
  Held held(lock);
  int64_t begin = profile && profile->wanted() ? now() : 0;
  kernel = context;
  failure = later.size ? load() : nullptr;
  if (!failure) failure = take_inputs();
  if (!failure && padding) failure = padding->begin(*api, gpus, gpu, inputs, on_device);
  if (!failure) {
    memset(outputs.data, 0, outputs.size * sizeof(Output));
    hipc_io io = {};
    io.inputs = inputs.data;
    io.num_inputs = (int64_t)inputs.size;
    io.allocator = this;
    io.alloc_output = allocate;
    io.inputs_on_device = gpus ? on_device.data : nullptr;
    io.outputs_on_device = gpus != nullptr;
    int32_t status = program.compute(program.state, &io);
    if (status && !failure)
      failure = api->fail("hip-compiler: the run of %s failed with status %d: %s", name.text(), status,
                          program.last_error(program.state));
    OrtStatus *finished = finish_outputs(failure != nullptr);
    if (!failure) failure = finished;
  }
  OrtStatus *result = failure;
  failure = nullptr;
  if (begin && !result) {
    int64_t count = 0, end = now();
    const hipc_event *events = program.events ? program.events(program.state, &count) : nullptr;
    profile->add(name.text(), begin, end, events, count);
  }
  return result;
}

// Copies outputs that were made elsewhere to where they belong, and gives that memory back.
OrtStatus *FusedNode::finish_outputs(bool failed) {
  OrtStatus *status = nullptr;
  for (size_t i = 0; i < outputs.size; i++) {
    OrtStatus *one = finish_output(i, failed || status);
    if (one) status = one;
  }
  return status;
}

OrtStatus *FusedNode::finish_output(size_t index, bool failed) {
  Output &output = outputs[index];
  if (!output.staged) return nullptr;
  int32_t error = 0;
  if (!failed && output.bytes && output.padded) {
    error = padding->finish((int32_t)index, output.axis, output.rank, output.shape, output.wanted, output.element, output.given,
                            output.to_host);
  } else if (!failed && output.bytes && gpus) {
    error = gpus->copy(gpu, output.to_host ? Gpus::TO_HOST : Gpus::WITHIN, output.given, output.staged, output.bytes);
    if (!error) error = gpus->finish(gpu);
  } else if (!failed && output.bytes) {
    memcpy(output.given, output.staged, output.bytes);
  }
  if (!output.padded && gpus) gpus->give(gpu, output.staged, false);
  if (!output.padded && !gpus) give_aligned(output.staged);
  return error ? api->fail("hip-compiler: output %zu of %s cannot be copied: error %d", index, name.text(), error) : nullptr;
}

OrtStatus *FusedNode::take_inputs() {
  for (size_t i = 0; i < inputs.size; i++) {
    hipc_tensor &tensor = inputs[i];
    const OrtValue *value = nullptr;
    OrtTensorTypeAndShapeInfo *info = nullptr;
    size_t rank = 0;
    TRY(api->KernelContext_GetInput(kernel, i, &value));
    if (!value) return api->fail("hip-compiler: input %zu of %s is absent", i, name.text());
    TRY(api->GetTensorTypeAndShape(value, &info));
    OrtStatus *status = api->GetDimensionsCount(info, &rank);
    if (!status && rank > HIPC_MAX_RANK)
      status = api->fail("hip-compiler: input %zu of %s has rank %zu; %d is the most", i, name.text(), rank, HIPC_MAX_RANK);
    if (!status) status = api->GetDimensions(info, tensor.shape, rank);
    api->ReleaseTensorTypeAndShapeInfo(info);
    TRY(status);
    const void *data = nullptr;
    TRY(api->GetTensorData(value, &data));
    tensor.data = (void *)data;
    if (gpus) {
      // Results of nodes on the CPU come in memory of the host, and small inputs in pinned memory.
      const OrtMemoryDevice *place = api->Value_GetMemoryDevice(value);
      on_device[i] = api->MemoryDevice_GetDeviceType(place) == ORT_GPU &&
                     api->MemoryDevice_GetMemoryType(place) != ORT_HOST_ACCESSIBLE && !gpus->is_pinned(data);
    }
    tensor.rank = (int32_t)rank;
    int64_t elements = 1;
    for (size_t axis = rank; axis-- > 0; elements *= tensor.shape[axis]) tensor.strides[axis] = elements;
    details[i].bytes = (size_t)elements * element_bytes(tensor.dtype);
    if (details[i].bytes && !data) return api->fail("hip-compiler: input %zu of %s has no memory: it ran out", i, name.text());
  }
  return nullptr;
}

void *FusedNode::allocate(void *self, int32_t index, int32_t dtype, int32_t rank, const int64_t *shape) {
  return ((FusedNode *)self)->output_memory(index, dtype, rank, shape);
}

void *FusedNode::output_memory(int32_t index, int32_t dtype, int32_t rank, const int64_t *shape) {
  OrtValue *value = nullptr;
  void *memory = nullptr;
  if ((size_t)index >= outputs.size) {
    failure = api->fail("hip-compiler: %s has no output %d", name.text(), index);
    return nullptr;
  }
  Output &output = outputs[(size_t)index];
  const int64_t *wanted = shape;
  if (padding && padding->active()) {
    output.axis = padding->cut(index, rank, shape, output.wanted);
    output.padded = output.axis >= 0;
    if (output.axis < -1) {
      failure = api->fail("hip-compiler: output %d of %s is not one per token: leave static_pad_prefill out", index, name.text());
      return nullptr;
    }
    wanted = output.wanted;
  }
  for_outputs() = true;
  failure = api->KernelContext_GetOutput(kernel, (size_t)index, wanted, (size_t)rank, &value);
  for_outputs() = false;
  if (!failure && value) failure = api->GetTensorMutableData(value, &memory);
  if (failure) return nullptr;
  size_t element = element_bytes(dtype), bytes = element;
  for (int32_t axis = 0; axis < rank; axis++) bytes *= (size_t)shape[axis];
  if (!bytes) return nothing;
  if (value && !memory) {
    // ONNX Runtime makes tensors of what an allocator does not have.
    failure = api->fail("hip-compiler: output %d of %s: memory ran out, %zu bytes were asked for", index, name.text(), bytes);
    return nullptr;
  }
  bool on_host = gpus && value && api->MemoryDevice_GetDeviceType(api->Value_GetMemoryDevice(value)) != ORT_GPU;
  // Memory of the caller's may be aligned to less, or hold an input that is still to be read. An output that nobody
  // asked for has none.
  if (memory && !on_host && !output.padded && (uintptr_t)memory % ALIGNMENT == 0 && !overlaps_input((const char *)memory, bytes, index, shape, rank))
    return memory;
  output.given = memory;
  output.bytes = memory ? bytes : 0;
  output.to_host = on_host;
  if (output.padded) {
    output.rank = rank;
    output.element = element;
    memcpy(output.shape, shape, (size_t)rank * sizeof *shape);
    output.staged = padding->memory(index, bytes);
    if (!output.staged) failure = api->no_memory();
    return output.staged;
  }
  if (!stage(output, bytes)) failure = api->no_memory();
  return output.staged;
}

bool FusedNode::stage(Output &output, size_t bytes) {
  output.staged = gpus ? gpus->take(gpu, bytes, false) : take_aligned(ALIGNMENT, bytes);
  return output.staged;
}

// Whether memory holds an input, unless it is that of the output's partner, whole: a cache that grows in place.
bool FusedNode::overlaps_input(const char *memory, size_t bytes, int32_t index, const int64_t *shape, int32_t rank) const {
  for (size_t i = 0; i < inputs.size; i++) {
    auto start = (const char *)inputs[i].data;
    if (memory >= start + details[i].bytes || start >= memory + bytes) continue;
    bool whole = memory == start && rank == inputs[i].rank && !memcmp(shape, inputs[i].shape, (size_t)rank * sizeof *shape);
    if (details[i].partner != index + 1 || !whole) return true;
  }
  return false;
}

} // namespace hip_ep
