// Elements that are set, counted and numbered in order: nonzero, compress, and unique, which sorts before. Slices are sorted
// by their positions; single elements as numbers that a block keeps in LDS.
//
// Three launches number them: `set_counts` counts those of every chunk, `set_offsets` sums what is before each chunk,
// `set_places` gives every element the number of set ones before it. The order of everything is fixed.
#include "hipc_order.h"
#include "shared/selection.h"

using namespace hipc;

namespace {

constexpr i32 FAULT_INDEX = 2;  // of kernels/runtime/gpu.h

// Elements of `size` bytes; bits outside the mask do not count, as the sign of a zero.
DEVICE bool is_set(const void *x, i32 size, u64 mask, i64 at) {
  switch (size) {
  case 1: return ((const u8 *)x)[at] & mask;
  case 2: return ((const u16 *)x)[at] & mask;
  case 4: return ((const u32 *)x)[at] & mask;
  default: return ((const u64 *)x)[at] & mask;
  }
}

DEVICE i64 set_in(const void *x, i32 size, u64 mask, i64 first, i64 last) {
  i64 found = 0;
  for (i64 at = first; at < last; at++) found += is_set(x, size, mask, at);
  return found;
}

// The sum of what the threads of the block before this one hold; `total` becomes that of all.
DEVICE i64 sum_before(i64 own, i64 *shared, i64 *total) {
  i64 running = own;
  shared[thread()] = own;
  barrier();
  for (u32 step = 1; step < CHUNK_THREADS; step *= 2) {
    i64 other = thread() >= step ? shared[thread() - step] : 0;
    barrier();
    shared[thread()] = running += other;
    barrier();
  }
  *total = shared[CHUNK_THREADS - 1];
  barrier();
  return running - own;
}

// Comparison of slices element by element; NaNs are equal to each other and above every number.
template <class T> DEVICE int compare(const T *x, const SliceRows &rows, i64 a, i64 b) {
  for (i64 o = 0; o < rows.outer; o++)
    for (i64 j = 0; j < rows.inner; j++) {
      const T *line = x + o * rows.length * rows.inner + j;
      Compute<T> left = widen(line[a * rows.inner]), right = widen(line[b * rows.inner]);
      if constexpr (is_float<T>) {
        bool left_nan = left != left, right_nan = right != right;
        if (left_nan || right_nan) {
          if (left_nan != right_nan) return left_nan ? 1 : -1;
          continue;
        }
      }
      if (left != right) return left < right ? -1 : 1;
    }
  return 0;
}

// One pass of a stable merge sort of positions: sorted runs of `width` become runs of twice that. A thread finds where its
// position goes: behind those before it in its own run, and those of the other run that come before it.
template <class T> DEVICE void merge(const T *x, const SliceRows &rows, const i64 *from, i64 *to, i64 width) {
  for (i64 at = global_thread(); at < rows.length; at += global_threads()) {
    i64 own = from[at], begin = at / (2 * width) * 2 * width, middle = min(begin + width, rows.length);
    bool left = at < middle;
    i64 first = left ? middle : begin, last = left ? min(begin + 2 * width, rows.length) : middle, start = first;
    while (first < last) {
      i64 half = (first + last) / 2;
      int order = compare(x, rows, from[half], own);
      // Equal ones of the left run stay before those of the right one.
      if (left ? order < 0 : order <= 0) first = half + 1;
      else last = half;
    }
    to[left ? at + (first - start) : at - middle + begin + (first - begin)] = own;
  }
}

template <class T> DEVICE void mark_groups(const T *x, const SliceRows &rows, const i64 *order, u8 *starts) {
  for (i64 at = global_thread(); at < rows.length; at += global_threads())
    starts[at] = at == 0 || compare(x, rows, order[at - 1], order[at]) != 0;
}

constexpr i32 SORT_EACH = SORT_RUN / 256;

// How many of the first `before` elements of two sorted runs together are of the left one. Equal ones of the left come first.
DEVICE i64 left_part(const u64 *left, i64 lefts, const u64 *right, i64 rights, i64 before) {
  i64 low = max(before - rights, (i64)0), high = min(before, lefts);
  while (low < high) {
    i64 middle = (low + high) / 2;
    if (left[middle] <= right[before - 1 - middle]) low = middle + 1;
    else high = middle;
  }
  return low;
}

} // namespace

// Runs of SORT_RUN elements, one a block: bitonic.
KERNEL(256) unique_sort(const void *x, i32 dtype, i32 size, SortedKeys to, i64 count) {
  SHARED u64 keys[SORT_RUN];
  SHARED u32 positions[SORT_RUN];
  i64 first = (i64)block() * SORT_RUN;
  for (u32 i = thread(); i < SORT_RUN; i += 256) {
    bool there = first + i < count;
    // What does not exist comes last.
    keys[i] = !there ? ~0ull : size == 8 ? wide_key(x, dtype, first + i) : narrow_key(x, dtype, first + i);
    positions[i] = there ? (u32)(first + i) : ~0u;
  }
  barrier();
  for (u32 run = 2; run <= SORT_RUN; run *= 2)
    for (u32 stride = run / 2; stride; stride /= 2) {
      for (u32 i = thread(); i < SORT_RUN / 2; i += 256) {
        u32 low = 2 * i - (i & (stride - 1)), high = low + stride, a = positions[low], b = positions[high];
        u64 left = keys[low], right = keys[high];
        // Every other run descends.
        if ((left > right || (left == right && a > b)) != ((low & run) != 0))
          keys[low] = right, keys[high] = left, positions[low] = b, positions[high] = a;
      }
      barrier();
    }
  for (u32 i = thread(); i < SORT_RUN && first + i < count; i += 256)
    to.keys[first + i] = keys[i], to.positions[first + i] = positions[i];
}

// Sorted runs of `width` become runs of twice that, SORT_RUN elements a block.
KERNEL(256) unique_join(SortedKeys from, SortedKeys to, i64 count, i64 width) {
  SHARED u64 keys[SORT_RUN];
  SHARED u32 positions[SORT_RUN];
  SHARED i64 parts[2];
  i64 first = (i64)block() * SORT_RUN, begin = first / (2 * width) * 2 * width, middle = min(begin + width, count);
  i64 lefts = middle - begin, rights = min(begin + 2 * width, count) - middle, before = first - begin;
  i64 behind = min(before + SORT_RUN, lefts + rights);
  if (thread() < 2) parts[thread()] = left_part(from.keys + begin, lefts, from.keys + middle, rights, thread() ? behind : before);
  barrier();
  i64 left = begin + parts[0], right = middle + before - parts[0];
  u32 from_left = (u32)(parts[1] - parts[0]), all = (u32)(behind - before);
  for (u32 i = thread(); i < all; i += 256) {
    i64 at = i < from_left ? left + i : right + (i - from_left);
    keys[i] = from.keys[at], positions[i] = from.positions[at];
  }
  barrier();
  u64 key[SORT_EACH];
  u32 position[SORT_EACH], place[SORT_EACH];
  UNROLL for (i32 e = 0; e < SORT_EACH; e++) {
    u32 i = e * 256 + thread();
    if (i >= all) continue;
    key[e] = keys[i], position[e] = positions[i];
    bool is_left = i < from_left;
    u32 low = is_left ? from_left : 0, high = is_left ? all : from_left, start = low;
    while (low < high) {
      u32 half = (low + high) / 2;
      if (is_left ? keys[half] < key[e] : keys[half] <= key[e]) low = half + 1;
      else high = half;
    }
    place[e] = (is_left ? i : i - from_left) + low - start;
  }
  barrier();
  UNROLL for (i32 e = 0; e < SORT_EACH; e++)
    if (e * 256 + thread() < all) keys[place[e]] = key[e], positions[place[e]] = position[e];
  barrier();
  for (u32 i = thread(); i < all; i += 256) to.keys[first + i] = keys[i], to.positions[first + i] = positions[i];
}

// Where groups of equal keys begin, and positions as wide numbers.
KERNEL(256) unique_mark_keys(SortedKeys sorted, i64 *order, u8 *starts, i64 count) {
  for (i64 at = global_thread(); at < count; at += global_threads()) {
    order[at] = sorted.positions[at];
    starts[at] = at == 0 || sorted.keys[at - 1] != sorted.keys[at];
  }
}

KERNEL(256) set_counts(const void *x, i64 *counts, i64 count, u64 mask, i32 size) {
  SHARED i64 shared[CHUNK_THREADS];
  i64 first = (i64)block() * CHUNK + thread() * CHUNK_EACH, total;
  sum_before(set_in(x, size, mask, min(first, count), min(first + CHUNK_EACH, count)), shared, &total);
  if (thread() == 0) counts[block()] = total;
}

// One block. counts[i] becomes the sum of those before it; `total`, where given, that of all.
KERNEL(256) set_offsets(i64 *counts, i64 chunks, i64 *total) {
  SHARED i64 shared[CHUNK_THREADS];
  i64 before = 0;
  for (i64 first = 0; first < chunks; first += CHUNK_THREADS) {
    i64 at = first + thread(), sum, own = at < chunks ? counts[at] : 0, own_before = sum_before(own, shared, &sum);
    if (at < chunks) counts[at] = before + own_before;
    before += sum;
  }
  if (thread() == 0 && total) *total = before;
}

// places[i]: set elements before element i. positions[n]: where the n-th of them is, for at most `room`. Either may be NULL.
KERNEL(256) set_places(const void *x, const i64 *offsets, i64 *places, i64 *positions, i64 count, i64 room, u64 mask, i32 size) {
  SHARED i64 shared[CHUNK_THREADS];
  i64 first = (i64)block() * CHUNK + thread() * CHUNK_EACH, last = min(first + CHUNK_EACH, count), total;
  first = min(first, count);
  i64 place = offsets[block()] + sum_before(set_in(x, size, mask, first, last), shared, &total);
  for (i64 at = first; at < last; at++) {
    bool set = is_set(x, size, mask, at);
    if (places) places[at] = place;
    if (set && positions && place < room) positions[place] = at;
    place += set;
  }
}

// y[axis][n]: index along each axis of the n-th position.
KERNEL(256) nonzero(const i64 *positions, i64 *y, Space shape, i64 found) {
  for (i64 n = global_thread(); n < found; n += global_threads()) {
    i64 rest = positions[n];
    for (i32 axis = shape.rank - 1; axis >= 0; axis--) {
      y[axis * found + n] = rest % shape.shape[axis];
      rest /= shape.shape[axis];
    }
  }
}

// x [outer][length][inner] to y [outer][kept][inner].
template <class T> DEVICE void compress(const T *x, const i64 *positions, T *y, const SliceRows &rows, i64 kept, i32 *fault) {
  for (i64 at = global_thread(); at < rows.outer * kept * rows.inner; at += global_threads()) {
    i64 position = positions[at / rows.inner % kept];
    if (position >= rows.length) {
      *fault = FAULT_INDEX;
      continue;
    }
    y[at] = x[(at / rows.inner / kept * rows.length + position) * rows.inner + at % rows.inner];
  }
}

KERNEL(256) first_positions(i64 *order, i64 count) {
  for (i64 at = global_thread(); at < count; at += global_threads()) order[at] = at;
}

// Marks, at the position of its first slice, every group: groups in the order in which they occur.
KERNEL(256) mark_first(const i64 *order, const i64 *starts, u8 *marks, i64 groups) {
  for (i64 g = global_thread(); g < groups; g += global_threads()) marks[order[starts[g]]] = 1;
}

// `before[i]`: groups that begin before place i of the order. `seen`, where given: groups first seen before a position.
KERNEL(256) unique_indices(const i64 *order, const u8 *is_start, const i64 *before, const i64 *starts, const i64 *seen,
                           i64 *indices, i64 *inverse, i64 *counts, i64 count, i64 groups) {
  for (i64 at = global_thread(); at < count; at += global_threads()) {
    i64 group = before[at] - (is_start[at] ? 0 : 1), first = order[starts[group]], place = seen ? seen[first] : group;
    inverse[order[at]] = place;
    if (!is_start[at]) continue;
    indices[place] = first;
    counts[place] = (group + 1 < groups ? starts[group + 1] : count) - at;
  }
}

#define DEFINE(WORD, T)                                                                                                \
  KERNEL(256) compress_##WORD(const T *x, const i64 *positions, T *y, SliceRows rows, i64 kept, i32 *fault) {          \
    compress<T>(x, positions, y, rows, kept, fault);                                                                   \
  }
HIPC_BYTES(DEFINE)
#undef DEFINE
#define DEFINE(WORD, T)                                                                                                \
  KERNEL(256) unique_merge_##WORD(const T *x, SliceRows rows, const i64 *from, i64 *to, i64 width) {                   \
    merge<T>(x, rows, from, to, width);                                                                                \
  }                                                                                                                    \
  KERNEL(256) unique_mark_##WORD(const T *x, SliceRows rows, const i64 *order, u8 *starts) {                           \
    mark_groups<T>(x, rows, order, starts);                                                                            \
  }
HIPC_NUMBERS(DEFINE)
