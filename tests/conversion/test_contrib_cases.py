"""Operators of com.microsoft against ONNX Runtime: one model with all the cases of an operator."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import hip_compiler
from hip_compiler.dtypes import BY_NUMPY
from tests.conversion.contrib_cases import CASES, Case

SUMS = ("SkipLayerNormalization", "SkipSimplifiedLayerNormalization")
"""ONNX Runtime gives the last of their outputs, and not those in between."""
STEPS = {"QLinearAdd", "QLinearMul", "QLinearLeakyRelu", "QLinearAveragePool", "QLinearGlobalAveragePool",
         "QLinearConcat", "QGemm"}  # fmt: skip
"""A half that is not quite one is rounded one way or the other."""


def model(cases: list[Case]) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    nodes, feeds, outputs = [], dict[str, np.ndarray](), []
    for number, case in enumerate(cases):
        names = ["" if array is None else f"i{number}_{i}" for i, array in enumerate(case.inputs)]
        feeds |= {name: array for name, array in zip(names, case.inputs, strict=True) if array is not None}
        results = [f"o{number}_{i}" for i in range(case.outputs)]
        if case.op in SUMS and case.outputs == 4:
            results[1] = results[2] = ""
        outputs += [name for name in results if name]
        nodes.append(helper.make_node(case.op, names, results, f"n{number}", domain="com.microsoft", **case.attributes))
    infos = [helper.make_tensor_value_info(n, BY_NUMPY[a.dtype].onnx, a.shape) for n, a in feeds.items()]
    graph = helper.make_graph(nodes, "cases", infos, [helper.make_empty_tensor_value_info(name) for name in outputs])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10), feeds


@pytest.mark.parametrize("op", sorted({case.op for case in CASES}))
def test_every_variant_is_the_same(op: str) -> None:
    cases = [case for case in CASES if case.op == op]
    proto, feeds = model(cases)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    reference = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    expected = dict(zip([info.name for info in proto.graph.output], reference.run(None, feeds), strict=True))
    found = hip_compiler.compile(proto).run(feeds)
    for name, wanted in expected.items():
        case = cases[int(name[1:].split("_")[0])]
        got, what = found[name], f"{name}: {case.attributes} {[None if a is None else a.shape for a in case.inputs]}"
        assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape), what
        if op in STEPS and got.dtype != np.float32:
            apart = np.abs(got.astype(int) - wanted.astype(int))
            assert apart.max() <= 1, what
            assert (apart == 0).mean() > 0.8, what
        else:
            np.testing.assert_allclose(got, wanted, rtol=2e-4, atol=2e-5, err_msg=what)


def test_queries_of_another_sequence_are_not_guessed_to_be_later() -> None:
    proto, feeds = model([case for case in CASES if case.op == "MultiHeadAttention"][:1])
    proto.graph.node[0].attribute.append(helper.make_attribute("unidirectional", 1))
    with pytest.raises(hip_compiler.UnsupportedError, match="queries and keys: extents 3 and 4 differ"):
        hip_compiler.compile(proto).run(feeds)
