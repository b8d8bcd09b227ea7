// Writes protocol buffers: https://protobuf.dev/programming-guides/encoding
#pragma once
#include "support.h"

namespace hip_ep {

class Message {
public:
  explicit Message(Bytes &out) : out(out) {}

  void integer(int field, int64_t value) {
    key(field, 0);
    varint((uint64_t)value);
  }
  void real(int field, float value) {
    key(field, 5);
    out.add(&value, sizeof value);
  }
  void bytes(int field, const void *data, size_t size) {
    key(field, 2);
    varint(size);
    out.add(data, size);
  }
  void text(int field, const char *value) { bytes(field, value, strlen(value)); }

  // A message inside of this one. Its length takes five bytes, whatever it is, since they are written last.
  size_t open(int field) {
    key(field, 2);
    out.add("\0\0\0\0\0", 5);
    return out.size;
  }
  void close(size_t start) {
    uint64_t length = out.size - start;
    if (length >> 35) out.failed = true;
    if (out.failed) return;
    for (int i = 0; i < 5; i++) out.data[start - 5 + (size_t)i] = (char)(((length >> (7 * i)) & 127) | (i < 4 ? 128 : 0));
  }

private:
  void key(int field, int wire) { varint((uint64_t)field << 3 | (uint64_t)wire); }
  void varint(uint64_t value) {
    for (; value > 127; value >>= 7) {
      char byte = (char)(value | 128);
      out.add(&byte, 1);
    }
    char last = (char)value;
    out.add(&last, 1);
  }

  Bytes &out;
};

} // namespace hip_ep
