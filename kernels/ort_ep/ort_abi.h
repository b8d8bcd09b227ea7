// The parts of ONNX Runtime's public C ABI that the provider uses, declared by us: the library is built without ONNX
// Runtime, and one file runs with 1.23.1 and every later version. Each `Ort*Api` is a table of functions that only ever
// grows at its end, so a function is known by its number.
#pragma once
#include <stddef.h>
#include <stdint.h>

struct OrtStatus;
struct OrtGraph;
struct OrtNode;
struct OrtValueInfo;
struct OrtValue;
struct OrtOpAttr;
struct OrtTypeInfo;
struct OrtTensorTypeAndShapeInfo;
struct OrtKernelContext;
struct OrtNodeComputeContext;
struct OrtEpGraphSupportInfo;
struct OrtHardwareDevice;
struct OrtEpDevice;
struct OrtKeyValuePairs;
struct OrtSessionOptions;
struct OrtRunOptions;
struct OrtLogger;
struct OrtMemoryInfo;
struct OrtMemoryDevice;
struct OrtSyncStream;
struct OrtProfilingEvent;
struct OrtProfilingEvents;
struct OrtAllocator;
struct OrtDataTransfer;
struct OrtEp;
struct OrtEpFactory;

struct OrtApiBase {
  const void *(*GetApi)(uint32_t version);
  const char *(*GetVersionString)();
};

constexpr uint32_t ORT_ABI = 23; // that of 1.23, the oldest runtime supported

enum OrtErrorCode { ORT_FAIL = 1 }; // ORT_EP_FAIL (11) makes Python run the model on the CPU without a word
enum OrtLogLevel { ORT_INFO = 1, ORT_WARNING = 2 };
enum OrtHardwareType { ORT_CPU = 0, ORT_GPU = 1 }; // the same numbers say where memory is
enum OrtMemoryType { ORT_DEVICE_MEMORY = 0, ORT_HOST_ACCESSIBLE = 5 };
enum OrtAllocatorType { ORT_DEVICE_ALLOCATOR = 0 };
enum OrtEventCategory { ORT_KERNEL_EVENT = 2 };
enum OrtAttributeType { ORT_INT = 1, ORT_INTS, ORT_FLOAT, ORT_FLOATS, ORT_STRING, ORT_STRINGS, ORT_GRAPH, ORT_TENSOR };
enum OrtCompatibility { ORT_OPTIMAL = 1, ORT_PREFER_RECOMPILATION = 2, ORT_UNSUPPORTED = 3 };

struct OrtNodeFusionOptions {
  uint32_t ort_version_supported;
  bool drop_constant_initializers;
};

// name, number, result, (parameters)
#define ORT_API(X)                                                                                                     \
  X(CreateStatus, 0, OrtStatus *, (int code, const char *message))                                                     \
  X(GetErrorMessage, 2, const char *, (const OrtStatus *))                                                             \
  X(GetTensorMutableData, 51, OrtStatus *, (OrtValue *, void **))                                                      \
  X(CastTypeInfoToTensorInfo, 55, OrtStatus *, (const OrtTypeInfo *, const OrtTensorTypeAndShapeInfo **))              \
  X(GetTensorElementType, 60, OrtStatus *, (const OrtTensorTypeAndShapeInfo *, int *))                                 \
  X(GetDimensionsCount, 61, OrtStatus *, (const OrtTensorTypeAndShapeInfo *, size_t *))                                \
  X(GetDimensions, 62, OrtStatus *, (const OrtTensorTypeAndShapeInfo *, int64_t *, size_t))                            \
  X(GetSymbolicDimensions, 63, OrtStatus *, (const OrtTensorTypeAndShapeInfo *, const char **, size_t))                \
  X(GetTensorTypeAndShape, 65, OrtStatus *, (const OrtValue *, OrtTensorTypeAndShapeInfo **))                          \
  X(KernelContext_GetInputCount, 88, OrtStatus *, (const OrtKernelContext *, size_t *))                                \
  X(KernelContext_GetInput, 90, OrtStatus *, (const OrtKernelContext *, size_t, const OrtValue **))                    \
  X(KernelContext_GetOutput, 91, OrtStatus *, (OrtKernelContext *, size_t, const int64_t *, size_t, OrtValue **))      \
  X(ReleaseStatus, 93, void, (OrtStatus *))                                                                            \
  X(ReleaseMemoryInfo, 94, void, (OrtMemoryInfo *))                                                                    \
  X(ReleaseValue, 96, void, (OrtValue *))                                                                              \
  X(ReleaseTensorTypeAndShapeInfo, 99, void, (OrtTensorTypeAndShapeInfo *))                                            \
  X(CreateOpAttr, 211, OrtStatus *, (const char *, const void *, int length, int type, OrtOpAttr **))                  \
  X(ReleaseOpAttr, 212, void, (OrtOpAttr *))                                                                           \
  X(Logger_LogMessage, 247, OrtStatus *,                                                                               \
    (const OrtLogger *, int level, const char *, const char *file, int line, const char *function))                    \
  X(ReadOpAttr, 272, OrtStatus *, (const OrtOpAttr *, int type, void *, size_t, size_t *))                             \
  X(GetValueInfoName, 289, OrtStatus *, (const OrtValueInfo *, const char **))                                         \
  X(GetValueInfoTypeInfo, 290, OrtStatus *, (const OrtValueInfo *, const OrtTypeInfo **))                              \
  X(GetModelEditorApi, 291, const void *, ())                                                                          \
  X(CreateKeyValuePairs, 295, void, (OrtKeyValuePairs **))                                                             \
  X(AddKeyValuePair, 296, void, (OrtKeyValuePairs *, const char *key, const char *value))                              \
  X(GetKeyValue, 297, const char *, (const OrtKeyValuePairs *, const char *key))                                       \
  X(GetKeyValuePairs, 298, void, (const OrtKeyValuePairs *, const char *const **, const char *const **, size_t *))     \
  X(ReleaseKeyValuePairs, 300, void, (OrtKeyValuePairs *))                                                             \
  X(HardwareDevice_Type, 307, int, (const OrtHardwareDevice *))                                                        \
  X(HardwareDevice_VendorId, 308, uint32_t, (const OrtHardwareDevice *))                                               \
  X(GetEpApi, 317, const void *, ())                                                                                   \
  X(GetTensorSizeInBytes, 318, OrtStatus *, (const OrtValue *, size_t *))                                              \
  X(CreateMemoryInfo_V2, 320, OrtStatus *,                                                                             \
    (const char *name, int device_type, uint32_t vendor, int32_t device, int memory_type, size_t alignment,            \
     int allocator_type, OrtMemoryInfo **))                                                                            \
  X(ValueInfo_GetInitializerValue, 326, OrtStatus *, (const OrtValueInfo *, const OrtValue **))                        \
  X(ValueInfo_IsConstantInitializer, 331, OrtStatus *, (const OrtValueInfo *, bool *))                                 \
  X(ValueInfo_IsFromOuterScope, 332, OrtStatus *, (const OrtValueInfo *, bool *))                                      \
  X(Graph_GetModelPath, 334, OrtStatus *, (const OrtGraph *, const char **))                                           \
  X(Graph_GetOnnxIRVersion, 335, OrtStatus *, (const OrtGraph *, int64_t *))                                           \
  X(Graph_GetNumOperatorSets, 336, OrtStatus *, (const OrtGraph *, size_t *))                                          \
  X(Graph_GetOperatorSets, 337, OrtStatus *, (const OrtGraph *, const char **, int64_t *, size_t))                     \
  X(Graph_GetNumInputs, 338, OrtStatus *, (const OrtGraph *, size_t *))                                                \
  X(Graph_GetInputs, 339, OrtStatus *, (const OrtGraph *, const OrtValueInfo **, size_t))                              \
  X(Graph_GetNumOutputs, 340, OrtStatus *, (const OrtGraph *, size_t *))                                               \
  X(Graph_GetOutputs, 341, OrtStatus *, (const OrtGraph *, const OrtValueInfo **, size_t))                             \
  X(Graph_GetNumInitializers, 342, OrtStatus *, (const OrtGraph *, size_t *))                                          \
  X(Graph_GetInitializers, 343, OrtStatus *, (const OrtGraph *, const OrtValueInfo **, size_t))                        \
  X(Graph_GetNumNodes, 344, OrtStatus *, (const OrtGraph *, size_t *))                                                 \
  X(Graph_GetNodes, 345, OrtStatus *, (const OrtGraph *, const OrtNode **, size_t))                                    \
  X(Graph_GetParentNode, 346, OrtStatus *, (const OrtGraph *, const OrtNode **))                                       \
  X(Node_GetName, 349, OrtStatus *, (const OrtNode *, const char **))                                                  \
  X(Node_GetOperatorType, 350, OrtStatus *, (const OrtNode *, const char **))                                          \
  X(Node_GetDomain, 351, OrtStatus *, (const OrtNode *, const char **))                                                \
  X(Node_GetNumInputs, 353, OrtStatus *, (const OrtNode *, size_t *))                                                  \
  X(Node_GetInputs, 354, OrtStatus *, (const OrtNode *, const OrtValueInfo **, size_t))                                \
  X(Node_GetNumOutputs, 355, OrtStatus *, (const OrtNode *, size_t *))                                                 \
  X(Node_GetOutputs, 356, OrtStatus *, (const OrtNode *, const OrtValueInfo **, size_t))                               \
  X(Node_GetNumAttributes, 359, OrtStatus *, (const OrtNode *, size_t *))                                              \
  X(Node_GetAttributes, 360, OrtStatus *, (const OrtNode *, const OrtOpAttr **, size_t))                               \
  X(OpAttr_GetTensorAttributeAsOrtValue, 362, OrtStatus *, (const OrtOpAttr *, OrtValue **))                           \
  X(OpAttr_GetType, 363, OrtStatus *, (const OrtOpAttr *, int *))                                                      \
  X(OpAttr_GetName, 364, OrtStatus *, (const OrtOpAttr *, const char **))                                              \
  X(Node_GetNumSubgraphs, 365, OrtStatus *, (const OrtNode *, size_t *))                                               \
  X(Node_GetSubgraphs, 366, OrtStatus *, (const OrtNode *, const OrtGraph **, size_t, const char **))                  \
  X(Node_GetEpName, 368, OrtStatus *, (const OrtNode *, const char **))                                                \
  X(GetTensorData, 378, OrtStatus *, (const OrtValue *, const void **))                                                \
  X(GetSessionOptionsConfigEntries, 379, OrtStatus *, (const OrtSessionOptions *, OrtKeyValuePairs **))

// Of 1.24 and later.
#define ORT_API_24(X) X(TensorTypeAndShape_HasShape, 390, bool, (const OrtTensorTypeAndShapeInfo *))

#define ORT_EP_API(X)                                                                                                  \
  X(CreateEpDevice, 0, OrtStatus *,                                                                                    \
    (OrtEpFactory *, const OrtHardwareDevice *, const OrtKeyValuePairs *, const OrtKeyValuePairs *, OrtEpDevice **))   \
  X(EpGraphSupportInfo_AddNodesToFuse, 2, OrtStatus *,                                                                 \
    (OrtEpGraphSupportInfo *, const OrtNode *const *, size_t, const OrtNodeFusionOptions *))                           \
  X(EpDevice_AddAllocatorInfo, 5, OrtStatus *, (OrtEpDevice *, const OrtMemoryInfo *))                                 \
  X(MemoryInfo_GetMemoryDevice, 6, const OrtMemoryDevice *, (const OrtMemoryInfo *))                                   \
  X(Value_GetMemoryDevice, 7, const OrtMemoryDevice *, (const OrtValue *))                                             \
  X(MemoryDevice_GetDeviceType, 9, int, (const OrtMemoryDevice *))                                                     \
  X(MemoryDevice_GetMemoryType, 10, int, (const OrtMemoryDevice *))                                                    \
  X(MemoryDevice_GetVendorId, 11, uint32_t, (const OrtMemoryDevice *))                                                 \
  X(MemoryDevice_GetDeviceId, 12, uint32_t, (const OrtMemoryDevice *))

// Of 1.24 and later.
#define ORT_EP_API_24(X)                                                                                               \
  X(CreateHardwareDevice, 16, OrtStatus *,                                                                             \
    (int type, uint32_t vendor, uint32_t device, const char *vendor_name, const OrtKeyValuePairs *, OrtHardwareDevice **)) \
  X(ReleaseHardwareDevice, 17, void, (OrtHardwareDevice *))

// Of 1.25 and later.
#define ORT_EP_API_25(X)                                                                                               \
  X(CreateProfilingEvent, 65, OrtStatus *,                                                                             \
    (int category, int32_t process, int32_t thread, const char *name, int64_t start_us, int64_t duration_us,           \
     const char *const *keys, const char *const *values, size_t, OrtProfilingEvent **))                                \
  X(ReleaseProfilingEvent, 66, void, (OrtProfilingEvent *))                                                            \
  X(ProfilingEventsContainer_AddEvents, 72, OrtStatus *,                                                               \
    (OrtProfilingEvents *, const OrtProfilingEvent *const *, size_t))

#define ORT_MODEL_EDITOR_API(X)                                                                                        \
  X(CreateNode, 6, OrtStatus *,                                                                                        \
    (const char *op, const char *domain, const char *name, const char *const *inputs, size_t, const char *const *outputs, \
     size_t, OrtOpAttr **attributes, size_t, OrtNode **))

// ---- what the provider fills in; a runtime reads as many members as the version says ---------------------------------
struct OrtAllocator {
  uint32_t version;
  void *(*Alloc)(OrtAllocator *, size_t);
  void (*Free)(OrtAllocator *, void *);
  const OrtMemoryInfo *(*Info)(const OrtAllocator *);
  void *(*Reserve)(OrtAllocator *, size_t);
  OrtStatus *(*GetStats)(const OrtAllocator *, OrtKeyValuePairs **);
  void *(*AllocOnStream)(OrtAllocator *, size_t, OrtSyncStream *);
  void *later[4];
};

struct OrtDataTransfer {
  uint32_t ort_version_supported;
  void (*Release)(OrtDataTransfer *);
  bool (*CanCopy)(const OrtDataTransfer *, const OrtMemoryDevice *from, const OrtMemoryDevice *to);
  OrtStatus *(*CopyTensors)(OrtDataTransfer *, const OrtValue **from, OrtValue **to, OrtSyncStream **, size_t);
};

struct OrtEpProfiler {
  uint32_t ort_version_supported;
  void (*Release)(OrtEpProfiler *);
  OrtStatus *(*StartProfiling)(OrtEpProfiler *, int64_t since_start_ns);
  OrtStatus *(*StartEvent)(OrtEpProfiler *, uint64_t number);
  OrtStatus *(*StopEvent)(OrtEpProfiler *, uint64_t number, const OrtProfilingEvent *);
  OrtStatus *(*EndProfiling)(OrtEpProfiler *, OrtProfilingEvents *);
};

struct OrtNodeComputeInfo {
  uint32_t ort_version_supported;
  OrtStatus *(*CreateState)(OrtNodeComputeInfo *, OrtNodeComputeContext *, void **);
  OrtStatus *(*Compute)(OrtNodeComputeInfo *, void *, OrtKernelContext *);
  void (*ReleaseState)(OrtNodeComputeInfo *, void *);
};

struct OrtEp {
  uint32_t ort_version_supported;
  const char *(*GetName)(const OrtEp *);
  OrtStatus *(*GetCapability)(OrtEp *, const OrtGraph *, OrtEpGraphSupportInfo *);
  OrtStatus *(*Compile)(OrtEp *, const OrtGraph **, const OrtNode **, size_t, OrtNodeComputeInfo **, OrtNode **);
  void (*ReleaseNodeComputeInfos)(OrtEp *, OrtNodeComputeInfo **, size_t);
  OrtStatus *(*GetPreferredDataLayout)(OrtEp *, int *);
  OrtStatus *(*ShouldConvertDataLayoutForOp)(OrtEp *, const char *, const char *, int, int *);
  OrtStatus *(*SetDynamicOptions)(OrtEp *, const char *const *, const char *const *, size_t);
  OrtStatus *(*OnRunStart)(OrtEp *, const OrtRunOptions *);
  OrtStatus *(*OnRunEnd)(OrtEp *, const OrtRunOptions *, bool);
  OrtStatus *(*CreateAllocator)(OrtEp *, const OrtMemoryInfo *, OrtAllocator **);
  OrtStatus *(*CreateSyncStreamForDevice)(OrtEp *, const OrtMemoryDevice *, void **);
  const char *(*GetCompiledModelCompatibilityInfo)(OrtEp *, const OrtGraph *);
  // Of 1.24 and 1.25.
  OrtStatus *(*GetKernelRegistry)(OrtEp *, const void **);
  OrtStatus *(*IsConcurrentRunSupported)(OrtEp *, bool *);
  OrtStatus *(*Sync)(OrtEp *);
  OrtStatus *(*CreateProfiler)(OrtEp *, OrtEpProfiler **);
  void *of_26_and_27[6];
  OrtStatus *(*GetDefaultMemoryDevice)(const OrtEp *, const OrtMemoryDevice **); // 1.27
  void *later[16];
};

struct OrtEpFactory {
  uint32_t ort_version_supported;
  const char *(*GetName)(const OrtEpFactory *);
  const char *(*GetVendor)(const OrtEpFactory *);
  OrtStatus *(*GetSupportedDevices)(OrtEpFactory *, const OrtHardwareDevice *const *, size_t, OrtEpDevice **, size_t, size_t *);
  OrtStatus *(*CreateEp)(OrtEpFactory *, const OrtHardwareDevice *const *, const OrtKeyValuePairs *const *, size_t,
                         const OrtSessionOptions *, const OrtLogger *, OrtEp **);
  void (*ReleaseEp)(OrtEpFactory *, OrtEp *);
  uint32_t (*GetVendorId)(const OrtEpFactory *);
  const char *(*GetVersion)(const OrtEpFactory *);
  OrtStatus *(*ValidateCompiledModelCompatibilityInfo)(OrtEpFactory *, const OrtHardwareDevice *const *, size_t,
                                                       const char *, int *);
  OrtStatus *(*CreateAllocator)(OrtEpFactory *, const OrtMemoryInfo *, const OrtKeyValuePairs *, OrtAllocator **);
  void (*ReleaseAllocator)(OrtEpFactory *, OrtAllocator *);
  OrtStatus *(*CreateDataTransfer)(OrtEpFactory *, OrtDataTransfer **);
  bool (*IsStreamAware)(const OrtEpFactory *);
  OrtStatus *(*CreateSyncStreamForDevice)(OrtEpFactory *, const OrtMemoryDevice *, const OrtKeyValuePairs *, void **);
  void *later[16];
};
