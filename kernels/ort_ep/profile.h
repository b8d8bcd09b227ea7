// Times of nodes and of the operators in them: for ONNX Runtime's own profile (from 1.25 on), and for a file.
#pragma once
#include "hipc.h"
#include "support.h"
#include "system.h"

namespace hip_ep {

class Profile {
public:
  ~Profile();

  Bytes path; // of the file; empty: none
  bool allowed = true;

  // Whether somebody takes times.
  bool wanted() const { return allowed && (path.size || started); }
  // A run of a node, and of the operators in it as far as its program keeps their times.
  void add(const char *node, int64_t begin, int64_t end, const hipc_event *events, int64_t count);
  // What ONNX Runtime asks for times. It may outlive the provider.
  OrtStatus *create_profiler(const Api &api, OrtEpProfiler **out);
  // Writes the file, as trace events that browsers show; false: it cannot be written.
  bool write() const;

private:
  struct Event {
    char *name;
    const char *node; // the name of the node that the operator is in; NULL: it is a node itself
    int64_t begin, end;
    int32_t thread;
  };
  struct Profiler;

  Event *append(const char *name, int64_t begin, int64_t end);
  OrtStatus *hand_over(const Api &api, OrtProfilingEvents *out);

  Lock lock;
  Event *events = nullptr;
  size_t count = 0, capacity = 0;
  bool started = false;
  int64_t start = 0; // when ONNX Runtime's profile began
  Profiler *profiler = nullptr;
};

} // namespace hip_ep
