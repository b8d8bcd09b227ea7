// hipc_tree_ensemble: sums, means, minima or maxima of the leaves that the rows of a table reach in decision trees.
#include "shared/tables.h"

using namespace hipc;

namespace {

template <class T> const Node &reached(const Forest &forest, int64_t at, const T *x) {
  while (forest.nodes[at].mode != NODE_LEAF) {
    const Node &node = forest.nodes[at];
    at = decides_yes(forest, node, forest.splits[at], (double)widen(x[node.feature])) ? node.yes : node.no;
  }
  return forest.nodes[at];
}

// Scores of one row; `seen` says which targets any leaf has named.
template <class T>
void score(const Forest &forest, int64_t aggregate, const T *x, double *scores, uint8_t *seen, int64_t targets) {
  for (int64_t i = 0; i < targets; i++) scores[i] = 0, seen[i] = 0;
  for (int64_t tree = 0; tree < forest.trees; tree++) {
    const Node &node = reached(forest, forest.roots[tree], x);
    for (int64_t i = node.first; i < node.first + node.count; i++) {
      int64_t target = forest.targets[i];
      scores[target] = aggregated(aggregate, scores[target], seen[target], forest.weights[i]);
      seen[target] = 1;
    }
  }
  if (aggregate == AGGREGATE_AVERAGE && forest.trees)
    for (int64_t i = 0; i < targets; i++) scores[i] /= (double)forest.trees;
}

// The tables come from the model: nothing in them may point outside.
int32_t check_tables(hipc_context *context, const char *op, const hipc_tensor *nodes, const Forest &forest,
                     int64_t features, int64_t members, int64_t leaves, int64_t targets) {
  ForestLimits limits{nodes->shape[0], features, members, leaves, targets};
  bool good = true;
  for (int64_t i = 0; i < limits.nodes; i++) good = good && is_within(forest.nodes[i], limits);
  for (int64_t i = 0; i < forest.trees; i++) good = good && is_range(forest.roots[i], 1, limits.nodes);
  for (int64_t i = 0; i < leaves; i++) good = good && is_range(forest.targets[i], 1, targets);
  return good ? HIPC_OK : hipc_error(context, HIPC_ERROR_INDEX, "%s: a tree names a node, feature or target that is not there", op);
}

} // namespace

HIPC_EXPORT int32_t hipc_tree_ensemble(hipc_context *context, const hipc_tensor *x, const hipc_tensor *nodes,
                                       const hipc_tensor *splits, const hipc_tensor *roots, const hipc_tensor *targets,
                                       const hipc_tensor *weights, const hipc_tensor *members, hipc_tensor *y,
                                       int64_t aggregate) {
  const char *op = "tree_ensemble";
  HIPC_TRY(check_contiguous(context, op, x, nodes, splits, roots, targets, weights, members, y));
  if (x->rank != 2 || y->rank != 2 || x->shape[0] != y->shape[0] || nodes->rank != 2 || nodes->shape[1] != 7 ||
      elements(splits) != nodes->shape[0] || elements(targets) != elements(weights) || x->dtype != y->dtype)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: shapes of the table and of the trees do not fit", op);
  Forest forest{data<const Node>(nodes),   data<const double>(splits),  data<const double>(members),
                data<const double>(weights), data<const int64_t>(roots), data<const int64_t>(targets), elements(roots)};
  int64_t features = x->shape[1], classes = y->shape[1];
  HIPC_TRY(check_tables(context, op, nodes, forest, features, elements(members), elements(weights), classes));
  if (elements(y) == 0) return HIPC_OK;
  return dispatch_float(context, op, x->dtype, [&]<class T>() -> int32_t {
    int64_t stride = round_up(classes * (int64_t)(sizeof(double) + 1), 64);
    char *memory = (char *)hipc_scratch(context, hipc_num_threads(context) * stride);
    if (!memory) return out_of_memory(context, op);
    const T *from = data<T>(x);
    T *to = data<T>(y);
    parallel_for_threads(context, x->shape[0], forest.trees * 64, [=](int64_t begin, int64_t end, int32_t thread) {
      double *scores = (double *)(memory + thread * stride);
      for (int64_t row = begin; row < end; row++) {
        score(forest, aggregate, from + row * features, scores, (uint8_t *)(scores + classes), classes);
        for (int64_t i = 0; i < classes; i++) to[row * classes + i] = (T)(Compute<T>)scores[i];
      }
    });
    return HIPC_OK;
  });
}
