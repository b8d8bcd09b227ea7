// gather_block_quantized: rows of a table of 2, 4 or 8 bits, picked by number and dequantised block by block.
#include "hipc_device.h"
#include "shared/quantized_table.h"

using namespace hipc;

namespace {

using Table = QuantizedTable;

DEVICE i32 field(const Table &t, const u8 *row, i64 at) {
  i32 value = row[at * t.bits / 8] >> (at * t.bits % 8) & ((1 << t.bits) - 1);
  return t.is_signed && value >> (t.bits - 1) ? value - (1 << t.bits) : value;
}

template <class T> DEVICE void gather(const Table &t, const void *indices, const T *scales, T *y, i64 total) {
  for (i64 at = global_thread(); at < total; at += global_threads()) {
    i64 column = at % t.columns, line = at / t.columns, number = line / t.inner;
    i64 entry = t.wide ? ((const i64 *)indices)[number] : (i64)((const i32 *)indices)[number];
    if (entry < 0) entry += t.entries;
    f32 value = 0;
    // An index outside the table gives zeros.
    if (entry >= 0 && entry < t.entries) {
      i64 row = entry * t.inner + line % t.inner, block = column / t.block;
      i32 zero = t.zeros ? field(t, t.zeros + row * ((t.blocks * t.bits + 7) / 8), block) : t.default_zero;
      value = (f32)(field(t, t.bytes + row * t.columns * t.bits / 8, column) - zero) * widen(scales[row * t.blocks + block]);
    }
    y[at] = narrow<T>(value);
  }
}

} // namespace

#define DEFINE(WORD, T)                                                                                                \
  KERNEL(256) gather_block_quantized_##WORD(Table table, const void *indices, const T *scales, T *y, i64 total) {      \
    gather<T>(table, indices, scales, y, total);                                                                       \
  }
HIPC_FLOATS(DEFINE)
