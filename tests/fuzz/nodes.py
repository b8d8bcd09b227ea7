"""One node at a time, of any rank: extents known to the compiler or left to the run, axis by axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import helper

import hip_compiler
from hip_compiler.dtypes import BY_NUMPY

OPSET = 21
small = st.sampled_from((0, 1, 1, 2, 3, 4))


def shapes(least: int = 0, most: int = 6, extent: st.SearchStrategy[int] = small) -> st.SearchStrategy[tuple[int, ...]]:
    """Shapes of rank `least` to `most`; of many axes few are longer than 2, so that they stay small."""

    def limited(shape: Sequence[int]) -> tuple[int, ...]:
        return tuple(min(e, 2) if len(shape) > 4 and i % 2 else e for i, e in enumerate(shape))

    return st.lists(extent, min_size=least, max_size=most).map(limited)


def node(op: str, feeds: Mapping[str, np.ndarray], known: int, *arguments: Any, **attributes: Any) -> list[np.ndarray]:
    """Results of a model that `model_of` makes of the same arguments."""
    made = model_of(op, feeds, known, *arguments, **attributes)
    given = {name: array for name, array in feeds.items() if not name.startswith("_")}
    with hip_compiler.compile(made) as session:
        return list(session.run(given).values())


def model_of(
    op: str,
    feeds: Mapping[str, np.ndarray],
    known: int,
    outputs: int = 1,
    constants: Mapping[str, np.ndarray] | None = None,
    sized: Sequence[str] = (),
    opset: int = OPSET,
    domain: str = "",
    **attributes: Any,
) -> onnx.ModelProto:
    """One node whose inputs are the feeds and then the constants; one whose name starts with "_" is absent.

    Args:
        known: bits: the n-th axis of all inputs together has an extent known to the compiler where bit n is set.
        sized: inputs whose lengths are known in any case.
    """
    infos, position = [], 0
    names = ["" if name.startswith("_") else name for name in (*feeds, *(constants or {}))]
    feeds = {name: array for name, array in feeds.items() if not name.startswith("_")}
    for name, array in feeds.items():
        extents: list[int | str] = []
        for axis, extent in enumerate(array.shape):
            extents.append(int(extent) if name in sized or known >> position % 16 & 1 else f"{name}{axis}")
            position += 1
        infos.append(helper.make_tensor_value_info(name, BY_NUMPY[array.dtype].onnx, extents))
    present = {name: array for name, array in (constants or {}).items() if not name.startswith("_")}
    held = [onnx.numpy_helper.from_array(array, name) for name, array in present.items()]
    results = [f"y{i}" for i in range(outputs)]
    made = helper.make_node(op, names, results, "node", domain=domain, **attributes)
    graph = helper.make_graph([made], "g", infos, [helper.make_empty_tensor_value_info(name) for name in results], held)
    imports = [helper.make_opsetid("", opset)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    return helper.make_model(graph, opset_imports=imports, ir_version=10)
