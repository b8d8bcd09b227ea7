// Options of a session.
#pragma once
#include "factory.h"
#include "hipc.h"

namespace hip_ep {

constexpr char EP_NAME[] = "HipExecutionProvider";

// Every option that there is; hip_compiler/ort/options.py says what each means, and checks its value.
constexpr const char *OPTIONS[] = {
    "target",        "device_id", "arch",     "cpu",    "plugins",  "pipeline",   "opt_level", "num_threads", "cache_dir",
    "graph_capture", "kv_share",  "host_accessible_inputs", "strict", "static_pad_prefill", "model_arch", "profile"};

// Devices of ONNX Runtime that a session was given.
struct Selection {
  bool host = false;
  size_t count = 0;
  int gpus[Gpus::MAX] = {};
};

struct Settings {
  Bytes pairs;   // what was given: "key\0value\0..."
  Bytes trouble; // a sentence: the options cannot be taken
  Bytes target, context_path, profile;
  bool strict = false, context = false, embed = false, kv_share = true;
  bool host_accessible_inputs = true, pads = false;
  hipc_fs placement = {}; // threads, device, and whether runs are replayed
  int gpu = -1;           // where ONNX Runtime's tensors are; -1: in memory of the host

  // Reads the options out of a session's entries, and chooses among the devices that it was given.
  OrtStatus *read(Factory &factory, const OrtSessionOptions *options, const Selection &selection);

  // Tells the compiler more than the options do.
  void add(const char *key, const char *value);

private:
  void take(const char *key, const char *value);
  void choose(const Factory &factory, const Selection &selection);

  bool has_device = false; // the option device_id was given
};

} // namespace hip_ep
