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
struct OrtAllocator;
struct OrtEp;
struct OrtEpFactory;

struct OrtApiBase {
  const void *(*GetApi)(uint32_t version);
  const char *(*GetVersionString)();
};

constexpr uint32_t ORT_ABI = 23; // that of 1.23, the oldest runtime supported

enum OrtErrorCode { ORT_FAIL = 1 }; // ORT_EP_FAIL (11) makes Python run the model on the CPU without a word
enum OrtLogLevel { ORT_INFO = 1, ORT_WARNING = 2 };
enum OrtHardwareType { ORT_CPU = 0 };
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
  X(GetKeyValuePairs, 298, void, (const OrtKeyValuePairs *, const char *const **, const char *const **, size_t *))     \
  X(ReleaseKeyValuePairs, 300, void, (OrtKeyValuePairs *))                                                             \
  X(HardwareDevice_Type, 307, int, (const OrtHardwareDevice *))                                                        \
  X(GetEpApi, 317, const void *, ())                                                                                   \
  X(GetTensorSizeInBytes, 318, OrtStatus *, (const OrtValue *, size_t *))                                              \
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
    (OrtEpGraphSupportInfo *, const OrtNode *const *, size_t, const OrtNodeFusionOptions *))

#define ORT_MODEL_EDITOR_API(X)                                                                                        \
  X(CreateNode, 6, OrtStatus *,                                                                                        \
    (const char *op, const char *domain, const char *name, const char *const *inputs, size_t, const char *const *outputs, \
     size_t, OrtOpAttr **attributes, size_t, OrtNode **))

// ---- what the provider fills in; a runtime reads as many members as the version says ---------------------------------
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
  void *later[16]; // members of later versions: none
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
  OrtStatus *(*CreateDataTransfer)(OrtEpFactory *, void **);
  bool (*IsStreamAware)(const OrtEpFactory *);
  OrtStatus *(*CreateSyncStreamForDevice)(OrtEpFactory *, const OrtMemoryDevice *, const OrtKeyValuePairs *, void **);
  void *later[16];
};
