#include "settings.h"

#include <ctype.h>

namespace hip_ep {
namespace {

// What the compiler is told beside the options: the architecture of the session's GPU. No option can have such a name.
constexpr char SELECTED_ARCHITECTURE[] = "selected architecture";

bool is_true(const char *value) { return !strcmp(value, "1") || !strcmp(value, "true") || !strcmp(value, "True"); }

bool is_known(const char *key) {
  for (const char *option : OPTIONS)
    if (!strcmp(option, key)) return true;
  return false;
}

// The rest of an entry's key behind "ep.<provider in lower case>.", or NULL.
const char *own_key(const char *key) {
  if (strncmp(key, "ep.", 3)) return nullptr;
  key += 3;
  for (const char *name = EP_NAME; *name; name++, key++)
    if (*key != (char)tolower(*name)) return nullptr;
  return *key == '.' ? key + 1 : nullptr;
}

} // namespace

OrtStatus *Settings::read(Factory &factory, const OrtSessionOptions *options, const Selection &selection) {
  const Api &api = *factory.api;
  OrtKeyValuePairs *entries = nullptr;
  const char *const *keys, *const *values;
  size_t count = 0;
  TRY(api.GetSessionOptionsConfigEntries(options, &entries));
  api.GetKeyValuePairs(entries, &keys, &values, &count);
  for (size_t i = 0; i < count; i++) {
    if (const char *key = own_key(keys[i])) take(key, values[i]);
    if (!strcmp(keys[i], "ep.context_enable")) context = is_true(values[i]);
    if (!strcmp(keys[i], "ep.context_embed_mode")) embed = is_true(values[i]);
    if (!strcmp(keys[i], "ep.context_file_path")) context_path.add(values[i]);
  }
  api.ReleaseKeyValuePairs(entries);
  choose(factory, selection);
  return nullptr;
}

// The GPU of the session is the device that it was given; options choose where it was given several.
void Settings::choose(const Factory &factory, const Selection &selection) {
  if (trouble.size) return;
  if (!selection.count) {
    // Tensors stay on the host. Which GPU runs is never a guess; a context that is only made needs none.
    bool for_gpu = target.size && strcmp(target.text(), "host") && !context;
    if (for_gpu && !has_device && factory.gpus && factory.gpus->count > 1)
      trouble.print("HIPC0001: this machine has %d GPUs: option device_id, or the device that the session is given, chooses "
                    "one", factory.gpus->count);
    return;
  }
  bool wants_host = target.size ? !strcmp(target.text(), "host") : selection.host;
  if (wants_host) {
    if (!selection.host)
      trouble.print("HIPC0001: the session was given GPU %d, and target=host: give it the device of the CPU, or leave the "
                    "target out", selection.gpus[0]);
    return;
  }
  for (size_t i = 0; i < selection.count; i++)
    if (has_device ? selection.gpus[i] == placement.device_id : selection.count == 1) gpu = selection.gpus[i];
  if (gpu < 0) {
    trouble.print("HIPC0001: the session was given ");
    for (size_t i = 0; i < selection.count; i++) trouble.print("%sGPU %d", i ? ", " : "", selection.gpus[i]);
    if (has_device)
      trouble.print(", and option device_id is %d", placement.device_id);
    else
      trouble.print(": option device_id chooses one");
    return;
  }
  placement.device_id = gpu;
  char number[16];
  snprintf(number, sizeof number, "%d", gpu);
  if (!has_device) add("device_id", number);
  if (!target.size) {
    target.add("amdgpu");
    add("target", "amdgpu");
  }
  add(SELECTED_ARCHITECTURE, factory.gpus->list[gpu].architecture);
}

void Settings::add(const char *key, const char *value) {
  pairs.add(key, strlen(key) + 1);
  pairs.add(value, strlen(value) + 1);
}

void Settings::take(const char *key, const char *value) {
  if (!is_known(key)) {
    trouble.print("HIPC0001: there is no option '%s'; options: ", key);
    for (const char *option : OPTIONS) trouble.print("%s%s", option == OPTIONS[0] ? "" : ", ", option);
    return;
  }
  add(key, value);
  if (!strcmp(key, "strict")) strict = is_true(value);
  if (!strcmp(key, "kv_share")) kv_share = is_true(value);
  if (!strcmp(key, "num_threads")) placement.num_threads = atoi(value);
  if (!strcmp(key, "device_id")) {
    placement.device_id = atoi(value);
    has_device = true;
  }
  if (!strcmp(key, "host_accessible_inputs")) host_accessible_inputs = is_true(value);
  if (!strcmp(key, "graph_capture")) placement.graph_capture = is_true(value);
  if (!strcmp(key, "static_pad_prefill")) pads = atoi(value) > 0;
  if (!strcmp(key, "target")) target.add(value);
  if (!strcmp(key, "profile")) profile.add(value);
}

} // namespace hip_ep
