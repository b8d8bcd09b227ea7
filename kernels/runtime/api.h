// The functions of HIP and hipBLASLt that the runtime uses, by their HIP names. They are found when a state is made:
// nothing is linked, and no header of ROCm or CUDA is needed. With HIPC_PLATFORM_NVIDIA each name stands for the function
// of CUDA's driver, or of cuBLASLt, that has the same parameters. Names map, numbers never do: the values below differ.
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef struct hipc_context hipc_context;

namespace hipc {

// ---- HIP --------------------------------------------------------------------------------------------------------
typedef void *hipStream_t, *hipEvent_t, *hipModule_t, *hipFunction_t, *hipGraph_t, *hipGraphExec_t;

// X(HIP name, CUDA name, parameters); all of them return 0 or an error.
#define HIPC_HIP_FUNCTIONS(X)                                                                                           \
  X(hipInit, cuInit, (uint32_t flags))                                                                                  \
  X(hipGetDeviceCount, cuDeviceGetCount, (int32_t * count))                                                             \
  X(hipDeviceGetAttribute, cuDeviceGetAttribute, (int32_t * value, int32_t attribute, int32_t device))                  \
  X(hipDrvGetErrorName, cuGetErrorName, (int32_t error, const char **name))                                             \
  X(hipMalloc, cuMemAlloc_v2, (void **memory, size_t bytes))                                                            \
  X(hipFree, cuMemFree_v2, (void *memory))                                                                              \
  X(hipHostMalloc, cuMemHostAlloc, (void **memory, size_t bytes, uint32_t flags))                                       \
  X(hipHostFree, cuMemFreeHost, (void *memory))                                                                         \
  X(hipMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, (void *to, const void *from, size_t bytes, hipStream_t stream))           \
  X(hipMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, (void *to, const void *from, size_t bytes, hipStream_t stream))           \
  X(hipMemsetD32Async, cuMemsetD32Async, (void *to, uint32_t value, size_t count, hipStream_t stream))                  \
  X(hipStreamCreateWithFlags, cuStreamCreate, (hipStream_t * stream, uint32_t flags))                                   \
  X(hipStreamDestroy, cuStreamDestroy_v2, (hipStream_t stream))                                                         \
  X(hipStreamSynchronize, cuStreamSynchronize, (hipStream_t stream))                                                    \
  X(hipStreamWaitEvent, cuStreamWaitEvent, (hipStream_t stream, hipEvent_t event, uint32_t flags))                      \
  X(hipEventCreateWithFlags, cuEventCreate, (hipEvent_t * event, uint32_t flags))                                       \
  X(hipEventRecord, cuEventRecord, (hipEvent_t event, hipStream_t stream))                                              \
  X(hipEventSynchronize, cuEventSynchronize, (hipEvent_t event))                                                        \
  X(hipEventDestroy, cuEventDestroy_v2, (hipEvent_t event))                                                             \
  X(hipModuleLoadData, cuModuleLoadData, (hipModule_t * module, const void *image))                                     \
  X(hipModuleUnload, cuModuleUnload, (hipModule_t module))                                                              \
  X(hipModuleGetFunction, cuModuleGetFunction, (hipFunction_t * function, hipModule_t module, const char *name))        \
  X(hipModuleLaunchKernel, cuLaunchKernel,                                                                              \
    (hipFunction_t function, uint32_t grid_x, uint32_t grid_y, uint32_t grid_z, uint32_t block_x, uint32_t block_y,     \
     uint32_t block_z, uint32_t shared, hipStream_t stream, void **parameters, void **extra))                           \
  X(hipStreamBeginCapture, cuStreamBeginCapture_v2, (hipStream_t stream, int32_t mode))                                 \
  X(hipStreamEndCapture, cuStreamEndCapture, (hipStream_t stream, hipGraph_t * graph))                                  \
  X(hipGraphInstantiateWithFlags, cuGraphInstantiateWithFlags,                                                          \
    (hipGraphExec_t * exec, hipGraph_t graph, unsigned long long flags))                                                \
  X(hipGraphLaunch, cuGraphLaunch, (hipGraphExec_t exec, hipStream_t stream))                                           \
  X(hipGraphDestroy, cuGraphDestroy, (hipGraph_t graph))                                                                \
  X(hipGraphExecDestroy, cuGraphExecDestroy, (hipGraphExec_t exec))

// What only one of the platforms has.
#ifdef HIPC_PLATFORM_NVIDIA
#define HIPC_PLATFORM_FUNCTIONS(X)                                                                                      \
  X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, (void **primary, int32_t device))                               \
  X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, (int32_t device))                                          \
  X(cuCtxPushCurrent, cuCtxPushCurrent_v2, (void *primary))                                                             \
  X(cuCtxPopCurrent, cuCtxPopCurrent_v2, (void **primary))                                                              \
  X(cuFuncSetAttribute, cuFuncSetAttribute, (hipFunction_t function, int32_t attribute, int32_t value))                 \
  X(cuFuncGetParamInfo, cuFuncGetParamInfo, (hipFunction_t function, size_t index, size_t *offset, size_t *size))
#else
#define HIPC_PLATFORM_FUNCTIONS(X)                                                                                      \
  X(hipGetDevice, hipGetDevice, (int32_t * device))                                                                     \
  X(hipSetDevice, hipSetDevice, (int32_t device))                                                                       \
  X(hipGetDeviceProperties, hipGetDevicePropertiesR0600, (void *properties, int32_t device))
#endif

constexpr uint32_t STREAM_NON_BLOCKING = 1;
constexpr uint32_t EVENT_DISABLE_TIMING = 2;
constexpr int32_t CAPTURE_THREAD_LOCAL = 1;
constexpr int32_t ERROR_OUT_OF_MEMORY = 2;
constexpr int32_t ERROR_NOT_FOUND = 500;
// Ends of the pairs of `extra`: 1 and 2 name the address and the size of the packed arguments.
#ifdef HIPC_PLATFORM_NVIDIA
constexpr uintptr_t LAUNCH_PARAMETERS_END = 0;
enum DeviceAttribute : int32_t { WAVE_SIZE = 10, COMPUTE_UNITS = 16, LDS_BYTES = 97, MAJOR = 75, MINOR = 76 };
constexpr int32_t FUNCTION_MAX_DYNAMIC_SHARED = 8;
constexpr uint32_t DEFAULT_DYNAMIC_SHARED = 48 << 10;
#else
constexpr uintptr_t LAUNCH_PARAMETERS_END = 3;
enum DeviceAttribute : int32_t { WAVE_SIZE = 87, COMPUTE_UNITS = 63, LDS_BYTES = 74 };
// hipDeviceProp_tR0600 has 1,472 bytes; the name of the architecture, 256 bytes, begins at byte 1,160.
constexpr int64_t PROPERTIES_BYTES = 4096;
constexpr int64_t PROPERTIES_ARCHITECTURE = 1160;
#endif

struct Hip {
#define HIPC_MEMBER(HIP, CUDA, PARAMETERS) int32_t(*HIP) PARAMETERS;
  HIPC_HIP_FUNCTIONS(HIPC_MEMBER)
  HIPC_PLATFORM_FUNCTIONS(HIPC_MEMBER)
};

// ---- hipBLASLt --------------------------------------------------------------------------------------------------
typedef void *hipblasLtHandle_t, *hipblasLtMatmulDesc_t, *hipblasLtMatrixLayout_t, *hipblasLtMatmulPreference_t;

#define HIPC_BLASLT_FUNCTIONS(X)                                                                                        \
  X(hipblasLtCreate, cublasLtCreate, (hipblasLtHandle_t * handle))                                                      \
  X(hipblasLtDestroy, cublasLtDestroy, (hipblasLtHandle_t handle))                                                      \
  X(hipblasLtMatmulDescCreate, cublasLtMatmulDescCreate,                                                                \
    (hipblasLtMatmulDesc_t * description, int32_t compute, int32_t scale))                                              \
  X(hipblasLtMatmulDescDestroy, cublasLtMatmulDescDestroy, (hipblasLtMatmulDesc_t description))                         \
  X(hipblasLtMatmulDescSetAttribute, cublasLtMatmulDescSetAttribute,                                                    \
    (hipblasLtMatmulDesc_t description, int32_t attribute, const void *value, size_t bytes))                            \
  X(hipblasLtMatrixLayoutCreate, cublasLtMatrixLayoutCreate,                                                            \
    (hipblasLtMatrixLayout_t * layout, int32_t dtype, uint64_t rows, uint64_t columns, int64_t leading))                \
  X(hipblasLtMatrixLayoutDestroy, cublasLtMatrixLayoutDestroy, (hipblasLtMatrixLayout_t layout))                        \
  X(hipblasLtMatrixLayoutSetAttribute, cublasLtMatrixLayoutSetAttribute,                                                \
    (hipblasLtMatrixLayout_t layout, int32_t attribute, const void *value, size_t bytes))                               \
  X(hipblasLtMatmulPreferenceCreate, cublasLtMatmulPreferenceCreate, (hipblasLtMatmulPreference_t * preference))        \
  X(hipblasLtMatmulPreferenceDestroy, cublasLtMatmulPreferenceDestroy, (hipblasLtMatmulPreference_t preference))        \
  X(hipblasLtMatmulPreferenceSetAttribute, cublasLtMatmulPreferenceSetAttribute,                                        \
    (hipblasLtMatmulPreference_t preference, int32_t attribute, const void *value, size_t bytes))                       \
  X(hipblasLtMatmulAlgoGetHeuristic, cublasLtMatmulAlgoGetHeuristic,                                                    \
    (hipblasLtHandle_t handle, hipblasLtMatmulDesc_t description, hipblasLtMatrixLayout_t a, hipblasLtMatrixLayout_t b, \
     hipblasLtMatrixLayout_t c, hipblasLtMatrixLayout_t d, hipblasLtMatmulPreference_t preference, int32_t asked,       \
     void *results, int32_t *found))                                                                                    \
  X(hipblasLtMatmul, cublasLtMatmul,                                                                                    \
    (hipblasLtHandle_t handle, hipblasLtMatmulDesc_t description, const void *alpha, const void *a,                     \
     hipblasLtMatrixLayout_t a_layout, const void *b, hipblasLtMatrixLayout_t b_layout, const void *beta,               \
     const void *c, hipblasLtMatrixLayout_t c_layout, void *d, hipblasLtMatrixLayout_t d_layout, const void *algorithm, \
     void *workspace, size_t workspace_bytes, hipStream_t stream))

struct BlasLt {
  HIPC_BLASLT_FUNCTIONS(HIPC_MEMBER)
#undef HIPC_MEMBER
};

enum DataType : int32_t { R_32F = 0, R_16F = 2, R_16BF = 14 };
enum Epilog : uint32_t { EPILOGUE_NONE = 1, EPILOGUE_RELU = 2, EPILOGUE_BIAS = 4, EPILOGUE_GELU = 32 };
constexpr int32_t PREFERENCE_WORKSPACE = 1;
#ifdef HIPC_PLATFORM_NVIDIA
enum Transpose : int32_t { OP_N = 0, OP_T = 1 };
constexpr int32_t COMPUTE_32F = 68;
// Alignments that algorithms may rely on, of a, b, c and d; hipBLASLt's rely on none.
constexpr int32_t PREFERENCE_ALIGNMENT = 5;
enum MatmulAttribute : int32_t { MATMUL_TRANSA = 3, MATMUL_TRANSB = 4, MATMUL_EPILOGUE = 7, MATMUL_BIAS = 8, MATMUL_BIAS_TYPE = 26 };
enum LayoutAttribute : int32_t { LAYOUT_BATCH = 5, LAYOUT_BATCH_STRIDE = 6 };
struct Algorithm {
  uint64_t data[8];
};
#else
enum Transpose : int32_t { OP_N = 111, OP_T = 112 };
constexpr int32_t COMPUTE_32F = 2;
enum MatmulAttribute : int32_t { MATMUL_TRANSA = 0, MATMUL_TRANSB = 1, MATMUL_EPILOGUE = 2, MATMUL_BIAS = 3, MATMUL_BIAS_TYPE = 4 };
enum LayoutAttribute : int32_t { LAYOUT_BATCH = 0, LAYOUT_BATCH_STRIDE = 1 };
struct Algorithm {
  uint64_t data[2];
  size_t workspace_bytes;
};
#endif
struct HeuristicResult {
  Algorithm algorithm;
  size_t workspace_bytes;
  int32_t status;
  float waves;
  int32_t reserved[4];
};

// Loads a library and finds every function in it; keeps the error, and what was looked for where, otherwise. What is
// loaded stays loaded for the life of the process: runtimes of GPUs do not survive being unloaded.
int32_t load_hip(hipc_context *context, Hip *hip);
int32_t load_blaslt(hipc_context *context, BlasLt *blaslt);

} // namespace hipc
