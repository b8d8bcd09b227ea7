#include "native_model.h"

#ifdef __linux__

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace hip_ep {
namespace {

constexpr char MARK[] = "HIPCSO01";
constexpr size_t TRAILER = 24;

struct Trailer {
  uint64_t start, length;
  char mark[8];
};
static_assert(sizeof(Trailer) == TRAILER);

bool read_at(int file, void *to, size_t bytes, uint64_t offset) {
  for (size_t done = 0; done < bytes;) {
    ssize_t got = pread(file, (char *)to + done, bytes - done, (off_t)(offset + done));
    if (got <= 0) return false;
    done += (size_t)got;
  }
  return true;
}

// Value of the line that starts with a key; the length of it. NULL when there is no such line.
const char *line_of(const Bytes &index, const char *key, size_t *length) {
  size_t width = strlen(key);
  for (const char *line = index.text(), *next; *line; line = next) {
    const char *end = strchr(line, '\n');
    next = end ? end + 1 : line + strlen(line);
    if (strncmp(line, key, width) || line[width] != ' ') continue;
    const char *value = line + width + 1;
    *length = (size_t)((end ? end : next) - value);
    return value;
  }
  return nullptr;
}

// The same, as text of its own; empty when there is no such line.
void value_of(const Bytes &index, const char *key, Bytes &out) {
  size_t length = 0;
  const char *value = line_of(index, key, &length);
  out.clear();
  out.add(value ? value : "", value ? length : 0);
}

// Whether version a is newer than version b.
bool newer(const char *a, const char *b) {
  for (;;) {
    long x = strtol(a, (char **)&a, 10), y = strtol(b, (char **)&b, 10);
    if (x != y) return x > y;
    if (*a != '.' && *b != '.') return false;
    a += *a == '.';
    b += *b == '.';
  }
}

bool has_word(const char *words, const char *word, size_t length) {
  for (const char *found = words; (found = strstr(found, word)); found += length) {
    bool begins = found == words || strchr(" \t:", found[-1]);
    if (begins && strchr(" \n", found[length])) return true;
  }
  return false;
}

// Words of `wanted` that are no instruction sets of this CPU.
void lacking_flags(const Bytes &wanted, Bytes &lacking) {
  Bytes machine;
  FILE *info = fopen("/proc/cpuinfo", "r");
  char *line = nullptr;
  size_t capacity = 0;
  while (info && getline(&line, &capacity, info) > 0)
    if (!strncmp(line, "flags", 5) || !strncmp(line, "Features", 8)) {
      machine.add(line);
      break;
    }
  free(line);
  if (info) fclose(info);
  char word[64];
  for (const char *at = wanted.text(); *at;) {
    size_t length = strcspn(at, " ");
    if (length && length < sizeof word) {
      memcpy(word, at, length);
      word[length] = 0;
      if (!has_word(machine.text(), word, length)) lacking.print("%s%s", lacking.size ? ", " : "", word);
    }
    at += length + (at[length] == ' ');
  }
}

// A sentence when what the index says does not fit this library or machine.
bool fits(const Bytes &index, const char *target, Bytes &why) {
  Bytes value;
  value_of(index, "abi", value);
  if (atoi(value.text()) != HIPC_ABI_VERSION) {
    why.print("it has runtime ABI version %s, this provider has %d", value.text(), HIPC_ABI_VERSION);
    return false;
  }
  value_of(index, "version", value);
  if (newer(value.text(), HIP_EP_VERSION)) {
    why.print("it was made by hip-compiler %s, this provider is of %s", value.text(), HIP_EP_VERSION);
    return false;
  }
  value_of(index, "target", value);
  if (*target && strcmp(value.text(), target)) {
    why.print("it was compiled for target '%s', the session asks for '%s'", value.text(), target);
    return false;
  }
  struct utsname machine;
  uname(&machine);
  value_of(index, "architecture", value);
  if (strcmp(value.text(), machine.machine)) {
    why.print("it is for %s, this machine is %s", value.text(), machine.machine);
    return false;
  }
  Bytes lacking, cpu;
  value_of(index, "flags", value);
  value_of(index, "cpu", cpu);
  lacking_flags(value, lacking);
  if (lacking.size) why.print("it was compiled for CPU %s, this one lacks %s", cpu.text(), lacking.text());
  return !lacking.size;
}

} // namespace

NativeModel::~NativeModel() {
  if (cleanup && state) cleanup(state);
  if (library) dlclose(library);
  while (mappings) {
    Mapping *mapping = mappings;
    mappings = mapping->next;
    munmap(mapping->memory, mapping->size);
    free(mapping);
  }
  if (file >= 0) close(file);
}

bool NativeModel::open_file(const char *path, const char *target, const hipc_fs &placement, Bytes &why) {
  file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    why.print("%s cannot be opened: %s", path, strerror(errno));
    return false;
  }
  return load(target, placement, why);
}

bool NativeModel::open_memory(const char *data, size_t size, const char *target, const hipc_fs &placement, Bytes &why) {
  file = (int)syscall(SYS_memfd_create, "hip-compiler-model", 1u /* close on exec */);
  for (size_t done = 0; file >= 0 && done < size;) {
    ssize_t written = write(file, data + done, size - done);
    if (written <= 0) {
      why.print("it cannot be copied into memory: %s", strerror(errno));
      return false;
    }
    done += (size_t)written;
  }
  if (file < 0) {
    why.print("there is no memory for it: %s", strerror(errno));
    return false;
  }
  return load(target, placement, why);
}

bool NativeModel::load(const char *target, const hipc_fs &placement, Bytes &why) {
  if (!read_index(index, why) || !fits(index, target, why)) return false;
  // The name of an open file is nobody else's: the loader knows libraries by their names.
  char name[64];
  snprintf(name, sizeof name, "/proc/self/fd/%d", file);
  library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    why.print("the system's loader refuses it: %s", dlerror());
    return false;
  }
  auto init = (int32_t(*)(void **, const hipc_fs *))dlsym(library, "inference_init");
  compute = (int32_t(*)(void *, const hipc_io *))dlsym(library, "inference_compute");
  cleanup = (void (*)(void *))dlsym(library, "inference_cleanup");
  last_error = (const char *(*)(void *))dlsym(library, "inference_last_error");
  events = (const hipc_event *(*)(void *, int64_t *))dlsym(library, "hipc_events");
  if (!init || !compute || !cleanup || !last_error) {
    why.print("it lacks an entry point of the runtime ABI");
    return false;
  }
  hipc_fs files = placement;
  files.self = this;
  files.map = map;
  int32_t status = init(&state, &files);
  if (status) why.print("it cannot be initialised: %s", state ? last_error(state) : "memory ran out");
  return !status;
}

void NativeModel::shared(Bytes &out) const { value_of(index, "shared", out); }

bool NativeModel::read_index(Bytes &out, Bytes &why) {
  struct stat status;
  Trailer end;
  bool whole = !fstat(file, &status) && (size_t)status.st_size > TRAILER &&
               read_at(file, &end, TRAILER, (uint64_t)status.st_size - TRAILER) && !memcmp(end.mark, MARK, sizeof end.mark) &&
               end.length < (1 << 20) && end.start + end.length + TRAILER == (uint64_t)status.st_size;
  Array<char> text;
  if (whole) whole = text.resize((size_t)end.length + 1) && read_at(file, text.data, (size_t)end.length, end.start);
  if (!whole) {
    why.print("it is no native artifact of hip-compiler, or damaged");
    return false;
  }
  out.add(text.data, (size_t)end.length);
  return !out.failed;
}

bool NativeModel::find(const char *name, int64_t *offset, int64_t *size) const {
  char key[256];
  snprintf(key, sizeof key, "file %s", name);
  size_t length = 0;
  const char *place = line_of(index, key, &length);
  long long start, bytes;
  if (!place || sscanf(place, "%lld %lld", &start, &bytes) != 2) return false;
  *offset = start;
  *size = bytes;
  return true;
}

const void *NativeModel::map(void *self, const char *name, int64_t *size) {
  auto model = (NativeModel *)self;
  int64_t offset = 0;
  if (!model->find(name, &offset, size) || *size <= 0) return nullptr;
  void *memory = mmap(nullptr, (size_t)*size, PROT_READ, MAP_PRIVATE, model->file, (off_t)offset);
  if (memory == MAP_FAILED) return nullptr;
  auto mapping = (Mapping *)malloc(sizeof(Mapping));
  if (!mapping) {
    munmap(memory, (size_t)*size);
    return nullptr;
  }
  *mapping = {memory, (size_t)*size, model->mappings};
  model->mappings = mapping;
  return memory;
}

} // namespace hip_ep

#else

namespace hip_ep {

NativeModel::~NativeModel() {}
bool NativeModel::open_file(const char *, const char *, const hipc_fs &, Bytes &why) { return why.add("this is not Linux"), false; }
bool NativeModel::open_memory(const char *, size_t, const char *, const hipc_fs &, Bytes &why) {
  return why.add("this is not Linux"), false;
}
void NativeModel::shared(Bytes &) const {}

} // namespace hip_ep

#endif
