// The k first of rows, in order: a NaN is the greatest element, and of equal ones the first comes first. Runs of a row are
// sorted by a block each and cut to k; then 16 of them at a time become one, by counting what comes before each entry.
#include "hipc_block.h"
#include "hipc_order.h"

using namespace hipc;

namespace {

// Of an element of 64 bits: its bits in order, and a number that falls with the position. One of 32 bits has both in one.
struct Wide {
  u64 key;
  u64 rest;
};
DEVICE bool comes_first(u64 a, u64 b) { return a > b; }
DEVICE bool comes_first(const Wide &a, const Wide &b) { return a.key != b.key ? a.key > b.key : a.rest > b.rest; }
DEVICE u32 position_of(u64 entry) { return ~(u32)entry; }
DEVICE u32 position_of(const Wide &entry) { return ~(u32)entry.rest; }

// Greater keys come first.
DEVICE void read_entry(const TopK &op, i64 at, u32 position, u64 *entry) {
  u32 key = narrow_key(op.x, op.dtype, at);
  *entry = (u64)(op.largest ? key : ~key) << 32 | (u32)~position;
}
DEVICE void read_entry(const TopK &op, i64 at, u32 position, Wide *entry) {
  u64 key = wide_key(op.x, op.dtype, at);
  *entry = {op.largest ? key : ~key, (u32)~position};
}

// Where column `column` begins in a tensor that is `length` long.
DEVICE i64 start_of(const TopK &op, i64 column, i64 length) {
  i64 line = quotient(column, op.inner);
  return line * length * op.inner + (column - line * op.inner);
}

// The result's element `rank` of a column.
DEVICE void write_result(const TopK &op, i64 column, i64 rank, u32 position) {
  i64 to = start_of(op, column, op.k) + rank * op.inner, from = start_of(op, column, op.length) + (i64)position * op.inner;
  op.indices[to] = position;
  switch (op.size) {
  case 1: ((u8 *)op.values)[to] = ((const u8 *)op.x)[from]; break;
  case 2: ((u16 *)op.values)[to] = ((const u16 *)op.x)[from]; break;
  case 4: ((u32 *)op.values)[to] = ((const u32 *)op.x)[from]; break;
  default: ((u64 *)op.values)[to] = ((const u64 *)op.x)[from]; break;
  }
}

// A block for every run of a column: `width` entries, a power of two, those behind the column's end being zeros, which come
// last. Bitonic.
template <class E> DEVICE void sort_runs(const TopK &op) {
  SHARED E entries[RUN];
  u32 width = (u32)op.width;
  for (i64 task = block(); task < op.columns * op.runs; task += blocks()) {
    i64 column = quotient(task, op.runs), first = (task - column * op.runs) * RUN, start = start_of(op, column, op.length);
    for (u32 i = thread(); i < width; i += threads()) {
      entries[i] = E{};
      if (first + i < op.length) read_entry(op, start + (first + i) * op.inner, (u32)(first + i), &entries[i]);
    }
    barrier();
    for (u32 size = 2; size <= width; size <<= 1)
      for (u32 stride = size >> 1; stride; stride >>= 1) {
        for (u32 i = thread(); i < width / 2; i += threads()) {
          u32 low = 2 * i - (i & (stride - 1)), high = low + stride;
          E a = entries[low], b = entries[high];
          // Every other run of `size` ascends.
          if (comes_first(b, a) != ((low & size) != 0)) entries[low] = b, entries[high] = a;
        }
        barrier();
      }
    for (u32 i = thread(); i < (u32)op.kept; i += threads()) {
      if (op.to) ((E *)op.to)[task * op.kept + i] = entries[i];
      else write_result(op, column, i, position_of(entries[i]));
    }
    barrier();
  }
}

// A thread for every entry: its place is how many come before it in the runs of its group.
template <class E> DEVICE void merge_runs(const TopK &op) {
  const E *from = (const E *)op.from;
  i64 groups = ceil_div(op.runs, MERGED_RUNS);
  for (i64 at = global_thread(); at < op.columns * op.runs * op.taken; at += global_threads()) {
    i64 number = quotient(at, op.taken), place = at - number * op.taken, column = quotient(number, op.runs), run = number - column * op.runs;
    i64 group = run / MERGED_RUNS, first = group * MERGED_RUNS, last = min(first + MERGED_RUNS, op.runs), rank = place;
    E *to = (E *)op.to + (column * groups + group) * op.kept;
    // What a short group cannot fill.
    if (run == first && op.to)
      for (i64 i = (last - first) * op.taken + place; i < op.kept; i += op.taken) to[i] = E{};
    E own = from[at];
    for (i64 other = first; other < last && rank < op.kept; other++) {
      if (other == run) continue;
      const E *entries = from + (column * op.runs + other) * op.taken;
      i64 low = 0, high = op.taken;
      while (low < high) {
        i64 middle = (low + high) / 2;
        // Zeros are equal to each other: those of an earlier run come before.
        bool before = other < run ? !comes_first(own, entries[middle]) : comes_first(entries[middle], own);
        if (before) low = middle + 1;
        else high = middle;
      }
      rank += low;
    }
    if (rank >= op.kept) continue;
    if (op.to) to[rank] = own;
    else write_result(op, column, rank, position_of(own));
  }
}

} // namespace

KERNEL(256) topk_sort_b4(TopK op) { sort_runs<u64>(op); }
KERNEL(256) topk_sort_b8(TopK op) { sort_runs<Wide>(op); }
KERNEL(256) topk_merge_b4(TopK op) { merge_runs<u64>(op); }
KERNEL(256) topk_merge_b8(TopK op) { merge_runs<Wide>(op); }
