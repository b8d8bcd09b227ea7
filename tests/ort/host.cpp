// A program without Python: loads ONNX Runtime and the provider, runs a model with one input and one output of float.
// Arguments: libonnxruntime, libhip_ep.so, the model, input name, output name, extents ("2x64"), number of runs. The
// input is read from standard input; the output goes to standard output.
#include "client.h"

int main(int, char **words) {
  void *environment = nullptr, *options = nullptr, *session = nullptr, *memory = nullptr;
  const OrtEpDevice *mine = open_provider(words[1], words[2], &environment);
  size_t count = 0;
  check(call<OrtStatus *>(10, &options));
  check(call<OrtStatus *>(304, options, environment, (const OrtEpDevice *const *)&mine, (size_t)1, (const char *const *)nullptr,
                          (const char *const *)nullptr, (size_t)0));
  check(call<OrtStatus *>(7, (const void *)environment, (const char *)words[3], (const void *)options, &session));
  int64_t shape[8], elements = 1;
  size_t rank = 0;
  for (char *at = words[6]; *at; at += *at == 'x') elements *= shape[rank++] = strtoll(at, &at, 10);
  auto data = (float *)calloc((size_t)elements, sizeof(float));
  if (fread(data, sizeof(float), (size_t)elements, stdin) != (size_t)elements) return 1;
  check(call<OrtStatus *>(69, (int)0, (int)0, &memory));
  OrtValue *input = nullptr, *output = nullptr;
  check(call<OrtStatus *>(49, (const void *)memory, (void *)data, (size_t)elements * sizeof(float), (const int64_t *)shape, rank,
                          (int)1, &input));
  const char *inputs[] = {words[4]}, *outputs[] = {words[5]};
  for (int run = atoi(words[7]); run > 0; run--) {
    if (output) call<void>(96, output);
    output = nullptr;
    check(call<OrtStatus *>(9, session, (const void *)nullptr, (const char *const *)inputs, (const OrtValue *const *)&input,
                            (size_t)1, (const char *const *)outputs, (size_t)1, &output));
  }
  void *result = nullptr;
  OrtTensorTypeAndShapeInfo *info = nullptr;
  check(call<OrtStatus *>(65, (const OrtValue *)output, &info));
  check(call<OrtStatus *>(64, (const OrtTensorTypeAndShapeInfo *)info, &count));
  check(call<OrtStatus *>(51, output, &result));
  fwrite(result, sizeof(float), count, stdout);
  call<void>(99, info);
  call<void>(96, input);
  call<void>(96, output);
  call<void>(94, memory);
  call<void>(95, session);
  call<void>(100, options);
  check(call<OrtStatus *>(302, environment, (const char *)"hip"));
  call<void>(92, environment);
  free(data);
  return 0;
}
