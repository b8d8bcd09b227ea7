// hipc_nonzero, hipc_compress, hipc_unique, and what counts their results first, on GPUs.
#include "gpu.h"
#include "shared/space.h"
#include "shared/selection.h"

using namespace hipc;

namespace {

// Elements, and the bits that tell whether one is set.
struct Mask {
  const void *data;
  int64_t count;
  uint64_t bits;
  int32_t size;

  int64_t chunks() const { return max<int64_t>(ceil_div(count, CHUNK), 1); }
};

int32_t read_mask(hipc_context *context, const char *op, const hipc_tensor *x, Mask *mask) {
  bool is_float = x->dtype == F32 || x->dtype == F64 || x->dtype == F16 || x->dtype == BF16;
  int64_t size = element_size(x->dtype);
  if (size < 1 || size > 8 || x->dtype == C64) return unsupported_dtype(context, op, x->dtype);
  uint64_t all = ~0ull >> (64 - 8 * size);
  *mask = {x->data, elements(x), is_float ? all >> 1 : all, (int32_t)size};
  return HIPC_OK;
}

// counts[chunk] becomes the number of set elements before each chunk, `total` that of all.
int32_t number_chunks(hipc_context *context, const Mask &mask, int64_t *counts, int64_t *total) {
  HIPC_TRY(launch(context, "set_counts", rows(mask.chunks()), mask.data, counts, mask.count, mask.bits, mask.size));
  return launch(context, "set_offsets", rows(1), counts, mask.chunks(), total);
}
int32_t number_elements(hipc_context *context, const Mask &mask, int64_t *counts, int64_t *places, int64_t *positions, int64_t room) {
  HIPC_TRY(number_chunks(context, mask, counts, nullptr));
  return launch(context, "set_places", rows(mask.chunks()), mask.data, (const int64_t *)counts, places, positions, mask.count,
                room, mask.bits, mask.size);
}

int32_t check_count(hipc_context *context, const char *op, const hipc_tensor *n) {
  if (n->dtype == I64 && elements(n) == 1) return HIPC_OK;
  return hipc_error(context, HIPC_ERROR_SHAPE, "%s writes one int64 number", op);
}

int32_t count_set(hipc_context *context, const char *op, const hipc_tensor *x, hipc_tensor *n) {
  HIPC_TRY(check_contiguous(context, op, x));
  HIPC_TRY(check_count(context, op, n));
  Mask mask;
  HIPC_TRY(read_mask(context, op, x, &mask));
  int64_t *counts = (int64_t *)device_scratch(context, mask.chunks() * 8);
  if (!counts) return out_of_memory(context, op);
  return number_chunks(context, mask, counts, data<int64_t>(n));
}

} // namespace

HIPC_EXPORT int32_t hipc_nonzero_count(hipc_context *context, const hipc_tensor *x, hipc_tensor *n) {
  return count_set(context, "nonzero_count", x, n);
}

HIPC_EXPORT int32_t hipc_nonzero(hipc_context *context, const hipc_tensor *x, hipc_tensor *y) {
  const char *op = "nonzero";
  HIPC_TRY(check_contiguous(context, op, x, y));
  if (y->dtype != I64) return unsupported_dtype(context, op, y->dtype);
  if (y->rank != 2 || y->shape[0] != x->rank)
    return hipc_error(context, HIPC_ERROR_SHAPE, "nonzero: the output does not have %d rows", x->rank);
  int64_t found = y->shape[1];
  Mask mask;
  HIPC_TRY(read_mask(context, op, x, &mask));
  if (found == 0) return HIPC_OK;
  int64_t *counts = (int64_t *)device_scratch(context, (mask.chunks() + found) * 8), *positions = counts + mask.chunks();
  if (!counts) return out_of_memory(context, op);
  HIPC_TRY(number_elements(context, mask, counts, nullptr, positions, found));
  Space shape{};
  shape.rank = x->rank;
  for (int32_t i = 0; i < x->rank; i++) shape.shape[i] = x->shape[i];
  return launch(context, op, over(context, found), (const int64_t *)positions, y->data, shape, found);
}

HIPC_EXPORT int32_t hipc_compress_count(hipc_context *context, const hipc_tensor *condition, hipc_tensor *n) {
  if (element_size(condition->dtype) != 1) return unsupported_dtype(context, "compress_count", condition->dtype);
  return count_set(context, "compress_count", condition, n);
}

// A condition shorter than the axis drops the rest; a longer one must be false beyond it, which the kernel checks.
HIPC_EXPORT int32_t hipc_compress(hipc_context *context, const hipc_tensor *x, const hipc_tensor *condition,
                                  hipc_tensor *y, int64_t axis, int64_t flatten) {
  const char *op = "compress";
  HIPC_TRY(check_contiguous(context, op, x, condition, y));
  if (element_size(condition->dtype) != 1) return unsupported_dtype(context, op, condition->dtype);
  if (element_size(x->dtype) == 0 || y->dtype != x->dtype) return unsupported_dtype(context, op, x->dtype);
  SliceRows slices{1, elements(x), 1};
  if (!flatten) {
    HIPC_TRY(check_axis(context, op, axis, x->rank, &axis));
    Rows r = rows_of(x, axis);
    slices = {r.outer, r.length, r.inner};
  }
  int64_t kept = flatten || !y->rank ? elements(y) : y->shape[axis];
  if (elements(y) != slices.outer * kept * slices.inner)
    return hipc_error(context, HIPC_ERROR_SHAPE, "compress: the output does not have the extents of the input");
  if (elements(y) == 0) return HIPC_OK;
  Mask mask;
  HIPC_TRY(read_mask(context, op, condition, &mask));
  int64_t *counts = (int64_t *)device_scratch(context, (mask.chunks() + kept) * 8), *positions = counts + mask.chunks();
  int32_t *fault = device_fault(context);
  if (!counts) return out_of_memory(context, op);
  if (!fault) return HIPC_ERROR_MEMORY;
  HIPC_TRY(number_elements(context, mask, counts, nullptr, positions, kept));
  return launch(context, kernel_name_of_size(op, element_size(x->dtype)), over(context, elements(y)), x->data,
                (const int64_t *)positions, y->data, slices, kept, fault);
}

namespace {

// Slices in order, equal ones together and each such group in input order; and where groups begin.
struct Sorted {
  SliceRows slices;
  int64_t *order, *counts;
  uint8_t *starts;
  char *rest;  // more scratch, as much as was asked for

  Mask mask() const { return {starts, slices.length, 0xff, 1}; }
};

// Single elements by their keys.
int32_t sort_elements(hipc_context *context, const hipc_tensor *x, int32_t dtype, SortedKeys from, SortedKeys to,
                      const Sorted &sorted) {
  int64_t count = sorted.slices.length;
  Launch grid = rows(ceil_div(count, SORT_RUN));
  HIPC_TRY(launch(context, "unique_sort", grid, x->data, dtype, (int32_t)element_size(dtype), from, count));
  for (int64_t width = SORT_RUN; width < count; width *= 2) {
    HIPC_TRY(launch(context, "unique_join", grid, from, to, count, width));
    SortedKeys other = from;
    from = to, to = other;
  }
  return launch(context, "unique_mark_keys", over(context, count), from, sorted.order, sorted.starts, count);
}

int32_t sort_slices(hipc_context *context, const char *op, const hipc_tensor *x, int64_t axis, int64_t flatten,
                    int64_t is_unsigned, int64_t extra, Sorted *sorted) {
  HIPC_TRY(check_contiguous(context, op, x));
  Rows r{1, elements(x), 1};
  if (!flatten) {
    HIPC_TRY(check_axis(context, op, axis, x->rank, &axis));
    r = rows_of(x, axis);
  }
  int32_t dtype = signed_as(x->dtype, is_unsigned);
  if (!*dtype_word(dtype)) return unsupported_dtype(context, op, x->dtype);
  sorted->slices = {r.outer, r.length, r.inner};
  // Positions of elements fit 32 bits, but of tensors that no device holds.
  bool single = r.outer * r.inner == 1 && r.length <= UINT32_MAX;
  ScratchPlan plan;
  int64_t order_at = plan.add(r.length * 8), spare_at = plan.add(r.length * 8), starts_at = plan.add(r.length);
  int64_t keys_at = plan.add(single ? r.length * 8 : 0), positions_at = plan.add(single ? r.length * 8 : 0);
  int64_t counts_at = plan.add(Mask{nullptr, r.length, 0, 1}.chunks() * 8), rest_at = plan.add(extra);
  char *scratch = (char *)device_scratch(context, max(plan.bytes, (int64_t)64));
  if (!scratch) return out_of_memory(context, op);
  int64_t *from = (int64_t *)(scratch + order_at), *to = (int64_t *)(scratch + spare_at);
  sorted->starts = (uint8_t *)(scratch + starts_at), sorted->counts = (int64_t *)(scratch + counts_at);
  sorted->rest = scratch + rest_at, sorted->order = from;
  if (r.length && single) {
    uint32_t *positions = (uint32_t *)(scratch + positions_at);
    SortedKeys first{(uint64_t *)(scratch + keys_at), positions}, second{(uint64_t *)to, positions + r.length};
    return sort_elements(context, x, dtype, first, second, *sorted);
  }
  if (r.length) {
    Launch grid = over(context, r.length);
    HIPC_TRY(launch(context, "first_positions", grid, from, r.length));
    for (int64_t width = 1; width < r.length; width *= 2) {
      HIPC_TRY(launch(context, kernel_name("unique_merge", dtype), grid, x->data, sorted->slices, (const int64_t *)from, to, width));
      int64_t *other = from;
      from = to, to = other;
    }
    HIPC_TRY(launch(context, kernel_name("unique_mark", dtype), grid, x->data, sorted->slices, (const int64_t *)from, sorted->starts));
  }
  sorted->order = from;
  return HIPC_OK;
}

} // namespace

HIPC_EXPORT int32_t hipc_unique_count(hipc_context *context, const hipc_tensor *x, hipc_tensor *n, int64_t axis,
                                      int64_t flatten, int64_t is_unsigned) {
  const char *op = "unique_count";
  HIPC_TRY(check_count(context, op, n));
  Sorted sorted;
  HIPC_TRY(sort_slices(context, op, x, axis, flatten, is_unsigned, 0, &sorted));
  return number_chunks(context, sorted.mask(), sorted.counts, data<int64_t>(n));
}

HIPC_EXPORT int32_t hipc_unique(hipc_context *context, const hipc_tensor *x, hipc_tensor *y, hipc_tensor *indices,
                                hipc_tensor *inverse, hipc_tensor *counts, int64_t axis, int64_t flatten,
                                int64_t in_order, int64_t is_unsigned) {
  const char *op = "unique";
  HIPC_TRY(check_contiguous(context, op, y, indices, inverse, counts));
  if (indices->dtype != I64 || inverse->dtype != I64 || counts->dtype != I64)
    return hipc_error(context, HIPC_ERROR_UNSUPPORTED, "%s: indices, inverse and counts must be int64", op);
  int64_t length = elements(inverse), groups = elements(indices);
  ScratchPlan plan;
  int64_t before_at = plan.add(length * 8), starts_at = plan.add(groups * 8), seen_at = plan.add(length * 8), marks_at = plan.add(length);
  Sorted sorted;
  HIPC_TRY(sort_slices(context, op, x, axis, flatten, is_unsigned, plan.bytes, &sorted));
  const SliceRows &slices = sorted.slices;
  if (slices.length != length || elements(y) != slices.outer * groups * slices.inner || elements(counts) != groups)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: the outputs do not have room for %lld groups", op, (long long)groups);
  if (length == 0) return HIPC_OK;
  int64_t *before = (int64_t *)(sorted.rest + before_at), *starts = (int64_t *)(sorted.rest + starts_at);
  int64_t *seen = in_order ? nullptr : (int64_t *)(sorted.rest + seen_at);
  HIPC_TRY(number_elements(context, sorted.mask(), sorted.counts, before, starts, groups));
  const int64_t *order = sorted.order, *const_starts = starts;
  if (seen) {
    // Groups are numbered by where they are met first.
    uint8_t *marks = (uint8_t *)(sorted.rest + marks_at);
    HIPC_TRY(device_fill(context, marks, 0, length));
    HIPC_TRY(launch(context, "mark_first", over(context, groups), order, const_starts, marks, groups));
    HIPC_TRY(number_elements(context, Mask{marks, length, 0xff, 1}, sorted.counts, seen, nullptr, 0));
  }
  HIPC_TRY(launch(context, "unique_indices", over(context, length), order, (const uint8_t *)sorted.starts, (const int64_t *)before,
                  const_starts, (const int64_t *)seen, indices->data, inverse->data, counts->data, length, groups));
  if (elements(y) == 0) return HIPC_OK;
  int32_t *fault = device_fault(context);
  if (!fault) return HIPC_ERROR_MEMORY;
  return launch(context, kernel_name_of_size("compress", element_size(x->dtype)), over(context, elements(y)), x->data,
                (const int64_t *)data<int64_t>(indices), y->data, slices, groups, fault);
}
