// Options of a session.
#pragma once
#include "support.h"

namespace hip_ep {

constexpr char EP_NAME[] = "HipExecutionProvider";

// Every option that there is; hip_compiler/ort/options.py says what each means, and checks its value.
constexpr const char *OPTIONS[] = {
    "target",      "device_id", "arch",       "plugins",           "pipeline", "opt_level",
    "num_threads", "cache_dir", "graph_capture", "static_pad_prefill", "kv_share", "host_accessible_inputs",
    "strict",      "profile",   "model_arch",
};

struct Settings {
  Bytes pairs;   // what was given: "key\0value\0..."
  Bytes trouble; // a sentence: the options cannot be taken
  Bytes target, context_path;
  bool strict = false, context = false, embed = false;
  int num_threads = 0;

  // Reads the options out of a session's entries.
  OrtStatus *read(const Api &api, const OrtSessionOptions *options);

private:
  void take(const char *key, const char *value);
};

} // namespace hip_ep
