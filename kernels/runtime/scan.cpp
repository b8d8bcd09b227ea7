// hipc_cumsum and hipc_cumprod on GPUs.
#include "gpu.h"
#include "shared/reduction.h"

using namespace hipc;

namespace {

// A tile of a block, and how much of a column is worth a block of its own.
constexpr int64_t TILE = 1024, PIECE = 4 * TILE, BLOCK_ELEMENTS = 64, NEIGHBOURS = 32;

int32_t scan(hipc_context *context, const char *op, const hipc_tensor *x, const hipc_tensor *at, hipc_tensor *y,
             int64_t axis, int64_t exclusive, int64_t reverse, bool product) {
  if (at) HIPC_TRY(read_number(context, op, "the axis", at, &axis));
  HIPC_TRY(check_same_shape(context, op, x, y));
  HIPC_TRY(check_contiguous(context, op, x, y));
  HIPC_TRY(check_axis(context, op, axis, x->rank, &axis));
  if (!is_number(x->dtype)) return unsupported_dtype(context, op, x->dtype);
  if (elements(x) == 0) return HIPC_OK;
  // Integers wrap around whatever their sign.
  int32_t dtype = x->dtype == U8 ? I8 : x->dtype == U16 ? I16 : x->dtype == U32 ? I32 : x->dtype == U64 ? I64 : x->dtype;
  Rows r = rows_of(x, axis);
  Scan call{x->data, y->data, nullptr, r.outer * r.inner, r.length, r.inner, 1, r.length, product, exclusive != 0, reverse != 0};
  int64_t units = compute_units(context);
  // Threads side by side read side by side where columns are neighbours.
  if (r.length < BLOCK_ELEMENTS || (r.inner >= NEIGHBOURS && call.columns >= 64 * units))
    return launch(context, kernel_name("scan_thread", dtype), over(context, call.columns), call);
  int64_t pieces = min(4 * units / call.columns, ceil_div(r.length, PIECE));
  if (pieces > 1) {
    // Every piece is summed, the sums are scanned, and a piece begins with what is before it.
    call.piece = round_up(ceil_div(r.length, pieces), TILE), call.pieces = ceil_div(r.length, call.piece);
    bool half = dtype == F16 || dtype == BF16;
    void *sums = device_scratch(context, call.columns * call.pieces * (half ? 4 : element_size(dtype)));
    if (!sums) return out_of_memory(context, op);
    Scan sum = call;
    sum.y = sums;
    HIPC_TRY(launch(context, kernel_name("scan_pieces", dtype), rows(call.columns * call.pieces), sum));
    Scan between{sums, sums, nullptr, call.columns, call.pieces, 1, 1, call.pieces, product, 1, 0};
    HIPC_TRY(launch(context, kernel_name("scan_block", half ? F32 : dtype), rows(call.columns), between));
    call.before = sums;
  }
  return launch(context, kernel_name("scan_block", dtype), rows(min(call.columns * call.pieces, MOST_BLOCKS)), call);
}

} // namespace

HIPC_EXPORT int32_t hipc_cumsum(hipc_context *context, const hipc_tensor *x, const hipc_tensor *at, hipc_tensor *y,
                                int64_t axis, int64_t exclusive, int64_t reverse) {
  return scan(context, "cumsum", x, at, y, axis, exclusive, reverse, false);
}

HIPC_EXPORT int32_t hipc_cumprod(hipc_context *context, const hipc_tensor *x, const hipc_tensor *at, hipc_tensor *y,
                                 int64_t axis, int64_t exclusive, int64_t reverse) {
  return scan(context, "cumprod", x, at, y, axis, exclusive, reverse, true);
}
