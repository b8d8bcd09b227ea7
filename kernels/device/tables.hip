// Numbers, and runs of numbers, in sorted tables; and decision trees.
#include "hipc_math.h"
#include "shared/tables.h"

using namespace hipc;

namespace {

constexpr i32 FAULT_INDEX = 2;  // of kernels/runtime/gpu.h

template <class T> DEVICE void lookup(const T *x, const T *keys, i64 *y, i64 count, i64 length) {
  for (i64 at = global_thread(); at < count; at += global_threads()) {
    i64 place = first_not_less(keys, length, x[at]);
    y[at] = place < length && same_key(keys[place], x[at]) ? place : length;
  }
}

// A thread for every start of every run of numbers: a row of x has `length`, a run `gram` of them, `step` apart. Whole
// numbers are added up, so the order does not matter.
template <class I>
DEVICE void count_ngrams(const I *x, const Grams &grams, i32 *counts, i64 rows, i64 length, i64 columns, i64 min_length,
                         i64 max_length, i64 max_skip, const i32 *fault) {
  // The launch before has found a table that points outside.
  if (*fault) return;
  i64 steps = max_skip + 1, kinds = max_length - min_length + 1;
  for (i64 at = global_thread(); at < rows * kinds * steps * length; at += global_threads()) {
    i64 start = at % length, step = at / length % steps + 1, gram = at / length / steps % kinds + min_length;
    i64 row = at / length / steps / kinds;
    // A single number has nothing to skip.
    if ((gram == 1 && step > 1) || start + (gram - 1) * step >= length) continue;
    i64 column = column_of(grams, x + row * length + start, gram, step);
    if (column >= 0) __scoped_atomic_fetch_add(counts + row * columns + column, 1, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
  }
}

// The leaf that a row reaches in a tree, as its node; -1 with a report where the tables point outside.
template <class T> DEVICE i64 leaf_of(const Forest &forest, const ForestLimits &limits, i64 tree, const T *x) {
  i64 at = forest.roots[tree];
  if (!is_range(at, 1, limits.nodes)) return -1;
  // A tree has no way round.
  for (i64 steps = 0; steps <= limits.nodes; steps++) {
    const Node &node = forest.nodes[at];
    if (!is_within(node, limits)) return -1;
    if (node.mode == NODE_LEAF) return at;
    at = decides_yes(forest, node, forest.splits[at], (f64)widen(x[node.feature])) ? node.yes : node.no;
  }
  return -1;
}

template <class T>
DEVICE void forest_leaves(const Forest &forest, const ForestLimits &limits, const T *x, i64 *leaves, i64 rows, i32 *fault) {
  for (i64 at = global_thread(); at < rows * forest.trees; at += global_threads()) {
    i64 leaf = leaf_of(forest, limits, at % forest.trees, x + at / forest.trees * limits.features);
    leaves[at] = leaf;
    if (leaf < 0) *fault = FAULT_INDEX;
  }
}

// A thread a target of a row, over the trees in their order.
template <class T>
DEVICE void forest_scores(const Forest &forest, const ForestLimits &limits, const i64 *leaves, T *y, i64 rows, i64 aggregate) {
  for (i64 at = global_thread(); at < rows * limits.targets; at += global_threads()) {
    i64 row = at / limits.targets, target = at % limits.targets;
    f64 total = 0;
    bool seen = false;
    for (i64 tree = 0; tree < forest.trees; tree++) {
      i64 leaf = leaves[row * forest.trees + tree];
      if (leaf < 0) continue;
      const Node &node = forest.nodes[leaf];
      for (i64 i = node.first; i < node.first + node.count; i++) {
        if (forest.targets[i] != target) continue;
        total = aggregated(aggregate, total, seen, forest.weights[i]);
        seen = true;
      }
    }
    if (aggregate == AGGREGATE_AVERAGE && forest.trees) total /= (f64)forest.trees;
    y[at] = narrow<T>((Compute<T>)total);
  }
}

} // namespace

#define DEFINE(WORD, T)                                                                                                \
  KERNEL(256) lookup_##WORD(const T *x, const T *keys, i64 *y, i64 count, i64 length) {                                \
    lookup<T>(x, keys, y, count, length);                                                                              \
  }
HIPC_NUMBERS(DEFINE)
#undef DEFINE
#define DEFINE(WORD, I)                                                                                                \
  KERNEL(256) count_ngrams_##WORD(const I *x, Grams grams, i32 *counts, i64 rows, i64 length, i64 columns,             \
                                  i64 min_length, i64 max_length, i64 max_skip, const i32 *fault) {                    \
    count_ngrams<I>(x, grams, counts, rows, length, columns, min_length, max_length, max_skip, fault);                 \
  }
DEFINE(i32, i32) DEFINE(i64, i64)
#undef DEFINE
KERNEL(256) count_ngrams_check(Grams grams, i64 words, i64 columns, i32 *fault) {
  for (i64 at = global_thread(); at < grams.count; at += global_threads())
    if (!is_within(grams.rows[at], words, columns)) *fault = FAULT_INDEX;
}
KERNEL(256) count_ngrams_store(const i32 *counts, f32 *y, i64 count) {
  for (i64 at = global_thread(); at < count; at += global_threads()) y[at] = (f32)counts[at];
}
#define DEFINE(WORD, T)                                                                                                \
  KERNEL(256) forest_leaves_##WORD(Forest forest, ForestLimits limits, const T *x, i64 *leaves, i64 rows, i32 *fault) {\
    forest_leaves<T>(forest, limits, x, leaves, rows, fault);                                                          \
  }                                                                                                                    \
  KERNEL(256) forest_scores_##WORD(Forest forest, ForestLimits limits, const i64 *leaves, T *y, i64 rows,              \
                                   i64 aggregate) {                                                                    \
    forest_scores<T>(forest, limits, leaves, y, rows, aggregate);                                                      \
  }
HIPC_ALL_FLOATS(DEFINE)
