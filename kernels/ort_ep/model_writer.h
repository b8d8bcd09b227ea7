// A graph of ONNX Runtime as a serialised ONNX model.
#pragma once
#include "support.h"

namespace hip_ep {

// Writes a model of the graph: its nodes, the types of all values, and its constants (the larger ones by address).
// Inputs and outputs are those of the fused node that stands for it; NULL: the graph's own.
OrtStatus *write_model(const Api &api, const OrtGraph *graph, const OrtNode *fused, Bytes &out);

} // namespace hip_ep
