#include "profile.h"

#ifdef __linux__
#include <sys/syscall.h>
#endif

namespace hip_ep {
namespace {

void add_text(Bytes &out, const char *text) {
  out.add("\"");
  for (; *text; text++)
    if (*text == '"' || *text == '\\')
      out.print("\\%c", *text);
    else if ((unsigned char)*text < 0x20)
      out.print("\\u%04x", (unsigned)*text);
    else
      out.add(text, 1);
  out.add("\"");
}

} // namespace

#ifndef _WIN32
int32_t thread_number() {
#ifdef __linux__
  return (int32_t)syscall(SYS_gettid);
#else
  uint64_t number = 0;
  pthread_threadid_np(nullptr, &number);
  return (int32_t)number;
#endif
}
#endif

struct Profile::Profiler : OrtEpProfiler, Heap {
  const Api *api;
  Profile *profile; // NULL: it is gone
};

Profile::~Profile() {
  if (profiler) profiler->profile = nullptr;
  for (size_t i = 0; i < count; i++) free(events[i].name);
  free(events);
}

Profile::Event *Profile::append(const char *name, int64_t begin, int64_t end) {
  if (count == capacity) {
    size_t wanted = capacity ? 2 * capacity : 1024;
    auto grown = (Event *)realloc(events, wanted * sizeof(Event));
    if (!grown) return nullptr;
    events = grown;
    capacity = wanted;
  }
  char *copy = (char *)malloc(strlen(name) + 1);
  if (!copy) return nullptr;
  strcpy(copy, name);
  events[count] = {copy, nullptr, begin, end, thread_number()};
  return events + count++;
}

void Profile::add(const char *node, int64_t begin, int64_t end, const hipc_event *inner, int64_t number) {
  Held held(lock);
  Event *whole = append(node, begin, end);
  const char *name = whole ? whole->name : "";
  for (int64_t i = 0; whole && i < number; i++) {
    Event *event = append(inner[i].place, inner[i].begin, inner[i].end);
    if (!event) return; // memory ran out: times are lost, and no run is
    event->node = name;
  }
}

OrtStatus *Profile::create_profiler(const Api &api, OrtEpProfiler **out) {
  *out = nullptr;
  if (!allowed || profiler || !api.since(25)) return nullptr;
  auto made = new Profiler();
  if (!made) return api.no_memory();
  made->ort_version_supported = 25;
  made->api = &api;
  made->profile = this;
  made->Release = [](OrtEpProfiler *self) {
    auto released = (Profiler *)self;
    if (released->profile) {
      released->profile->profiler = nullptr;
      released->profile->started = false;
    }
    delete released;
  };
  made->StartProfiling = [](OrtEpProfiler *self, int64_t since_start) {
    if (Profile *profile = ((Profiler *)self)->profile) {
      profile->start = now() - since_start;
      profile->started = true;
    }
    return (OrtStatus *)nullptr;
  };
  made->EndProfiling = [](OrtEpProfiler *self, OrtProfilingEvents *events) {
    auto asked = (Profiler *)self;
    return asked->profile ? asked->profile->hand_over(*asked->api, events) : nullptr;
  };
  profiler = made;
  *out = made;
  return nullptr;
}

// Operators go behind the nodes that ONNX Runtime has timed itself.
OrtStatus *Profile::hand_over(const Api &api, OrtProfilingEvents *out) {
  Held held(lock);
  started = false;
  for (size_t i = 0; i < count; i++) {
    const Event &event = events[i];
    if (!event.node || event.begin < start) continue;
    const char *keys[] = {"provider", "node"}, *values[] = {"HipExecutionProvider", event.node};
    OrtProfilingEvent *made = nullptr;
    int64_t begin = (event.begin - start) / 1000, length = (event.end - event.begin) / 1000;
    TRY(api.CreateProfilingEvent(ORT_KERNEL_EVENT, process_number(), event.thread, event.name, begin, length, keys, values, 2,
                                 &made));
    OrtStatus *status = api.ProfilingEventsContainer_AddEvents(out, &made, 1);
    api.ReleaseProfilingEvent(made);
    if (status) return status;
  }
  return nullptr;
}

bool Profile::write() const {
  Bytes text, part;
  int64_t first = count ? events[0].begin : 0;
  text.add("[");
  for (size_t i = 0; i < count; i++) {
    const Event &event = events[i];
    text.print("%s\n{\"cat\": \"%s\", \"pid\": %d, \"tid\": %d, \"ph\": \"X\", \"ts\": %.3f, \"dur\": %.3f, \"name\": ",
               i ? "," : "", event.node ? "Kernel" : "Node", process_number(), (int)event.thread,
               (double)(event.begin - first) / 1e3, (double)(event.end - event.begin) / 1e3);
    add_text(text, event.name);
    text.add(", \"args\": {");
    if (event.node) {
      text.add("\"node\": ");
      add_text(text, event.node);
    }
    text.add("}}");
  }
  text.add("\n]\n");
  part.print("%s.%d.partial", path.text(), process_number());
  FILE *file = text.failed || part.failed ? nullptr : fopen(part.text(), "wb");
  if (!file) return false;
  bool done = fwrite(text.data, 1, text.size, file) == text.size;
  done = !fclose(file) && done;
  if (done) done = !rename(part.text(), path.text());
  if (!done) remove(part.text());
  return done;
}

} // namespace hip_ep
