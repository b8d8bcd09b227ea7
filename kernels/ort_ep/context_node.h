// EPContext nodes: a compiled model inside of an ONNX model.
#pragma once
#include "native_model.h"
#include "settings.h"

namespace hip_ep {

// Whether a node is an EPContext of this provider.
bool is_context(const Api &api, const OrtNode *node);

// Makes the node that stands for a fused one: the native artifact at `path` is embedded, or copied beside the context
// model, as the settings say. The number tells the fused nodes of a model apart. The runtime owns the node.
OrtStatus *make_context(const Api &api, const Settings &settings, const OrtGraph *graph, const OrtNode *fused, size_t number,
                        const char *path, OrtNode **made);

// Loads the native artifact of a context node.
OrtStatus *load_context(const Api &api, const Settings &settings, const OrtGraph *graph, const OrtNode *node,
                        NativeModel **loaded);

} // namespace hip_ep
