// The runtime ABI between compiled models, runtime functions and loaders. C, versioned, freestanding.
#pragma once
#include <stdint.h>

#define HIPC_ABI_VERSION 2
#define HIPC_MAX_RANK 8

#ifdef __cplusplus
extern "C" {
#endif

// Status of every runtime function. A status other than HIPC_OK ends the run; the message is kept in the context.
enum hipc_status {
  HIPC_OK = 0,
  HIPC_ERROR_UNSUPPORTED = 1,   // element type, rank or variant that the function does not implement
  HIPC_ERROR_SHAPE = 2,         // extents that contradict each other at run time
  HIPC_ERROR_INDEX = 3,         // an index outside its axis
  HIPC_ERROR_MEMORY = 4,        // an allocation failed
  HIPC_ERROR_INPUT = 5,         // an input does not fit the interface
  HIPC_ERROR_OUTPUT = 6,        // the caller's allocator returned no memory
  HIPC_ERROR_CONSTANTS = 7,     // the constants file is missing or too short
  HIPC_ERROR_VALUE = 8,         // a value outside the operator's domain (a zero step, for example)
  HIPC_ERROR_INTERNAL = 9,
  HIPC_ERROR_DEVICE = 10,       // the device, or a library that it needs, failed or is missing
};

// A view of elements in memory. `dtype` is the value of onnx TensorProto.DataType. Strides count elements. On a GPU target
// `data` is device memory.
typedef struct hipc_tensor {
  void *data;
  int32_t dtype;
  int32_t rank;
  int64_t shape[HIPC_MAX_RANK];
  int64_t strides[HIPC_MAX_RANK];
} hipc_tensor;

// State of one loaded model: constants, arena, threads, last error. Opaque to compiled code.
typedef struct hipc_context hipc_context;

// Files of an artifact, and what the loader decides.
typedef struct hipc_fs {
  void *self;
  // Maps a file of the artifact into memory for the life of the state; NULL when it is missing. Writes its size in bytes.
  const void *(*map)(void *self, const char *name, int64_t *size);
  int32_t num_threads;    // 0: one per available core
  int32_t device_id;      // GPU targets: number of the device
  int32_t graph_capture;  // GPU targets: runs that repeat are replayed as one graph
} hipc_fs;

// Inputs of one run, and where its outputs come from.
typedef struct hipc_io {
  const hipc_tensor *inputs;  // a GPU target points it at copies in device memory until the run ends
  int64_t num_inputs;
  void *allocator;
  // Memory for output `index`, 64-byte aligned, contiguous; NULL refuses.
  void *(*alloc_output)(void *allocator, int32_t index, int32_t dtype, int32_t rank, const int64_t *shape);
  // Device memory is for GPU targets only. One byte per input: is it device memory? NULL: none is.
  const uint8_t *inputs_on_device;
  int32_t outputs_on_device;  // alloc_output gives device memory
  // Stream of the device to run on; NULL: the state's own, and the run is complete when inference_compute returns. On the
  // caller's stream, outputs in device memory are complete when the stream is; those in host memory always are, and inputs
  // in host memory are free to change when inference_compute returns: it waits only where it would be two runs ahead.
  void *stream;
} hipc_io;

// What one input must look like. `dims[i] >= 0` is the extent, `dims[i] < 0` is symbol number `-dims[i] - 1`:
// equal symbols must have equal extents over all inputs.
typedef struct hipc_input_spec {
  const char *name;
  int32_t dtype;
  int32_t rank;
  const int64_t *dims;
} hipc_input_spec;

// ---- entry points of an artifact -------------------------------------------------------------------------------
int32_t inference_init(void **state, const hipc_fs *fs);
int32_t inference_compute(void *state, const hipc_io *io);
void inference_cleanup(void *state);
const char *inference_last_error(void *state);
const char *inference_get_metadata_json(void);

// ---- runtime: life of a state -----------------------------------------------------------------------------------
// `constants_bytes` is what compiled code will read from `constants.bin`; 0: there is no such file. After a failure
// the context still exists, unless memory ran out, to be asked for its error and cleaned up.
int32_t hipc_init(hipc_context **context, const hipc_fs *fs, int64_t constants_bytes);
void hipc_cleanup(hipc_context *context);
const char *hipc_last_error(hipc_context *context);
// Bytes of arenas and scratch now held, and the most ever held.
int64_t hipc_arena_bytes(hipc_context *context);
int64_t hipc_arena_peak(hipc_context *context);
// Gives the arena back to the system; the next run grows it again.
int32_t hipc_trim(hipc_context *context);

// ---- runtime: called by compiled code ---------------------------------------------------------------------------
// Names of the symbols that input specifications number, for messages; NULL entries are unnamed. The array must outlive
// the context. Optional.
int32_t hipc_name_symbols(hipc_context *context, const char *const *names, int64_t count);
// Starts a run: checks every input against its specification, then forgets the last error.
int32_t hipc_begin(hipc_context *context, const hipc_io *io, const hipc_input_spec *specs, int64_t num_inputs,
                   int64_t num_symbols);
// Ends a run that hipc_begin has let begin, and that went as `status` says; the status that the run ends with. Outputs in
// host memory are complete when it returns HIPC_OK. Idle threads may sleep.
int32_t hipc_end(hipc_context *context, int32_t status);
// Start of constants.bin in memory, 64-byte aligned; on a GPU target in device memory.
const void *hipc_constants(hipc_context *context);
// Arena of a pool domain, at least `bytes` long, 64-byte aligned; NULL when memory ran out (the error is kept).
void *hipc_pool(hipc_context *context, int64_t domain, int64_t bytes);
// Memory of `bytes` that lives until the next run begins, 64-byte aligned: for what no arena can hold, such as buffers that
// go around in a loop. NULL when memory ran out (the error is kept).
void *hipc_alloc(hipc_context *context, int64_t bytes);
// For loops: a mark, and the release of what hipc_alloc and growing arenas took since, except for blocks that hold one
// of the addresses. Marks of outer loops stay valid.
int64_t hipc_mark(hipc_context *context);
void hipc_release(hipc_context *context, int64_t mark, const void *const *kept, int64_t num_kept);
// Memory for an output from the caller's allocator; NULL when it refused (the error is kept).
void *hipc_alloc_output(hipc_context *context, int64_t index, int32_t dtype, int32_t rank, const int64_t *shape);
// Adds the place to the kept error ("node /a/b (MatMul)") and returns the status to end the run with.
int32_t hipc_fail(hipc_context *context, int32_t status, const char *place);
// A condition that the compiler could not decide: HIPC_OK, or HIPC_ERROR_SHAPE with the message.
int32_t hipc_check(hipc_context *context, int32_t condition, const char *message);

// A generated loop nest over [begin, end) of its outermost iterations. `arguments` is what the launch passed.
typedef void (*hipc_kernel)(const void *arguments, int64_t begin, int64_t end);
// Runs a kernel over `iterations`, in chunks on the threads of the context. `cost` estimates the scalar
// operations of one iteration; a launch too small to share runs on the calling thread.
void hipc_launch(hipc_context *context, hipc_kernel kernel, const void *arguments, int64_t iterations, int64_t cost);

// ---- runtime of GPU targets: called by compiled code ------------------------------------------------------------
// Launches a generated kernel, or a plugin's, over `iterations`. The kernel's parameters are `arguments` and then an
// int64_t, the number of iterations; it walks them with the stride of its grid, in blocks of 256 threads. `arguments[i]` is
// the address of a value, in memory of the host, that is copied as far as the parameter is long: a slot of 8 bytes whose
// other bytes are 0, or all of a larger one. NULL: a value of zeros. `cost` estimates the scalar operations of one iteration.
int32_t hipc_launch_kernel(hipc_context *context, const char *kernel, const void *const *arguments, int64_t count,
                           int64_t iterations, int64_t cost);
// Brings device memory to the host, once everything before it is done: the one way in which host code sees contents.
int32_t hipc_read(hipc_context *context, void *host, const void *device, int64_t bytes);
// In the order of the stream: stores the low `bytes` (1, 2, 4 or 8) of `bits`, and copies within the device.
int32_t hipc_write(hipc_context *context, void *device, int64_t bits, int64_t bytes);
int32_t hipc_copy(hipc_context *context, void *to, const void *from, int64_t bytes);

// ---- runtime: times of operators, in programs that were compiled to keep them -----------------------------------
// `place` ran from one time to another, in nanoseconds of the system's monotonic clock.
typedef struct hipc_event {
  const char *place;
  int64_t begin, end;
} hipc_event;
// What ran since the last call was `place` ("/a/b (matmul)"); NULL: a run begins, and nothing is kept yet. On a GPU it waits
// for the stream, and the run is not replayed. The text must outlive the context.
int32_t hipc_time(hipc_context *context, const char *place);
// What the last run kept, and how many there are; the memory is the context's.
const hipc_event *hipc_events(hipc_context *context, int64_t *count);

// ---- runtime: for operator implementations ----------------------------------------------------------------------
// Keeps a message (printf-like: %s, %d, %lld) and returns `status`.
int32_t hipc_error(hipc_context *context, int32_t status, const char *format, ...);
// Scratch memory that lives until the operator returns; 64-byte aligned; NULL when memory ran out. One block per call
// of the operator: ask once for all of it. It is kept between runs, so a second run allocates nothing.
void *hipc_scratch(hipc_context *context, int64_t bytes);
// Threads that hipc_launch shares work between, the caller included.
int32_t hipc_num_threads(hipc_context *context);

#ifdef __cplusplus
}
#endif
