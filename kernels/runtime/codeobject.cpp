// Reads from an AMDGPU code object how the arguments of a kernel lie: the note NT_AMDGPU_METADATA, which is MessagePack
// (LLVM's "User Guide for AMDGPU Backend", "Code Object V3 and Above Metadata").
#include "gpu_context.h"

using namespace hipc;

namespace {

// A reader of MessagePack that fails for good at the first thing it does not expect.
struct Reader {
  const uint8_t *at, *end;
  bool failed = false;

  bool has(uint64_t count) {
    if ((uint64_t)(end - at) < count) failed = true;
    return !failed;
  }
  uint64_t big_endian(int count) {
    uint64_t value = 0;
    if (!has((uint64_t)count)) return 0;
    for (int i = 0; i < count; i++) value = value << 8 | *at++;
    return value;
  }
  // The head of the next value: its kind and its length or value.
  enum Kind { INTEGER, TEXT, ARRAY, MAP, OTHER };
  Kind head(uint64_t *value) {
    if (!has(1)) return OTHER;
    uint8_t tag = *at++;
    *value = 0;
    if (tag < 0x80 || tag >= 0xe0) return *value = tag, INTEGER;
    if (tag < 0x90) return *value = tag & 15, MAP;
    if (tag < 0xa0) return *value = tag & 15, ARRAY;
    if (tag < 0xc0) return *value = tag & 31, TEXT;
    switch (tag) {
    case 0xc0: case 0xc2: case 0xc3: return OTHER;
    case 0xc4: case 0xd9: return *value = big_endian(1), TEXT;
    case 0xc5: case 0xda: return *value = big_endian(2), TEXT;
    case 0xc6: case 0xdb: return *value = big_endian(4), TEXT;
    case 0xca: at += has(4) ? 4 : 0; return OTHER;
    case 0xcb: at += has(8) ? 8 : 0; return OTHER;
    case 0xcc: case 0xd0: return *value = big_endian(1), INTEGER;
    case 0xcd: case 0xd1: return *value = big_endian(2), INTEGER;
    case 0xce: case 0xd2: return *value = big_endian(4), INTEGER;
    case 0xcf: case 0xd3: return *value = big_endian(8), INTEGER;
    case 0xdc: return *value = big_endian(2), ARRAY;
    case 0xdd: return *value = big_endian(4), ARRAY;
    case 0xde: return *value = big_endian(2), MAP;
    case 0xdf: return *value = big_endian(4), MAP;
    default: failed = true; return OTHER;
    }
  }
  void skip() {
    // One for every value that is still to come.
    for (uint64_t left = 1; left && !failed; left--) {
      uint64_t value;
      switch (head(&value)) {
      case TEXT: at += has(value) ? value : 0; break;
      case ARRAY: left += value; break;
      case MAP: left += 2 * value; break;
      default: break;
      }
    }
  }
  uint64_t expect(Kind kind) {
    uint64_t value;
    if (head(&value) != kind) failed = true;
    return failed ? 0 : value;
  }
  // The next value is a text: whether it is this one.
  struct Word {
    const char *start;
    uint64_t size;
    bool is(const char *other) const { return strlen(other) == size && !memcmp(start, other, size); }
    bool begins(const char *other) const { return strlen(other) <= size && !memcmp(start, other, strlen(other)); }
  };
  Word text() {
    uint64_t size = expect(TEXT);
    Word word{(const char *)at, size};
    if (has(size)) at += size;
    else word.size = 0;
    return word;
  }
};

void read_argument(Reader &reader, Parameters *parameters) {
  uint64_t offset = 0, size = 0;
  bool hidden = false;
  for (uint64_t i = reader.expect(Reader::MAP); i && !reader.failed; i--) {
    Reader::Word key = reader.text();
    if (key.is(".offset")) offset = reader.expect(Reader::INTEGER);
    else if (key.is(".size")) size = reader.expect(Reader::INTEGER);
    else if (key.is(".value_kind")) hidden = reader.text().begins("hidden_");
    else reader.skip();
  }
  if (hidden || reader.failed) return;
  if (parameters->count == MAX_ARGUMENTS) {
    reader.failed = true;
    return;
  }
  parameters->offsets[parameters->count] = (uint32_t)offset;
  parameters->sizes[parameters->count++] = (uint32_t)size;
  parameters->bytes = max(parameters->bytes, (int64_t)(offset + size));
}

// The next value is the map of one kernel: true, when it is the one.
bool read_kernel(Reader &reader, const char *kernel, Parameters *parameters) {
  bool found = false;
  *parameters = Parameters{};
  for (uint64_t i = reader.expect(Reader::MAP); i && !reader.failed; i--) {
    Reader::Word key = reader.text();
    if (key.is(".name")) {
      found = reader.text().is(kernel);
    } else if (key.is(".args")) {
      for (uint64_t left = reader.expect(Reader::ARRAY); left && !reader.failed; left--) read_argument(reader, parameters);
    } else {
      reader.skip();
    }
  }
  return found && !reader.failed;
}

bool read_metadata(Reader reader, const char *kernel, Parameters *parameters) {
  for (uint64_t i = reader.expect(Reader::MAP); i && !reader.failed; i--) {
    if (!reader.text().is("amdhsa.kernels")) {
      reader.skip();
      continue;
    }
    for (uint64_t left = reader.expect(Reader::ARRAY); left && !reader.failed; left--)
      if (read_kernel(reader, kernel, parameters)) return true;
    return false;
  }
  return false;
}

template <class T> T load(const uint8_t *from) {
  T value;
  memcpy(&value, from, sizeof value);
  return value;
}

} // namespace

bool hipc::read_parameters(const void *image, int64_t bytes, const char *kernel, Parameters *parameters) {
  const uint8_t *file = (const uint8_t *)image, *end = file + bytes;
  if (bytes < 64 || memcmp(file, "\177ELF\2\1", 6)) return false;
  uint64_t sections = load<uint64_t>(file + 40);
  uint16_t size = load<uint16_t>(file + 58), count = load<uint16_t>(file + 60);
  if (size < 64 || sections > (uint64_t)bytes || (uint64_t)size * count > (uint64_t)bytes - sections) return false;
  for (uint16_t i = 0; i < count; i++) {
    const uint8_t *section = file + sections + (uint64_t)i * size;
    constexpr uint32_t NOTES = 7, METADATA = 32;
    if (load<uint32_t>(section + 4) != NOTES) continue;
    uint64_t offset = load<uint64_t>(section + 24), length = load<uint64_t>(section + 32);
    if (offset > (uint64_t)bytes || length > (uint64_t)bytes - offset) return false;
    const uint8_t *note = file + offset, *last = note + length;
    while (last - note >= 12) {
      uint64_t name = (load<uint32_t>(note) + 3u) & ~3ull, content = load<uint32_t>(note + 4);
      if ((uint64_t)(last - note) < 12 + name + content) return false;
      const uint8_t *start = note + 12 + name;
      // There is one for every object that the code object was linked from.
      if (load<uint32_t>(note + 8) == METADATA && !memcmp(note + 12, "AMDGPU", 7) &&
          read_metadata(Reader{start, start + content}, kernel, parameters))
        return true;
      note = start + ((content + 3) & ~3ull);
      if (note > end) return false;
    }
  }
  return false;
}
