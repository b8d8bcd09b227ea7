// Sorted tables and trees: lookup, count_ngrams, tree_ensemble.
#pragma once
#include "arguments.h"
#include "vocabulary.h"

namespace hipc {

// ---- lookup -----------------------------------------------------------------------------------------------------
template <class T> HIPC_SHARED bool same_key(T a, T b) {
  // A key may be NaN, and then means every NaN.
  if constexpr (is_float<T>) return widen(a) == widen(b) || (widen(a) != widen(a) && widen(b) != widen(b));
  else return a == b;
}

// Position of the first key that is not less than the value; NaNs stand at the end.
template <class T> HIPC_SHARED i64 first_not_less(const T *keys, i64 count, T value) {
  i64 first = 0;
  while (count > 0) {
    i64 half = count / 2;
    auto key = widen(keys[first + half]), wanted = widen(value);
    bool before = key < wanted;
    if constexpr (is_float<T>) before = before || (wanted != wanted && key == key);
    if (before) first += half + 1, count -= half + 1;
    else count = half;
  }
  return first;
}

// ---- count_ngrams -----------------------------------------------------------------------------------------------
// A row of the table of n-grams, which is sorted by length, then by content.
struct Gram {
  i64 offset, length, column;
};

struct Grams {
  const Gram *rows;
  const i64 *pool;
  i64 count;
};

HIPC_SHARED bool is_within(const Gram &gram, i64 words, i64 columns) {
  return gram.offset >= 0 && gram.length >= 1 && gram.length <= words && gram.offset <= words - gram.length &&
         gram.column >= 0 && gram.column < columns;
}

// Below 0, 0 or above 0, as an n-gram of the table stands before, at or after x[0], x[step], ...
template <class I> HIPC_SHARED int order_of(const Grams &grams, const Gram &gram, const I *x, i64 length, i64 step) {
  if (gram.length != length) return gram.length < length ? -1 : 1;
  for (i64 i = 0; i < length; i++) {
    i64 a = grams.pool[gram.offset + i], b = (i64)x[i * step];
    if (a != b) return a < b ? -1 : 1;
  }
  return 0;
}

// Column of the n-gram x[0], x[step], ...; -1 where the table does not have it.
template <class I> HIPC_SHARED i64 column_of(const Grams &grams, const I *x, i64 length, i64 step) {
  i64 first = 0, count = grams.count;
  while (count > 0) {
    i64 half = count / 2;
    int order = order_of(grams, grams.rows[first + half], x, length, step);
    if (order == 0) return grams.rows[first + half].column;
    if (order < 0) first += half + 1, count -= half + 1;
    else count = half;
  }
  return -1;
}

// ---- tree_ensemble ----------------------------------------------------------------------------------------------
enum NodeMode : i64 { NODE_LE, NODE_LT, NODE_GE, NODE_GT, NODE_EQ, NODE_NE, NODE_MEMBER, NODE_LEAF };
enum Aggregate : i64 { AGGREGATE_SUM, AGGREGATE_AVERAGE, AGGREGATE_MIN, AGGREGATE_MAX };

// A row of the node table. `first` and `count` are a range of `members`, or of `targets` and `weights` at a leaf.
struct Node {
  i64 feature, mode, yes, no, missing_is_yes, first, count;
};

struct Forest {
  const Node *nodes;
  const f64 *splits, *members, *weights;
  const i64 *roots, *targets;
  i64 trees;
};

// What the tables of a forest may point to.
struct ForestLimits {
  i64 nodes, features, members, leaves, targets;
};

HIPC_SHARED bool is_range(i64 first, i64 number, i64 limit) {
  return first >= 0 && number >= 0 && first <= limit && number <= limit - first;
}
HIPC_SHARED bool is_within(const Node &node, const ForestLimits &limits) {
  if (node.mode == NODE_LEAF) return is_range(node.first, node.count, limits.leaves);
  return is_range(node.yes, 1, limits.nodes) && is_range(node.no, 1, limits.nodes) &&
         is_range(node.feature, 1, limits.features) &&
         (node.mode != NODE_MEMBER || is_range(node.first, node.count, limits.members));
}

HIPC_SHARED bool decides_yes(const Forest &forest, const Node &node, f64 split, f64 value) {
  if (node.missing_is_yes && value != value) return true;
  switch (node.mode) {
  case NODE_LE: return value <= split;
  case NODE_LT: return value < split;
  case NODE_GE: return value >= split;
  case NODE_GT: return value > split;
  case NODE_EQ: return value == split;
  case NODE_NE: return value != split;
  default:
    for (i64 i = 0; i < node.count; i++)
      if (forest.members[node.first + i] == value) return true;
    return false;
  }
}

// What a target has got so far, and its share of a leaf's weight.
HIPC_SHARED f64 aggregated(i64 aggregate, f64 total, bool seen, f64 weight) {
  if (aggregate <= AGGREGATE_AVERAGE) return total + weight;
  return !seen || (aggregate == AGGREGATE_MIN ? weight < total : weight > total) ? weight : total;
}

} // namespace hipc
