// hipc_gather_block_quantized on GPUs.
#include "gpu.h"
#include "shared/quantized_table.h"

using namespace hipc;

namespace {

constexpr const char *OP = "gather_block_quantized";

} // namespace

HIPC_EXPORT int32_t hipc_gather_block_quantized(hipc_context *context, const hipc_tensor *table,
                                                const hipc_tensor *indices, const hipc_tensor *scales,
                                                const hipc_tensor *zeros, hipc_tensor *y, int64_t bits, int64_t block,
                                                int64_t default_zero, int64_t is_signed) {
  HIPC_TRY(check_contiguous(context, OP, table, indices, scales, zeros, y));
  if (table->rank < 2 || scales->rank != table->rank || y->dtype != scales->dtype || block <= 0)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: a table of rank %d with scales of rank %d", OP, table->rank, scales->rank);
  if (bits != 2 && bits != 4 && bits != 8) return hipc_error(context, HIPC_ERROR_VALUE, "%s: %lld bits", OP, (long long)bits);
  if (indices->dtype != I32 && indices->dtype != I64) return unsupported_dtype(context, OP, indices->dtype);
  if (y->dtype != F32 && y->dtype != F16 && y->dtype != BF16) return unsupported_dtype(context, OP, y->dtype);
  int64_t entries = table->shape[0], inner = extent(table, 1, table->rank - 1);
  int64_t columns = table->shape[table->rank - 1] * 8 / bits, blocks = ceil_div(columns, block);
  if (elements(scales) != entries * inner * blocks || (zeros && elements(zeros) != entries * inner * ceil_div(blocks * bits, (int64_t)8)))
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: %lld scales for %lld rows of %lld blocks", OP,
                      (long long)elements(scales), (long long)(entries * inner), (long long)blocks);
  if (elements(y) != elements(indices) * inner * columns) return hipc_error(context, HIPC_ERROR_SHAPE, "%s: the size of y", OP);
  if (elements(y) == 0) return HIPC_OK;
  QuantizedTable argument{data<uint8_t>(table), zeros ? data<uint8_t>(zeros) : nullptr, entries, inner, columns, block, blocks,
                 (int32_t)bits, (int32_t)default_zero, (int32_t)(is_signed != 0), (int32_t)(indices->dtype == I64)};
  return launch(context, kernel_name(OP, y->dtype), over(context, elements(y)), argument, indices->data, scales->data, y->data,
                elements(y));
}
