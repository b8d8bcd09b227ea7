// The provider of one session.
#pragma once
#include "compiler.h"
#include "fused_node.h"
#include "settings.h"

namespace hip_ep {

class Provider : public OrtEp, public Heap {
public:
  Provider(Factory &factory, const OrtLogger *logger);

  Settings settings;
  Profile profile;

  ~Provider();
  // The option `profile`: 0, or the path of a file, which must be one that can be written.
  void take_profile_option();

private:
  static OrtStatus *get_capability(OrtEp *, const OrtGraph *, OrtEpGraphSupportInfo *);
  static OrtStatus *compile(OrtEp *, const OrtGraph **, const OrtNode **, size_t, OrtNodeComputeInfo **, OrtNode **);
  static void release_infos(OrtEp *, OrtNodeComputeInfo **, size_t);

  OrtStatus *claim(const OrtGraph *graph, OrtEpGraphSupportInfo *support);
  OrtStatus *claim_contexts(const Array<const OrtNode *> &nodes, OrtEpGraphSupportInfo *support, size_t *claimed);
  OrtStatus *ask_compiler(const OrtGraph *graph, const Array<const OrtNode *> &nodes, OrtEpGraphSupportInfo *support);
  OrtStatus *fuse(OrtEpGraphSupportInfo *support, const OrtNode *const *nodes, size_t count);
  OrtStatus *report(size_t assigned, size_t nodes, const Bytes &left);
  OrtStatus *leave(const Array<const OrtNode *> &nodes, OrtEpGraphSupportInfo *support, const char *why);
  OrtStatus *refuse(const Array<const OrtNode *> &nodes, OrtEpGraphSupportInfo *support);
  OrtStatus *compile_one(const OrtGraph *graph, const OrtNode *fused, FusedNode &node, OrtNode **context);
  void say(int level, const char *text);

  Factory &factory;
  const Api &api;
  const OrtLogger *logger;
  size_t made_contexts = 0;
};

// What `GetCompiledModelCompatibilityInfo` says of the models that this library makes.
const char *compatibility();

} // namespace hip_ep
