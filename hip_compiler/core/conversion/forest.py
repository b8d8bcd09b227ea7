"""Decision trees as the tables of `hip.tree_ensemble`, from the attributes of three generations of operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hip_compiler.core.conversion.onnx_op import NotSupportedError, OnnxOp

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF")
MEMBER, LEAF = MODES.index("BRANCH_MEMBER"), MODES.index("LEAF")


@dataclass(frozen=True)
class Forest:
    """Operands of `hip.tree_ensemble`.

    Attributes:
        nodes: int64 [nodes, 7]: feature, mode, yes, no, missing is yes, first, count.
        splits: float64 [nodes].
        roots: int64 [trees].
        targets: int64 [weights], the target that each weight is for.
        weights: float64 [weights].
        members: float64, what set-membership nodes test for.
    """

    nodes: np.ndarray
    splits: np.ndarray
    roots: np.ndarray
    targets: np.ndarray
    weights: np.ndarray
    members: np.ndarray


def _list(op: OnnxOp, name: str, dtype: Any, default: Sequence[float] = ()) -> np.ndarray:
    """An attribute as an array; of a pair `name` and `name_as_tensor`, the one that is given."""
    value = op.attr(name)
    tensor = op.attr(f"{name}_as_tensor")
    chosen = tensor if tensor is not None else value
    return np.asarray(default if chosen is None else chosen, dtype=dtype).reshape(-1)


def _like(values: np.ndarray, count: int, what: str) -> np.ndarray:
    if len(values) != count:
        raise NotSupportedError(f"{len(values)} entries of {what} for {count} nodes")
    return values


def read_forest(op: OnnxOp, prefix: str) -> Forest:
    """Trees of TreeEnsembleRegressor (`target`) and TreeEnsembleClassifier (`class`).

    Raises:
        NotSupportedError: attributes that do not describe trees.
    """
    op.ignore("nodes_hitrates", "nodes_hitrates_as_tensor")
    trees, numbers = _list(op, "nodes_treeids", np.int64), _list(op, "nodes_nodeids", np.int64)
    count = len(trees)
    names = op.attr("nodes_modes", [])
    if len(names) != count or len(numbers) != count or any(name not in MODES for name in names):
        raise NotSupportedError("nodes_treeids, nodes_nodeids and nodes_modes do not describe nodes")
    modes = np.array([MODES.index(name) for name in names], np.int64)
    position = {key: i for i, key in enumerate(zip(trees.tolist(), numbers.tolist(), strict=True))}
    leaf = modes == LEAF

    def child(name: str) -> np.ndarray:
        given = _like(_list(op, name, np.int64), count, name)
        return np.array(
            [0 if leaf[i] else position.get((int(trees[i]), int(given[i])), -1) for i in range(count)], np.int64
        )

    nodes = np.zeros((count, 7), np.int64)
    nodes[:, 0] = np.where(leaf, 0, _like(_list(op, "nodes_featureids", np.int64), count, "nodes_featureids"))
    nodes[:, 1] = modes
    nodes[:, 2], nodes[:, 3] = child("nodes_truenodeids"), child("nodes_falsenodeids")
    nodes[:, 4] = _like(_list(op, "nodes_missing_value_tracks_true", np.int64, [0] * count), count, "missing values")
    owners = list(zip(_list(op, f"{prefix}_treeids", np.int64), _list(op, f"{prefix}_nodeids", np.int64), strict=True))
    targets, weights = _list(op, f"{prefix}_ids", np.int64), _list(op, f"{prefix}_weights", np.float64)
    if not len(owners) == len(targets) == len(weights):
        raise NotSupportedError(f"{prefix}_treeids, {prefix}_ids and {prefix}_weights of different lengths")
    owner = np.array([position.get((int(a), int(b)), -1) for a, b in owners], np.int64)
    order = np.argsort(owner, kind="stable")
    nodes[leaf, 5] = np.searchsorted(owner[order], np.flatnonzero(leaf), side="left")
    nodes[leaf, 6] = np.searchsorted(owner[order], np.flatnonzero(leaf), side="right") - nodes[leaf, 5]
    splits = _like(_list(op, "nodes_values", np.float64), count, "nodes_values")
    children = {int(node) for node in nodes[~leaf][:, 2:4].flat}
    roots = np.array([i for i in range(count) if i not in children], np.int64)
    return _checked(Forest(nodes, splits, roots, targets[order], weights[order], np.zeros(0)))


def read_forest_of_opset_5(op: OnnxOp) -> Forest:
    """Trees of the TreeEnsemble operator, whose leaves are a list of their own.

    Raises:
        NotSupportedError: attributes that do not describe trees.
    """
    op.ignore("nodes_hitrates")
    modes = _list(op, "nodes_modes", np.int64)
    count = len(modes)
    targets, weights = _list(op, "leaf_targetids", np.int64), _list(op, "leaf_weights", np.float64)
    if len(targets) != len(weights) or not np.isin(modes, range(LEAF)).all():
        raise NotSupportedError("leaf_targetids, leaf_weights and nodes_modes do not describe nodes")
    nodes = np.zeros((count + len(targets), 7), np.int64)
    nodes[:count, 0] = _like(_list(op, "nodes_featureids", np.int64), count, "nodes_featureids")
    nodes[:count, 1], nodes[count:, 1] = modes, LEAF
    for column, side in ((2, "true"), (3, "false")):
        child = _like(_list(op, f"nodes_{side}nodeids", np.int64), count, f"nodes_{side}nodeids")
        is_leaf = _like(_list(op, f"nodes_{side}leafs", np.int64), count, f"nodes_{side}leafs") != 0
        limit = np.where(is_leaf, len(targets), count)
        nodes[:count, column] = np.where((child < 0) | (child >= limit), -1, child + is_leaf * count)
    nodes[:count, 4] = _like(
        _list(op, "nodes_missing_value_tracks_true", np.int64, [0] * count), count, "missing values"
    )
    nodes[count:, 5], nodes[count:, 6] = np.arange(len(targets)), 1
    # Sets follow each other in the order of their nodes, with a NaN after each.
    values = _list(op, "membership_values", np.float64)
    ends = np.flatnonzero(np.isnan(values))
    sets = np.flatnonzero(modes == MEMBER)
    if len(ends) < len(sets):
        raise NotSupportedError(f"{len(ends)} sets for {len(sets)} nodes that test membership")
    starts = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
    nodes[sets, 5], nodes[sets, 6] = starts[: len(sets)], (ends - starts)[: len(sets)]
    splits = np.concatenate(
        [_like(_list(op, "nodes_splits", np.float64), count, "nodes_splits"), np.zeros(len(targets))]
    )
    return _checked(Forest(nodes, splits, _list(op, "tree_roots", np.int64), targets, weights, values))


def always_scored(forest: Forest) -> set[int]:
    """Targets that every row gets something for: those that all leaves of some tree name."""
    found: set[int] = set()
    for root in forest.roots.tolist():
        level, seen, common = [root], {root}, None
        while level:
            node = level.pop()
            _, mode, yes, no, _, first, count = forest.nodes[node].tolist()
            if mode == LEAF:
                named = set(forest.targets[first : first + count].tolist())
                common = named if common is None else common & named
                if not common:
                    break
                continue
            level += {yes, no} - seen
            seen |= {yes, no}
        found |= common or set()
    return found


def _checked(forest: Forest) -> Forest:
    """The forest, once every walk from a root is known to end.

    Raises:
        NotSupportedError: a child that is not there, or a node that is its own descendant.
    """
    count = len(forest.nodes)
    inner = forest.nodes[:, 1] != LEAF
    children = forest.nodes[inner][:, 2:4]
    if ((children < 0) | (children >= count)).any() or ((forest.roots < 0) | (forest.roots >= count)).any():
        raise NotSupportedError("a tree has a child that is no node of it")
    if count and not len(forest.roots):
        raise NotSupportedError("the nodes are no trees: every one is the child of another")
    level, reached = np.unique(forest.roots), np.zeros(count, bool)
    for _ in range(count):
        reached[level] = True
        level = np.unique(forest.nodes[level[inner[level]]][:, 2:4])
        if not len(level):
            break
    if len(level) or not reached[inner].all():
        raise NotSupportedError("the nodes are no trees: one is its own descendant")
    return forest
