#include "provider.h"

#include "context_node.h"
#include "model_writer.h"

namespace hip_ep {
namespace {

void put(void *answer, const char *text, int64_t bytes) { ((Bytes *)answer)->add(text, (size_t)bytes); }

hip_ep_request request(const Api &api, const Settings &settings, const Bytes &model, Bytes &answer) {
  // Seen: 1.26.0 and older leave such values out, 1.27.0 has them.
  int32_t outer_values = api.major > 1 || api.minor >= 27;
  return {settings.pairs.text(), (int64_t)settings.pairs.size, model.data, (int64_t)model.size, outer_values, &answer, put};
}

const char *ep_name(const OrtEp *) { return EP_NAME; }

// Whether a node is another provider's.
OrtStatus *is_taken(const Api &api, const OrtNode *node, bool *taken) {
  const char *name = "";
  TRY(api.Node_GetEpName(node, &name));
  *taken = name && *name;
  return nullptr;
}

// Adds "Op (name)" to a list.
OrtStatus *title(const Api &api, const OrtNode *node, Bytes &list) {
  const char *op, *name;
  TRY(api.Node_GetOperatorType(node, &op));
  TRY(api.Node_GetName(node, &name));
  list.print("%s%s (%s)", list.size ? "; " : "", op, *name ? name : "unnamed");
  return nullptr;
}

// The graph of an If, Loop or Scan. Such a node is claimed whole or not at all, so nothing is claimed inside of it.
OrtStatus *is_subgraph(const Api &api, const OrtGraph *graph, bool *result) {
  const OrtNode *parent = nullptr;
  TRY(api.Graph_GetParentNode(graph, &parent));
  *result = parent;
  if (parent || api.major > 1 || api.minor > 23) return nullptr;
  // 1.23 does not tell the parent: what reads values of a graph around it has one, and so has what takes no inputs.
  size_t inputs = 0;
  TRY(api.Graph_GetNumInputs(graph, &inputs));
  *result = inputs == 0;
  Array<const OrtNode *> nodes;
  TRY(list(api, api.Graph_GetNumNodes, api.Graph_GetNodes, graph, nodes));
  for (const OrtNode *node : nodes) {
    Array<const OrtValueInfo *> values;
    TRY(list(api, api.Node_GetNumInputs, api.Node_GetInputs, node, values));
    for (const OrtValueInfo *value : values) {
      bool outer = false;
      if (value) TRY(api.ValueInfo_IsFromOuterScope(value, &outer));
      *result = *result || outer;
    }
  }
  return nullptr;
}

} // namespace

Provider::Provider(Factory &factory, const OrtLogger *logger)
    : OrtEp{}, factory(factory), api(*factory.api), logger(logger) {
  ort_version_supported = api.since(27) ? 27 : api.since(25) ? 25 : ORT_ABI;
  GetName = ep_name;
  GetCapability = get_capability;
  Compile = compile;
  ReleaseNodeComputeInfos = release_infos;
  GetCompiledModelCompatibilityInfo = [](OrtEp *, const OrtGraph *) { return compatibility(); };
  CreateProfiler = [](OrtEp *self, OrtEpProfiler **profiler) {
    auto provider = (Provider *)self;
    return provider->profile.create_profiler(provider->api, profiler);
  };
  // A session that was given several devices has its tensors on the one that its options choose.
  GetDefaultMemoryDevice = [](const OrtEp *self, const OrtMemoryDevice **device) {
    auto provider = (const Provider *)self;
    int gpu = provider->settings.gpu;
    *device = gpu < 0 ? nullptr : provider->api.MemoryInfo_GetMemoryDevice(provider->factory.memory[gpu][0]);
    return (OrtStatus *)nullptr;
  };
  CreateAllocator = [](OrtEp *self, const OrtMemoryInfo *info, OrtAllocator **allocator) {
    auto provider = (Provider *)self;
    return create_allocator(provider->factory, info, provider->settings.host_accessible_inputs, allocator);
  };
}

void Provider::take_profile_option() {
  profile.allowed = strcmp(settings.profile.text(), "0");
  if (!settings.profile.size || !profile.allowed || settings.trouble.size) return;
  profile.path.add(settings.profile.text());
  if (profile.write()) return;
  profile.path.clear();
  settings.trouble.print("HIPC0001: option profile: %s cannot be written", settings.profile.text());
}

Provider::~Provider() {
  if (!profile.path.size || profile.write()) return;
  Bytes line;
  line.print("the profile cannot be written to %s", profile.path.text());
  say(ORT_WARNING, line.text());
}

void Provider::say(int level, const char *text) {
  api.drop(api.Logger_LogMessage(logger, level, text, "hip-compiler", 0, EP_NAME));
}

// An error of this call would be taken as "nothing is supported": it is kept for the compilation to report.
OrtStatus *Provider::get_capability(OrtEp *self, const OrtGraph *graph, OrtEpGraphSupportInfo *support) {
  auto provider = (Provider *)self;
  const Api &api = provider->api;
  OrtStatus *status = provider->claim(graph, support);
  if (!status) return nullptr;
  provider->settings.trouble.add(api.GetErrorMessage(status));
  api.ReleaseStatus(status);
  Array<const OrtNode *> nodes;
  TRY(list(api, api.Graph_GetNumNodes, api.Graph_GetNodes, graph, nodes));
  return nodes.size ? provider->refuse(nodes, support) : nullptr;
}

OrtStatus *Provider::claim(const OrtGraph *graph, OrtEpGraphSupportInfo *support) {
  bool inside = false;
  TRY(is_subgraph(api, graph, &inside));
  Array<const OrtNode *> nodes;
  TRY(list(api, api.Graph_GetNumNodes, api.Graph_GetNodes, graph, nodes));
  if (inside || !nodes.size) return nullptr;
  if (settings.trouble.size) return refuse(nodes, support);
  size_t contexts = 0;
  TRY(claim_contexts(nodes, support, &contexts));
  if (!contexts) return ask_compiler(graph, nodes, support);
  Bytes left;
  for (const OrtNode *node : nodes)
    if (!is_context(api, node)) TRY(title(api, node, left));
  return report(contexts, nodes.size, left); // the compilation of what is claimed tells of trouble
}

// The line that says what is assigned and what stays; with strict=1 it is the trouble, where something stays.
OrtStatus *Provider::report(size_t assigned, size_t nodes, const Bytes &left) {
  Bytes line;
  line.print("assigned %zu/%zu nodes", assigned, nodes);
  if (left.size) line.add("; on CPU: ");
  line.add(left.text());
  if (assigned < nodes && settings.strict) {
    settings.trouble.add("HIPC0200: strict=1, but ");
    settings.trouble.add(line.text());
  } else {
    say(assigned < nodes ? ORT_WARNING : ORT_INFO, line.text());
  }
  return nullptr;
}

OrtStatus *Provider::claim_contexts(const Array<const OrtNode *> &nodes, OrtEpGraphSupportInfo *support, size_t *claimed) {
  for (const OrtNode *node : nodes)
    if (is_context(api, node)) {
      ++*claimed;
      TRY(fuse(support, &node, 1));
    }
  return nullptr;
}

OrtStatus *Provider::ask_compiler(const OrtGraph *graph, const Array<const OrtNode *> &nodes, OrtEpGraphSupportInfo *support) {
  const hip_ep_compiler *compiler = registered_compiler();
  if (!compiler)
    return leave(nodes, support, "this process has no compiler: in Python call hip_compiler.ort.register(); elsewhere load a "
                                 "model made by hip-compiler compile --ep-context");
  Bytes model, answer;
  TRY(write_model(api, graph, nullptr, model));
  Array<int32_t> groups;
  Array<const OrtNode *> members;
  if (!groups.resize(nodes.size) || !members.resize(nodes.size)) return api.no_memory();
  size_t assigned = 0, others = 0;
  for (size_t i = 0; i < nodes.size; i++) {
    bool taken = false;
    TRY(is_taken(api, nodes[i], &taken));
    groups[i] = taken ? -1 : 0;
    others += taken;
  }
  hip_ep_request asked = request(api, settings, model, answer);
  if (compiler->claim(&asked, (int64_t)nodes.size, groups.data)) {
    settings.trouble.add(answer.text(), answer.size);
    return refuse(nodes, support);
  }
  for (int32_t group : groups) assigned += group >= 0;
  TRY(report(assigned, nodes.size - others, answer));
  if (settings.trouble.size) return refuse(nodes, support);
  for (int32_t group = 0; group < (int32_t)nodes.size; group++) {
    size_t count = 0;
    for (size_t i = 0; i < nodes.size; i++)
      if (groups[i] == group) members[count++] = nodes[i];
    if (count) TRY(fuse(support, members.data, count));
  }
  return nullptr;
}

OrtStatus *Provider::fuse(OrtEpGraphSupportInfo *support, const OrtNode *const *nodes, size_t count) {
  OrtNodeFusionOptions options = {ORT_ABI, true};
  return api.EpGraphSupportInfo_AddNodesToFuse(support, nodes, count, &options);
}

// Leaves every node to the CPU, and says why.
OrtStatus *Provider::leave(const Array<const OrtNode *> &nodes, OrtEpGraphSupportInfo *support, const char *why) {
  if (settings.strict) {
    settings.trouble.print("HIPC0200: strict=1, but no node is assigned: %s", why);
    return refuse(nodes, support);
  }
  Bytes line;
  line.print("assigned 0/%zu nodes: %s", nodes.size, why);
  say(ORT_WARNING, line.text());
  return nullptr;
}

// For what cannot be: a node is claimed, whose compilation then fails with `settings.trouble`.
OrtStatus *Provider::refuse(const Array<const OrtNode *> &nodes, OrtEpGraphSupportInfo *support) {
  for (const OrtNode *node : nodes) {
    bool taken = false;
    TRY(is_taken(api, node, &taken));
    if (!taken) return fuse(support, &node, 1);
  }
  return nullptr; // another provider has them all, so that none of them is meant for this one
}

OrtStatus *Provider::compile(OrtEp *self, const OrtGraph **graphs, const OrtNode **fused, size_t count,
                             OrtNodeComputeInfo **infos, OrtNode **contexts) {
  auto provider = (Provider *)self;
  if (provider->settings.trouble.size) return provider->api.CreateStatus(ORT_FAIL, provider->settings.trouble.text());
  if (provider->profile.wanted()) provider->settings.add("keep times", "1");
  for (size_t i = 0; i < count; i++) {
    auto node = new FusedNode;
    if (!node) return provider->api.no_memory();
    infos[i] = node; // at once: the runtime gives it back also when the compilation fails
    TRY(node->prepare(provider->api, fused[i]));
    TRY(provider->compile_one(graphs[i], fused[i], *node, contexts ? contexts + i : nullptr));
  }
  return nullptr;
}

OrtStatus *Provider::compile_one(const OrtGraph *graph, const OrtNode *fused, FusedNode &node, OrtNode **context) {
  node.kv_share = settings.kv_share;
  node.profile = &profile;
  if (settings.gpu >= 0) {
    node.gpus = factory.gpus;
    node.gpu = settings.gpu;
  }
  Array<const OrtNode *> nodes;
  Bytes model, answer;
  TRY(list(api, api.Graph_GetNumNodes, api.Graph_GetNodes, graph, nodes));
  if (nodes.size == 1 && is_context(api, nodes[0])) {
    if (settings.pads)
      return api.CreateStatus(ORT_FAIL, "HIPC0001: option static_pad_prefill is for models that are compiled here, not before");
    NativeModel *loaded = nullptr;
    OrtStatus *status = load_context(api, settings, graph, nodes[0], &loaded);
    if (loaded) node.use(loaded);
    return status;
  }
  const hip_ep_compiler *compiler = registered_compiler();
  if (!compiler) return api.fail("hip-compiler: the compiler of this process is gone");
  TRY(write_model(api, graph, fused, model));
  hip_ep_request asked = request(api, settings, model, answer);
  bool linked = settings.context && context;
  if (linked && settings.pads)
    return api.CreateStatus(ORT_FAIL, "HIPC0001: option static_pad_prefill cannot be a part of a context model");
  int32_t failed = linked ? compiler->link(&asked, &node.linked) : compiler->compile(&asked, &node.program);
  if (failed) return api.CreateStatus(ORT_FAIL, answer.text());
  if (!linked) {
    node.share(answer.text());
    const char *padding = strchr(answer.text(), ';');
    return padding ? node.pad(padding + 1) : nullptr;
  }
  node.later.add(answer.text(), answer.size);
  node.placement = settings.placement;
  return make_context(api, settings, graph, fused, made_contexts++, answer.text(), context);
}

void Provider::release_infos(OrtEp *, OrtNodeComputeInfo **infos, size_t count) {
  for (size_t i = 0; i < count; i++) delete (FusedNode *)infos[i];
}

} // namespace hip_ep
