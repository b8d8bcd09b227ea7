#include "context_node.h"

#include <errno.h>

#include "system.h"

namespace hip_ep {
namespace {

constexpr char DOMAIN[] = "com.microsoft";
constexpr char OPERATOR[] = "EPContext";
constexpr size_t MAX_EMBEDDED = 1900u << 20; // protocol buffers end at 2 GiB

// An attribute as text; absent: empty.
OrtStatus *read_attribute(const Api &api, const OrtNode *node, const char *wanted, int type, Bytes &out) {
  Array<const OrtOpAttr *> attributes;
  TRY(list(api, api.Node_GetNumAttributes, api.Node_GetAttributes, node, attributes));
  for (const OrtOpAttr *attribute : attributes) {
    const char *name;
    TRY(api.OpAttr_GetName(attribute, &name));
    if (strcmp(name, wanted)) continue;
    size_t bytes = 0;
    api.drop(api.ReadOpAttr(attribute, type, nullptr, 0, &bytes)); // this call only tells the size
    Array<char> contents;
    if (!contents.resize(bytes + 1)) return api.no_memory();
    if (bytes) TRY(api.ReadOpAttr(attribute, type, contents.data, bytes, &bytes));
    out.add(contents.data, bytes);
    return out.failed ? api.no_memory() : nullptr;
  }
  return nullptr;
}

// Folder of the context model: that of its file, or of the path that the session says it has.
OrtStatus *context_folder(const Api &api, const Settings &settings, const OrtGraph *graph, bool writing, Bytes &out) {
  const char *model = "";
  TRY(api.Graph_GetModelPath(graph, &model));
  const char *path = settings.context_path.size && (writing || !*model) ? settings.context_path.text() : model;
  const char *slash = strrchr(path, '/');
  if (slash)
    out.add(path, (size_t)(slash - path));
  else
    out.add(".");
  return out.failed ? api.no_memory() : nullptr;
}

// Name of the context model without its folder and suffix.
OrtStatus *context_stem(const Api &api, const Settings &settings, const OrtGraph *graph, Bytes &out) {
  const char *path = settings.context_path.text();
  if (!*path) TRY(api.Graph_GetModelPath(graph, &path));
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
  size_t length = dot ? (size_t)(dot - name) : strlen(name);
  if (length)
    out.add(name, length);
  else
    out.add("model");
  if (!settings.context_path.size) out.add("_ctx");
  return nullptr;
}

bool copy(FILE *from, FILE *to) {
  Array<char> block;
  if (!block.resize(1 << 20)) return false;
  while (size_t got = fread(block.data, 1, block.size, from))
    if (fwrite(block.data, 1, got, to) != got) return false;
  return !ferror(from);
}

// Copies a file under a private name that is renamed once it is whole.
OrtStatus *copy_file(const Api &api, const char *from, const char *to) {
  Bytes part;
  part.print("%s.%d.partial", to, process_number());
  FILE *in = fopen(from, "rb"), *out = fopen(part.text(), "wb");
  bool done = in && out && copy(in, out);
  if (in) fclose(in);
  if (out) done = !fclose(out) && done;
  if (done && !rename(part.text(), to)) return nullptr;
  OrtStatus *status = api.fail("hip-compiler: the native artifact cannot be written to %s: %s", to, strerror(errno));
  remove(part.text());
  return status;
}

OrtStatus *read_file(const Api &api, const char *path, Array<char> &out, size_t *size) {
  FILE *file = fopen(path, "rb");
  bool done = file && !fseek(file, 0, SEEK_END);
  long length = done ? ftell(file) : -1;
  done = length >= 0 && !fseek(file, 0, SEEK_SET);
  if (done && (size_t)length > MAX_EMBEDDED) {
    fclose(file);
    return api.fail("hip-compiler: the compiled model has %ld bytes, which cannot be embedded; "
                    "set ep.context_embed_mode=0", length);
  }
  *size = done ? (size_t)length : 0;
  done = done && out.resize(*size) && fread(out.data, 1, *size, file) == *size;
  if (file) fclose(file);
  return done ? nullptr : api.fail("hip-compiler: %s cannot be read: %s", path, strerror(errno));
}

// Names of inputs or outputs of a node.
OrtStatus *names_of(const Api &api, const Array<const OrtValueInfo *> &infos, Array<const char *> &names) {
  if (!names.resize(infos.size)) return api.no_memory();
  for (size_t i = 0; i < infos.size; i++) {
    names[i] = "";
    if (infos[i]) TRY(api.GetValueInfoName(infos[i], &names[i]));
  }
  return nullptr;
}

// Attributes of a node that is being made.
struct Attributes {
  const Api &api;
  OrtOpAttr *made[8] = {};
  size_t count = 0;

  ~Attributes() {
    for (OrtOpAttr *attribute : made)
      if (attribute) api.ReleaseOpAttr(attribute);
  }
  OrtStatus *text(const char *name, const char *value, size_t size) {
    return api.CreateOpAttr(name, value, (int)size, ORT_STRING, &made[count++]);
  }
  OrtStatus *integer(const char *name, int64_t value) {
    return api.CreateOpAttr(name, &value, 1, ORT_INT, &made[count++]);
  }
};

} // namespace

bool is_context(const Api &api, const OrtNode *node) {
  const char *op = "", *domain = "";
  api.drop(api.Node_GetOperatorType(node, &op));
  api.drop(api.Node_GetDomain(node, &domain));
  if (strcmp(op, OPERATOR) || strcmp(domain, DOMAIN)) return false;
  Bytes source;
  api.drop(read_attribute(api, node, "source", ORT_STRING, source));
  return !strcmp(source.text(), EP_NAME);
}

OrtStatus *make_context(const Api &api, const Settings &settings, const OrtGraph *graph, const OrtNode *fused, size_t number,
                        const char *path, OrtNode **made) {
  if (!NativeModel::LOADS) return api.fail("HIPC0200: context models are made on Linux");
  Array<const OrtValueInfo *> infos;
  Array<const char *> inputs, outputs;
  TRY(list(api, api.Node_GetNumInputs, api.Node_GetInputs, fused, infos));
  TRY(names_of(api, infos, inputs));
  TRY(list(api, api.Node_GetNumOutputs, api.Node_GetOutputs, fused, infos));
  TRY(names_of(api, infos, outputs));
  const char *name;
  TRY(api.Node_GetName(fused, &name));
  Attributes attributes{api};
  TRY(attributes.integer("main_context", 1));
  TRY(attributes.integer("embed_mode", settings.embed));
  TRY(attributes.text("source", EP_NAME, strlen(EP_NAME)));
  TRY(attributes.text("partition_name", name, strlen(name)));
  TRY(attributes.text("ep_sdk_version", HIP_EP_VERSION, strlen(HIP_EP_VERSION)));
  if (settings.embed) {
    Array<char> contents;
    size_t size = 0;
    TRY(read_file(api, path, contents, &size));
    TRY(attributes.text("ep_cache_context", contents.data, size));
  } else {
    Bytes target, file;
    TRY(context_folder(api, settings, graph, true, target));
    TRY(context_stem(api, settings, graph, file));
    file.print("_%zu.so", number);
    target.print("/%s", file.text());
    TRY(copy_file(api, path, target.text()));
    TRY(attributes.text("ep_cache_context", file.text(), file.size));
  }
  return api.CreateNode(OPERATOR, DOMAIN, name, inputs.data, inputs.size, outputs.data, outputs.size, attributes.made,
                        attributes.count, made);
}

OrtStatus *load_context(const Api &api, const Settings &settings, const OrtGraph *graph, const OrtNode *node,
                        NativeModel **loaded) {
  if (!NativeModel::LOADS) return api.fail("HIPC0601: compiled models are native artifacts of Linux, which this system cannot load");
  Bytes mode, contents, path, why;
  TRY(read_attribute(api, node, "embed_mode", ORT_INT, mode));
  TRY(read_attribute(api, node, "ep_cache_context", ORT_STRING, contents));
  int64_t embedded = 1; // what the operator says when the attribute is absent
  if (mode.size == sizeof embedded) memcpy(&embedded, mode.data, sizeof embedded);
  *loaded = new NativeModel;
  if (!*loaded) return api.no_memory();
  const char *name;
  TRY(api.Node_GetName(node, &name));
  if (embedded) {
    if ((*loaded)->open_memory(contents.text(), contents.size, settings.target.text(), settings.placement, why))
      return nullptr;
    return api.fail("HIPC0601: the compiled model in node '%s' does not load: %s", name, why.text());
  }
  if (!contents.size || contents.text()[0] == '/' || strstr(contents.text(), ".."))
    return api.fail("HIPC0600: node '%s' names '%s', which is no file beside the model", name, contents.text());
  TRY(context_folder(api, settings, graph, false, path));
  path.print("/%s", contents.text());
  if ((*loaded)->open_file(path.text(), settings.target.text(), settings.placement, why)) return nullptr;
  return api.fail("HIPC0601: the compiled model %s does not load: %s", path.text(), why.text());
}

} // namespace hip_ep
