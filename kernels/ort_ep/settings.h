// Options of a session.
#pragma once
#include "hipc.h"
#include "support.h"

namespace hip_ep {

constexpr char EP_NAME[] = "HipExecutionProvider";

// Every option that there is; hip_compiler/ort/options.py says what each means, and checks its value.
constexpr const char *OPTIONS[] = {"target",    "device_id",   "arch",      "cpu",           "plugins",  "pipeline",
                                   "opt_level", "num_threads", "cache_dir", "graph_capture", "kv_share", "strict"};

struct Settings {
  Bytes pairs;   // what was given: "key\0value\0..."
  Bytes trouble; // a sentence: the options cannot be taken
  Bytes target, context_path;
  bool strict = false, context = false, embed = false, kv_share = true;
  hipc_fs placement = {}; // threads, device, and whether runs are replayed

  // Reads the options out of a session's entries.
  OrtStatus *read(const Api &api, const OrtSessionOptions *options);

private:
  void take(const char *key, const char *value);
};

} // namespace hip_ep
