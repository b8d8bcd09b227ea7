#include "settings.h"

#include <ctype.h>

namespace hip_ep {
namespace {

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

OrtStatus *Settings::read(const Api &api, const OrtSessionOptions *options) {
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
  return nullptr;
}

void Settings::take(const char *key, const char *value) {
  if (!is_known(key)) {
    trouble.print("HIPC0001: there is no option '%s'; options: ", key);
    for (const char *option : OPTIONS) trouble.print("%s%s", option == OPTIONS[0] ? "" : ", ", option);
    return;
  }
  pairs.add(key, strlen(key) + 1);
  pairs.add(value, strlen(value) + 1);
  if (!strcmp(key, "strict")) strict = is_true(value);
  if (!strcmp(key, "kv_share")) kv_share = is_true(value);
  if (!strcmp(key, "num_threads")) placement.num_threads = atoi(value);
  if (!strcmp(key, "device_id")) placement.device_id = atoi(value);
  if (!strcmp(key, "graph_capture")) placement.graph_capture = is_true(value);
  if (!strcmp(key, "target")) target.add(value);
}

} // namespace hip_ep
