// What the context of a GPU target holds. Private to the runtime; operators use gpu.h.
#pragma once
#include "../host/state.h"
#include "api.h"
#include "gpu.h"

namespace hipc {

constexpr int MAX_ARGUMENTS = 64;
constexpr int MAX_MODULES = 64;
constexpr int KERNEL_BUCKETS = 256;
constexpr int MAX_RECORDINGS = 4;
constexpr int SLOTS = 2;
constexpr int64_t DEVICE_ALIGNMENT = 256;
// Pinned memory is taken for this much at most; what is larger goes through chunks.
constexpr int64_t STAGED_BYTES = 64 << 20;
// Inputs of a run up to this many bytes stay in pinned memory, where kernels read them.
constexpr int64_t READ_IN_PLACE = 4096;
constexpr int64_t CHUNK_BYTES = 8 << 20;

// Where the arguments of a kernel lie in its argument block; hidden ones are the driver's affair.
struct Parameters {
  int32_t count;
  int64_t bytes;
  uint32_t offsets[MAX_ARGUMENTS], sizes[MAX_ARGUMENTS];
};

struct Kernel {
  Kernel *next;
  hipFunction_t function;
  bool generated;
  uint32_t shared_allowed;
  Parameters parameters;
  char name[128];
};

// Library, generated kernels, then those of plugins. The images stay mapped for the life of the state.
struct Module {
  hipModule_t module;
  const void *image;
  int64_t bytes;
};

// A block of device memory that the context took; free ones are kept for the next that asks.
struct DeviceBlock {
  char *memory;
  int64_t bytes;
  bool used;
  uint64_t run;  // in which it was given back
};

// Pinned memory of the host.
struct Pinned {
  char *memory;
  int64_t bytes;
};

// An output of host memory, and where the run makes it.
struct HostOutput {
  char *host;
  const char *device;
  int64_t bytes;
};

// The commands of a run that went to its end. A run that issues the same ones is replayed as one graph.
struct Recording {
  char *commands;
  int64_t bytes, capacity;
  hipGraphExec_t graph;
  uint64_t run;
  bool whole;      // the run came to its end
  bool followed;   // the run at hand has issued the same commands so far
};

enum class Recorder : int32_t { OFF, FOLLOWING, RECORDING };

struct MatmulPlan;

} // namespace hipc

struct hipc_context : hipc::State {
  hipc::Hip hip;
  int32_t device;
  char architecture[64];
  int32_t lanes, units, lds;
  void *primary;     // CUDA's context of the device
  int32_t previous_device;
  hipc::Module modules[hipc::MAX_MODULES];
  int32_t num_modules;
  hipc::Kernel *kernels[hipc::KERNEL_BUCKETS];
  const char *host_constants;
  int64_t constants_bytes;
  // Streams. Runs that the host does not wait for take turns in two slots, each with pinned memory for inputs of the
  // host. `pending`: work of the slot's last run may be under way, up to `done`. `slot` is that of the last run.
  hipc::hipStream_t own_stream, stream;
  hipc::hipEvent_t done[hipc::SLOTS];
  bool pending[hipc::SLOTS];
  int32_t slot;
  // Memory.
  hipc::DeviceBlock *blocks;
  int64_t num_blocks, capacity_blocks;
  uint64_t run;
  // Inputs and outputs of the run at hand.
  hipc_tensor *tensors;
  const hipc_tensor *caller_inputs;
  int64_t num_tensors;
  hipc::Block input_block;
  hipc::Block *output_blocks;
  int64_t num_output_blocks;
  hipc::HostOutput *host_outputs;
  int64_t num_host_outputs, capacity_host_outputs;
  uint32_t *counters;
  hipc::Pinned staged_inputs[hipc::SLOTS], staged_outputs, small, fault;
  hipc::Pinned chunks[2];
  hipc::hipEvent_t chunk_free[2];
  // Recordings.
  bool capture, reads;
  hipc::Recorder recorder;
  hipc::Recording recordings[hipc::MAX_RECORDINGS];
  int64_t position;
  hipc::Recording *current;
  // Matrix products.
  hipc::BlasLt *blaslt;
  hipc::hipblasLtHandle_t blaslt_handle;
  hipc::MatmulPlan *matmul_plans;
  hipc::Block workspace, unpacked;
};

namespace hipc {

// ---- commands: what a run asks of the stream --------------------------------------------------------------------
enum CommandKind : int64_t { LAUNCH, UPLOAD, DOWNLOAD, MATMUL };

// Commands are compared byte by byte: their types have no padding. `bytes` counts the whole command.
struct Command {
  CommandKind kind;
  int64_t bytes;
};
struct LaunchCommand : Command {
  Kernel *kernel;
  uint32_t grid[3], block[3];
  uint64_t shared;
  int64_t argument_bytes;
  // The arguments follow, padded to a multiple of 8.
};
struct CopyCommand : Command {
  void *to;
  const void *from;
  int64_t count;
};
struct MatmulCommand : Command {
  MatmulPlan *plan;
  const void *a, *b, *bias, *residual;
  void *y;
};

// Executes a command, or defers it while the run follows a recording.
int32_t submit(hipc_context *context, const Command *command);
// Executes what was deferred, so that the stream is as far as the run is; the run is no recording's any more.
int32_t catch_up(hipc_context *context);
void begin_recording(hipc_context *context);
// Replays a followed recording, or keeps the new one.
int32_t end_recording(hipc_context *context);
void abandon_recording(hipc_context *context);
void forget_recordings(hipc_context *context);

int32_t execute_launch(hipc_context *context, const LaunchCommand *command);
int32_t execute_matmul(hipc_context *context, const MatmulCommand *command);

// ---- device -----------------------------------------------------------------------------------------------------
// Makes the context's device the thread's, and gives the thread back the one it had.
int32_t enter_device(hipc_context *context);
void leave_device(hipc_context *context);
// HIPC_OK for 0; else keeps "WHAT failed: NAME OF THE ERROR".
int32_t check_hip(hipc_context *context, int32_t error, const char *what);
// Finds the device of the context, by its number, and what there is to know of it.
int32_t open_device(hipc_context *context);
int32_t load_modules(hipc_context *context, const hipc_fs *fs);
void unload_modules(hipc_context *context);
// The arguments that a code object says a kernel has; false: it says nothing of the kernel.
bool read_parameters(const void *image, int64_t bytes, const char *kernel, Parameters *parameters);

// ---- memory -----------------------------------------------------------------------------------------------------
bool reserve_pinned(hipc_context *context, Pinned *pinned, int64_t bytes);
void free_pinned(hipc_context *context, Pinned *pinned);
// Between runs: what the last one took for itself becomes free, and what was free for long goes back to the device.
void recycle_memory(hipc_context *context);
// Gives everything that runs took back to the device.
void release_memory(hipc_context *context);
// A block with its accounts; keeps the old memory until the run ends. `what` is for the message.
void *reserve_block(hipc_context *context, Block *block, int64_t bytes, const char *what);
// Waits for the last run, when it may be under way.
int32_t wait_pending(hipc_context *context);
// Copies host memory of any kind to the device through pinned chunks, in the order of the stream. The host memory may be
// changed as soon as it returns.
int32_t upload(hipc_context *context, void *device, const void *host, int64_t bytes);
void release_io(hipc_context *context);

void free_matmul(hipc_context *context);

} // namespace hipc
