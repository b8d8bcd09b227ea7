// Field numbers are those of onnx.proto: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
#include "model_writer.h"

#include "protobuf.h"

namespace hip_ep {
namespace {

constexpr size_t INLINE_BYTES = 1024; // constants of at most so many bytes are part of the message

enum ModelField { MODEL_IR_VERSION = 1, MODEL_PRODUCER = 2, MODEL_GRAPH = 7, MODEL_OPSET = 8 };
enum OpsetField { OPSET_DOMAIN = 1, OPSET_VERSION = 2 };
enum GraphField { GRAPH_NODE = 1, GRAPH_NAME = 2, GRAPH_INITIALIZER = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12, GRAPH_VALUE = 13 };
enum NodeField { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_OP = 4, NODE_ATTRIBUTE = 5, NODE_DOMAIN = 7 };
enum AttributeField {
  ATTRIBUTE_NAME = 1, ATTRIBUTE_FLOAT, ATTRIBUTE_INT, ATTRIBUTE_STRING, ATTRIBUTE_TENSOR, ATTRIBUTE_GRAPH,
  ATTRIBUTE_FLOATS, ATTRIBUTE_INTS, ATTRIBUTE_STRINGS, ATTRIBUTE_TYPE = 20,
};
enum TensorField { TENSOR_DIMS = 1, TENSOR_TYPE = 2, TENSOR_NAME = 8, TENSOR_RAW = 9, TENSOR_EXTERNAL = 13, TENSOR_LOCATION = 14 };
enum EntryField { ENTRY_KEY = 1, ENTRY_VALUE = 2 };
enum ValueField { VALUE_NAME = 1, VALUE_TYPE = 2, TYPE_TENSOR = 1, TENSOR_TYPE_ELEMENT = 1, TENSOR_TYPE_SHAPE = 2, SHAPE_DIM = 1, DIM_VALUE = 1, DIM_PARAM = 2 };
enum AttributeKind { KIND_FLOAT = 1, KIND_INT, KIND_STRING, KIND_TENSOR, KIND_GRAPH, KIND_FLOATS, KIND_INTS, KIND_STRINGS };

class Writer {
public:
  Writer(const Api &api, Bytes &out) : api(api), out(out), to(out) {}

  OrtStatus *model(const OrtGraph *graph, const OrtNode *fused) {
    int64_t version = 0;
    TRY(api.Graph_GetOnnxIRVersion(graph, &version));
    to.integer(MODEL_IR_VERSION, version);
    to.text(MODEL_PRODUCER, "onnxruntime");
    TRY(operator_sets(graph));
    size_t start = to.open(MODEL_GRAPH);
    const char *name = "main_graph";
    if (fused) TRY(api.Node_GetName(fused, &name));
    to.text(GRAPH_NAME, name);
    TRY(body(graph, fused, true));
    to.close(start);
    return out.failed ? api.no_memory() : nullptr;
  }

private:
  using Values = Array<const OrtValueInfo *>;

  OrtStatus *operator_sets(const OrtGraph *graph) {
    size_t count = 0;
    TRY(api.Graph_GetNumOperatorSets(graph, &count));
    Array<const char *> domains;
    Array<int64_t> versions;
    if (!domains.resize(count) || !versions.resize(count)) return api.no_memory();
    TRY(api.Graph_GetOperatorSets(graph, domains.data, versions.data, count));
    for (size_t i = 0; i < count; i++) {
      size_t start = to.open(MODEL_OPSET);
      to.text(OPSET_DOMAIN, domains[i]);
      to.integer(OPSET_VERSION, versions[i]);
      to.close(start);
    }
    return nullptr;
  }

  OrtStatus *body(const OrtGraph *graph, const OrtNode *fused, bool with_types) {
    Values inputs, outputs, initializers;
    if (fused) {
      TRY(list(api, api.Node_GetNumInputs, api.Node_GetInputs, fused, inputs));
      TRY(list(api, api.Node_GetNumOutputs, api.Node_GetOutputs, fused, outputs));
    } else {
      TRY(list(api, api.Graph_GetNumInputs, api.Graph_GetInputs, graph, inputs));
      TRY(list(api, api.Graph_GetNumOutputs, api.Graph_GetOutputs, graph, outputs));
    }
    TRY(list(api, api.Graph_GetNumInitializers, api.Graph_GetInitializers, graph, initializers));
    for (const OrtValueInfo *info : initializers) {
      bool constant = false;
      if (info) TRY(api.ValueInfo_IsConstantInitializer(info, &constant));
      if (constant) TRY(initializer(info));
    }
    for (const OrtValueInfo *info : inputs) {
      bool constant = false;
      if (info && !fused) TRY(api.ValueInfo_IsConstantInitializer(info, &constant));
      if (info && !constant) TRY(value(GRAPH_INPUT, info));
    }
    for (const OrtValueInfo *info : outputs)
      if (info) TRY(value(GRAPH_OUTPUT, info));
    Array<const OrtNode *> nodes;
    TRY(list(api, api.Graph_GetNumNodes, api.Graph_GetNodes, graph, nodes));
    for (const OrtNode *node : nodes) TRY(this->node(node, with_types));
    return nullptr;
  }

  OrtStatus *node(const OrtNode *node, bool with_types) {
    const char *name, *op, *domain;
    TRY(api.Node_GetName(node, &name));
    TRY(api.Node_GetOperatorType(node, &op));
    TRY(api.Node_GetDomain(node, &domain));
    Values inputs, outputs;
    TRY(list(api, api.Node_GetNumInputs, api.Node_GetInputs, node, inputs));
    TRY(list(api, api.Node_GetNumOutputs, api.Node_GetOutputs, node, outputs));
    size_t start = to.open(GRAPH_NODE);
    for (const OrtValueInfo *info : inputs) TRY(reference(NODE_INPUT, info));
    for (const OrtValueInfo *info : outputs) TRY(reference(NODE_OUTPUT, info));
    to.text(NODE_NAME, name);
    to.text(NODE_OP, op);
    to.text(NODE_DOMAIN, domain);
    TRY(attributes(node));
    TRY(subgraphs(node));
    to.close(start);
    if (with_types)
      for (const OrtValueInfo *info : outputs)
        if (info) TRY(value(GRAPH_VALUE, info));
    return nullptr;
  }

  // Name of a value; an optional one that is absent has none.
  OrtStatus *reference(int field, const OrtValueInfo *info) {
    const char *name = "";
    if (info) TRY(api.GetValueInfoName(info, &name));
    to.text(field, name);
    return nullptr;
  }

  OrtStatus *value(int field, const OrtValueInfo *info) {
    const char *name;
    const OrtTypeInfo *type = nullptr;
    TRY(api.GetValueInfoName(info, &name));
    if (!*name) return nullptr;
    size_t start = to.open(field);
    to.text(VALUE_NAME, name);
    TRY(api.GetValueInfoTypeInfo(info, &type));
    const OrtTensorTypeAndShapeInfo *tensor = nullptr;
    if (type) TRY(api.CastTypeInfoToTensorInfo(type, &tensor));
    if (tensor) TRY(tensor_type(field, tensor));
    to.close(start);
    return nullptr;
  }

  OrtStatus *tensor_type(int field, const OrtTensorTypeAndShapeInfo *tensor) {
    int element = 0;
    size_t rank = 0;
    TRY(api.GetTensorElementType(tensor, &element));
    TRY(api.GetDimensionsCount(tensor, &rank));
    Array<int64_t> extents;
    Array<const char *> symbols;
    if (!extents.resize(rank) || !symbols.resize(rank)) return api.no_memory();
    TRY(api.GetDimensions(tensor, extents.data, rank));
    TRY(api.GetSymbolicDimensions(tensor, symbols.data, rank));
    size_t type = to.open(VALUE_TYPE), body = to.open(TYPE_TENSOR);
    to.integer(TENSOR_TYPE_ELEMENT, element);
    // Before 1.24 a shape that nobody knows looks like that of a scalar: nothing is said then of results of nodes.
    bool known = api.TensorTypeAndShape_HasShape ? api.TensorTypeAndShape_HasShape(tensor) : rank > 0 || field == GRAPH_INPUT;
    size_t shape = known ? to.open(TENSOR_TYPE_SHAPE) : 0;
    for (size_t i = 0; i < rank; i++) {
      size_t dim = to.open(SHAPE_DIM);
      if (extents[i] >= 0)
        to.integer(DIM_VALUE, extents[i]);
      else if (symbols[i] && *symbols[i])
        to.text(DIM_PARAM, symbols[i]);
      to.close(dim);
    }
    if (known) to.close(shape);
    to.close(body);
    to.close(type);
    return nullptr;
  }

  OrtStatus *initializer(const OrtValueInfo *info) {
    const char *name;
    const OrtValue *value = nullptr;
    TRY(api.GetValueInfoName(info, &name));
    TRY(api.ValueInfo_GetInitializerValue(info, &value));
    if (!value) return api.fail("hip-compiler: ONNX Runtime has no contents of the constant '%s'", name);
    return tensor(GRAPH_INITIALIZER, name, value);
  }

  OrtStatus *tensor(int field, const char *name, const OrtValue *value) {
    OrtTensorTypeAndShapeInfo *info = nullptr;
    TRY(api.GetTensorTypeAndShape(value, &info));
    OrtStatus *status = tensor(field, name, value, info);
    api.ReleaseTensorTypeAndShapeInfo(info);
    return status;
  }

  OrtStatus *tensor(int field, const char *name, const OrtValue *value, const OrtTensorTypeAndShapeInfo *info) {
    int element = 0;
    size_t rank = 0, bytes = 0;
    const void *data = nullptr;
    Array<int64_t> extents;
    TRY(api.GetTensorElementType(info, &element));
    TRY(api.GetDimensionsCount(info, &rank));
    if (!extents.resize(rank)) return api.no_memory();
    TRY(api.GetDimensions(info, extents.data, rank));
    size_t start = to.open(field);
    for (int64_t extent : extents) to.integer(TENSOR_DIMS, extent);
    to.integer(TENSOR_TYPE, element);
    to.text(TENSOR_NAME, name);
    constexpr int STRING = 8; // contents of strings stay behind: nothing that is compiled reads them
    if (element != STRING) {
      TRY(api.GetTensorSizeInBytes(value, &bytes));
      TRY(api.GetTensorData(value, &data));
      // Attributes are values of ONNX Runtime for as long as they are read: only constants can be left where they are.
      if (bytes <= INLINE_BYTES || field != GRAPH_INITIALIZER)
        to.bytes(TENSOR_RAW, data, bytes);
      else
        address(data, bytes);
    }
    to.close(start);
    return nullptr;
  }

  void address(const void *data, size_t bytes) {
    char offset[32], length[32];
    snprintf(offset, sizeof offset, "%llu", (unsigned long long)(uintptr_t)data);
    snprintf(length, sizeof length, "%llu", (unsigned long long)bytes);
    const char *entries[][2] = {{"location", "memory"}, {"offset", offset}, {"length", length}};
    for (auto [key, text] : entries) {
      size_t entry = to.open(TENSOR_EXTERNAL);
      to.text(ENTRY_KEY, key);
      to.text(ENTRY_VALUE, text);
      to.close(entry);
    }
    to.integer(TENSOR_LOCATION, 1);
  }

  OrtStatus *attributes(const OrtNode *node) {
    Array<const OrtOpAttr *> attributes;
    TRY(list(api, api.Node_GetNumAttributes, api.Node_GetAttributes, node, attributes));
    for (const OrtOpAttr *attribute : attributes) {
      int type = 0;
      api.drop(api.OpAttr_GetType(attribute, &type)); // fails for kinds that it does not know
      if (type != ORT_GRAPH) TRY(this->attribute(attribute, type)); // subgraphs come with Node_GetSubgraphs
    }
    return nullptr;
  }

  OrtStatus *attribute(const OrtOpAttr *attribute, int type) {
    static constexpr int KINDS[] = {0, KIND_INT, KIND_INTS, KIND_FLOAT, KIND_FLOATS, KIND_STRING, KIND_STRINGS, 0, KIND_TENSOR};
    const char *name;
    TRY(api.OpAttr_GetName(attribute, &name));
    size_t start = to.open(NODE_ATTRIBUTE);
    to.text(ATTRIBUTE_NAME, name);
    if (type < 1 || type > ORT_TENSOR) { // types and sparse tensors; without a kind the attribute keeps the node out
      to.close(start);
      return nullptr;
    }
    to.integer(ATTRIBUTE_TYPE, KINDS[type]);
    if (type == ORT_TENSOR) {
      OrtValue *value = nullptr;
      TRY(api.OpAttr_GetTensorAttributeAsOrtValue(attribute, &value));
      OrtStatus *status = tensor(ATTRIBUTE_TENSOR, name, value);
      api.ReleaseValue(value);
      TRY(status);
    } else {
      Array<char> contents;
      size_t bytes = 0;
      api.drop(api.ReadOpAttr(attribute, type, nullptr, 0, &bytes)); // this call only tells the size
      if (!contents.resize(bytes + 1)) return api.no_memory();
      if (bytes) TRY(api.ReadOpAttr(attribute, type, contents.data, bytes, &bytes));
      plain(type, contents.data, bytes);
    }
    to.close(start);
    return nullptr;
  }

  void plain(int type, const char *data, size_t bytes) {
    auto reals = (const float *)(const void *)data;
    auto integers = (const int64_t *)(const void *)data;
    if (type == ORT_INT) to.integer(ATTRIBUTE_INT, integers[0]);
    if (type == ORT_FLOAT) to.real(ATTRIBUTE_FLOAT, reals[0]);
    if (type == ORT_STRING) to.bytes(ATTRIBUTE_STRING, data, bytes);
    if (type == ORT_INTS)
      for (size_t i = 0; i < bytes / sizeof *integers; i++) to.integer(ATTRIBUTE_INTS, integers[i]);
    if (type == ORT_FLOATS)
      for (size_t i = 0; i < bytes / sizeof *reals; i++) to.real(ATTRIBUTE_FLOATS, reals[i]);
    if (type == ORT_STRINGS)
      for (size_t at = 0; at < bytes; at += strlen(data + at) + 1) to.text(ATTRIBUTE_STRINGS, data + at);
  }

  OrtStatus *subgraphs(const OrtNode *node) {
    size_t count = 0;
    TRY(api.Node_GetNumSubgraphs(node, &count));
    Array<const OrtGraph *> graphs;
    Array<const char *> names;
    if (!graphs.resize(count) || !names.resize(count)) return api.no_memory();
    if (count) TRY(api.Node_GetSubgraphs(node, graphs.data, count, names.data));
    for (size_t i = 0; i < count; i++) {
      size_t start = to.open(NODE_ATTRIBUTE);
      to.text(ATTRIBUTE_NAME, names[i]);
      to.integer(ATTRIBUTE_TYPE, KIND_GRAPH);
      size_t graph = to.open(ATTRIBUTE_GRAPH);
      to.text(GRAPH_NAME, names[i]);
      TRY(body(graphs[i], nullptr, false));
      to.close(graph);
      to.close(start);
    }
    return nullptr;
  }

  const Api &api;
  Bytes &out;
  Message to;
};

} // namespace

OrtStatus *write_model(const Api &api, const OrtGraph *graph, const OrtNode *fused, Bytes &out) {
  return Writer(api, out).model(graph, fused);
}

} // namespace hip_ep
