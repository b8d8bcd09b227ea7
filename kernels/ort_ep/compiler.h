// How the provider asks hip-compiler, which is Python, for what only a compiler can do. A process that has registered no
// compiler loads models that were compiled before.
#pragma once
#include <stdint.h>

#include "hipc.h"

#define HIP_EP_COMPILER_VERSION 2

extern "C" {

// Where an answer in words goes; may be called several times.
typedef void (*hip_ep_put)(void *answer, const char *text, int64_t bytes);

// `settings`: options of the session as "key\0value\0" pairs. `model`: a serialised ModelProto, whose larger constants
// are external data with the location "memory" and their address as offset; they live until the call returns.
typedef struct hip_ep_request {
  const char *settings;
  int64_t settings_bytes;
  const void *model;
  int64_t model_bytes;
  // A fused node is given what the subgraphs of its nodes read from around them.
  int32_t outer_values;
  void *answer;
  hip_ep_put put;
} hip_ep_request;

// A program in this process.
typedef struct hip_ep_program {
  int64_t id; // for `release`
  void *state;
  int32_t (*compute)(void *state, const hipc_io *io);
  const char *(*last_error)(void *state);
  const hipc_event *(*events)(void *state, int64_t *count);
} hip_ep_program;

typedef struct hip_ep_compiler {
  uint32_t version;
  // Gives each node of the graph the number of the group that is compiled with it, or -1; the nodes of a group can be
  // one node of the graph. A node whose number is -1 at first is another provider's, and keeps it. The answer says which
  // nodes have no group, and why. Status 0, or the answer is the error.
  int32_t (*claim)(const hip_ep_request *, int64_t nodes, int32_t *groups);
  // Compiles a graph into this process. Status 0, and the answer is pairs of numbers, of an input and an output that may
  // share memory, and behind a semicolon what Padding::read takes; or the answer is the error.
  int32_t (*compile)(const hip_ep_request *, hip_ep_program *program);
  // Compiles a graph to a native artifact; the answer is its path, and `release` deletes it. Status 0, or the answer is
  // the error.
  int32_t (*link)(const hip_ep_request *, int64_t *id);
  void (*release)(int64_t id);
} hip_ep_compiler;

}
