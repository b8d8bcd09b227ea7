// hipc_unique_count, hipc_unique. Slices are compared element by element in row-major order; NaNs are equal to each other
// and above every number, as NumPy has it.
#include "hipc_sort.h"

using namespace hipc;

namespace {

template <class T> struct Slices {
  const T *x;
  Rows rows;

  // Below 0, 0 or above 0, as slice `a` stands before, beside or after slice `b`.
  int compare(int64_t a, int64_t b) const {
    for (int64_t o = 0; o < rows.outer; o++)
      for (int64_t j = 0; j < rows.inner; j++) {
        const T *line = x + o * rows.length * rows.inner + j;
        Compute<T> left = widen(line[a * rows.inner]), right = widen(line[b * rows.inner]);
        if (ranks_below(left, right)) return -1;
        if (ranks_below(right, left)) return 1;
      }
    return 0;
  }
};

// Positions of all slices, equal ones together and each such group in input order.
struct Grouping {
  int64_t *order, *spare, *starts; // starts[g]: where group g begins in `order`; starts[groups] is the end
  int64_t groups;
};

template <class T>
int32_t group(hipc_context *context, const char *op, const Slices<T> &slices, Grouping *grouping) {
  int64_t count = slices.rows.length;
  int64_t *memory = (int64_t *)hipc_scratch(context, (3 * count + 1) * (int64_t)sizeof(int64_t));
  if (!memory) return out_of_memory(context, op);
  *grouping = {memory, memory + count, memory + 2 * count, 0};
  for (int64_t i = 0; i < count; i++) grouping->order[i] = i;
  sort_positions(grouping->order, grouping->spare, count,
                 [&](int64_t a, int64_t b) { return slices.compare(a, b) < 0; });
  for (int64_t i = 0; i < count; i++)
    if (i == 0 || slices.compare(grouping->order[i - 1], grouping->order[i]) != 0)
      grouping->starts[grouping->groups++] = i;
  grouping->starts[grouping->groups] = count;
  return HIPC_OK;
}

int32_t read_rows(hipc_context *context, const char *op, const hipc_tensor *x, int64_t axis, int64_t flatten,
                  Rows *rows) {
  HIPC_TRY(check_contiguous(context, op, x));
  if (flatten) {
    *rows = {1, elements(x), 1};
    return HIPC_OK;
  }
  HIPC_TRY(check_axis(context, op, axis, x->rank, &axis));
  *rows = rows_of(x, axis);
  return HIPC_OK;
}

} // namespace

HIPC_EXPORT int32_t hipc_unique_count(hipc_context *context, const hipc_tensor *x, hipc_tensor *n, int64_t axis,
                                      int64_t flatten, int64_t is_unsigned) {
  const char *op = "unique_count";
  Rows rows;
  HIPC_TRY(read_rows(context, op, x, axis, flatten, &rows));
  if (n->dtype != I64 || elements(n) != 1)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s writes one int64 number", op);
  return dispatch_number(context, op, signed_as(x->dtype, is_unsigned), [&]<class T>() -> int32_t {
    Grouping grouping;
    HIPC_TRY(group(context, op, Slices<T>{data<T>(x), rows}, &grouping));
    *data<int64_t>(n) = grouping.groups;
    return HIPC_OK;
  });
}

HIPC_EXPORT int32_t hipc_unique(hipc_context *context, const hipc_tensor *x, hipc_tensor *y, hipc_tensor *indices,
                                hipc_tensor *inverse, hipc_tensor *counts, int64_t axis, int64_t flatten,
                                int64_t sorted, int64_t is_unsigned) {
  const char *op = "unique";
  Rows rows;
  HIPC_TRY(read_rows(context, op, x, axis, flatten, &rows));
  HIPC_TRY(check_contiguous(context, op, y, indices, inverse, counts));
  if (indices->dtype != I64 || inverse->dtype != I64 || counts->dtype != I64)
    return hipc_error(context, HIPC_ERROR_UNSUPPORTED, "%s: indices, inverse and counts must be int64", op);
  return dispatch_number(context, op, signed_as(x->dtype, is_unsigned), [&]<class T>() -> int32_t {
    const T *from = data<T>(x);
    Grouping grouping;
    HIPC_TRY(group(context, op, Slices<T>{from, rows}, &grouping));
    int64_t groups = grouping.groups;
    if (elements(y) != rows.outer * groups * rows.inner || elements(indices) != groups ||
        elements(counts) != groups || elements(inverse) != rows.length)
      return hipc_error(context, HIPC_ERROR_SHAPE, "%s: the outputs do not have room for %lld groups", op,
                        (long long)groups);
    // Place of each group in the answer: by value as found, or by the position of its first slice.
    int64_t *place = grouping.spare, *owner = data<int64_t>(inverse);
    for (int64_t g = 0; g < groups; g++)
      for (int64_t i = grouping.starts[g]; i < grouping.starts[g + 1]; i++) owner[grouping.order[i]] = g;
    if (sorted)
      for (int64_t g = 0; g < groups; g++) place[g] = g;
    else
      for (int64_t i = 0, next = 0; i < rows.length; i++)
        if (grouping.order[grouping.starts[owner[i]]] == i) place[owner[i]] = next++;
    T *to = data<T>(y);
    for (int64_t g = 0; g < groups; g++) {
      int64_t first = grouping.order[grouping.starts[g]], target = place[g];
      data<int64_t>(indices)[target] = first;
      data<int64_t>(counts)[target] = grouping.starts[g + 1] - grouping.starts[g];
      for (int64_t o = 0; o < rows.outer; o++)
        for (int64_t j = 0; j < rows.inner; j++)
          to[(o * groups + target) * rows.inner + j] = from[(o * rows.length + first) * rows.inner + j];
    }
    for (int64_t i = 0; i < rows.length; i++) owner[i] = place[owner[i]];
    return HIPC_OK;
  });
}
