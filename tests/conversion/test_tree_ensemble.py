"""TreeEnsemble, with leaves in a list of their own, against a walk in Python: every comparison, sets, every type."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import hip_compiler
from hip_compiler.dtypes import BY_NUMPY

RNG = np.random.default_rng(12)
COMPARISONS = (operator.le, operator.lt, operator.ge, operator.gt, operator.eq, operator.ne)
MEMBER = 6
SETS = ((0.5, -1.0), (1.5,))
AGGREGATES = (np.mean, np.sum, np.min, np.max)
X = RNG.integers(-4, 5, (12, 3)) / 2.0
X[::5, 1] = np.nan
# Two trees of depth two: nodes 0 to 2 and 3 to 5; the third and the fifth test for membership.
MODES = (0, 3, MEMBER, 1, MEMBER, 5)
FEATURES = (1, 0, 2, 0, 1, 2)
SPLITS = (0.5, -0.5, 0.0, 0.5, 0.0, 1.5)
MISSING = (1, 0, 0, 0, 1, 0)
TARGETS = (0, 1, 1, 0, 0, 1, 0, 1)
WEIGHTS = (1.5, -2.0, 0.25, 3.0, -0.5, 1.0, 2.5, -1.0)


def walked(row: np.ndarray, node: int) -> int:
    """The leaf that a row reaches from a node; inner nodes of a tree come before its leaves."""
    first = 0 if node < 3 else 3
    while True:
        value = row[FEATURES[node]]
        holds = (value in SETS[(2, 4).index(node)] if MODES[node] == MEMBER else
                 bool(COMPARISONS[MODES[node]](value, SPLITS[node])))  # fmt: skip
        holds = holds or (bool(np.isnan(value)) and bool(MISSING[node]))
        if node != first:
            return 4 * (first // 3) + 2 * (node - first - 1) + (not holds)
        node = first + 1 if holds else first + 2


def ensemble(dtype: Any, aggregate: int) -> onnx.ModelProto:
    sets = np.array([number for members in SETS for number in (*members, np.nan)])
    attributes: dict[str, Any] = {
        "nodes_modes": np.array(MODES, np.uint8),
        "nodes_splits": np.array(SPLITS, dtype), "leaf_weights": np.array(WEIGHTS, dtype),
        "membership_values": sets.astype(dtype),
    }  # fmt: skip
    tensors = {name: onnx.numpy_helper.from_array(array, name) for name, array in attributes.items()}
    node = helper.make_node(
        "TreeEnsemble", ["x"], ["y"], domain="ai.onnx.ml", n_targets=2, aggregate_function=aggregate, post_transform=0,
        tree_roots=[0, 3], nodes_featureids=FEATURES, nodes_missing_value_tracks_true=MISSING,
        nodes_truenodeids=[1, 0, 2, 4, 4, 6], nodes_trueleafs=[0, 1, 1, 0, 1, 1],
        nodes_falsenodeids=[2, 1, 3, 5, 5, 7], nodes_falseleafs=[0, 1, 1, 0, 1, 1], leaf_targetids=TARGETS, **tensors,
    )  # fmt: skip
    x = helper.make_tensor_value_info("x", BY_NUMPY[np.dtype(dtype)].onnx, ["n", 3])
    graph = helper.make_graph([node], "trees", [x], [helper.make_empty_tensor_value_info("y")])
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 5)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


@pytest.mark.parametrize("aggregate", range(4))
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_every_row_reaches_its_leaves(dtype: Any, aggregate: int) -> None:
    x = X.astype(dtype)
    found = hip_compiler.compile(ensemble(dtype, aggregate)).run({"x": x})["y"]
    wanted = np.zeros((len(x), 2))
    reached = set()
    for number, row in enumerate(x.astype(np.float64)):
        leaves = [walked(row, root) for root in (0, 3)]
        reached |= set(leaves)
        for target in range(2):
            weights = [WEIGHTS[leaf] for leaf in leaves if TARGETS[leaf] == target]
            if aggregate == 0:
                wanted[number, target] = sum(weights) / 2  # of all trees
            elif weights:
                wanted[number, target] = AGGREGATES[aggregate](weights)
    assert len(reached) >= 6
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, wanted)


def test_other_types_are_refused() -> None:
    model = ensemble(np.float32, 1)
    model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.BFLOAT16
    with pytest.raises(hip_compiler.UnsupportedError, match="bfloat16 is not defined for it"):
        hip_compiler.compile(model)
