// hipc_gather_block_quantized: rows of a table of few bits, picked by index and dequantised block by block.
#include "gemm.h"
#include "hipc_ops.h"

using namespace hipc;

namespace {

constexpr const char *OP = "gather_block_quantized";

// [rows][columns], lowest bits first in every byte; scales and zero points are [rows][blocks].
struct Table {
  const uint8_t *bytes;
  const hipc_tensor *scales, *zeros;
  int64_t columns, bits, block, blocks, default_zero;
  bool is_signed;

  int32_t field(const uint8_t *row, int64_t at) const {
    int32_t value = row[at * bits / 8] >> (at * bits % 8) & ((1 << bits) - 1);
    return is_signed && value >> (bits - 1) ? value - (1 << bits) : value;
  }
  void read(int64_t row, float *to) const {
    const uint8_t *from = bytes + row * columns * bits / 8;
    const uint8_t *offsets = zeros ? data<uint8_t>(zeros) + row * ceil_div(blocks * bits, 8) : nullptr;
    for (int64_t b = 0; b < blocks; b++) {
      float scale;
      load_floats(scales->dtype, scales->data, row * blocks + b, 1, &scale);
      int32_t zero = offsets ? field(offsets, b) : (int32_t)default_zero;
      for (int64_t i = b * block; i < min(columns, (b + 1) * block); i++) to[i] = (float)(field(from, i) - zero) * scale;
    }
  }
};

} // namespace

HIPC_EXPORT int32_t hipc_gather_block_quantized(hipc_context *context, const hipc_tensor *table,
                                                const hipc_tensor *indices, const hipc_tensor *scales,
                                                const hipc_tensor *zeros, hipc_tensor *y, int64_t bits, int64_t block,
                                                int64_t default_zero, int64_t is_signed) {
  HIPC_TRY(check_contiguous(context, OP, table, indices, scales, zeros, y));
  if (table->rank < 2 || scales->rank != table->rank || y->dtype != scales->dtype || block <= 0)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: a table of rank %d with scales of rank %d", OP, table->rank, scales->rank);
  if (bits != 2 && bits != 4 && bits != 8) return hipc_error(context, HIPC_ERROR_VALUE, "%s: %lld bits", OP, (long long)bits);
  int64_t entries = table->shape[0], inner = extent(table, 1, table->rank - 1);
  int64_t columns = table->shape[table->rank - 1] * 8 / bits, blocks = ceil_div(columns, block);
  if (elements(scales) != entries * inner * blocks || (zeros && elements(zeros) != entries * inner * ceil_div(blocks * bits, 8)))
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: %lld scales for %lld rows of %lld blocks", OP,
                      (long long)elements(scales), (long long)(entries * inner), (long long)blocks);
  int64_t count = elements(indices);
  if (elements(y) != count * inner * columns) return hipc_error(context, HIPC_ERROR_SHAPE, "%s: the size of y", OP);
  Table source{data<uint8_t>(table), scales, zeros, columns, bits, block, blocks, default_zero, is_signed != 0};
  int64_t length = round_up(columns, 16);
  float *scratch = (float *)hipc_scratch(context, hipc_num_threads(context) * length * (int64_t)sizeof(float));
  if (!scratch) return out_of_memory(context, OP);
  return dispatch_index(context, OP, indices->dtype, [&]<class I>() {
    const I *at = data<I>(indices);
    parallel_for_threads(context, count * inner, columns * 2, [&](int64_t begin, int64_t end, int32_t thread) {
      float *row = scratch + thread * length;
      for (int64_t i = begin; i < end; i++) {
        int64_t entry = from_front(at[i / inner], entries);
        // An index outside the table gives zeros.
        if (entry < 0 || entry >= entries) memset(row, 0, (size_t)columns * sizeof(float));
        else source.read(entry * inner + i % inner, row);
        store_floats(y->dtype, y->data, i * columns, columns, row);
      }
    });
    return (int32_t)HIPC_OK;
  });
}
