"""Case C16: what is claimed is what compiles. A provider's claim and a compilation give one verdict, of one origin."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import hip_compiler
from hip_compiler.core.frontend.load import LoadedModel
from hip_compiler.core.options import CompileOptions
from hip_compiler.ort.claim import LEFT, Claim, claim
from hip_compiler.registry.registry import load_registry
from tests.kernels.compare import draw
from tests.llm.graphs import node_model
from tests.llm.oracles import quantised
from tests.llm.test_group_query_attention import OP, OUTPUTS, Case

ATTENTION: list[dict[str, Any]] = [
    {},
    {"softcap": 3.0},
    {"local_window_size": 4},
    {"smooth_softmax": 1},
    {"causal": 0},
    {"sliding_window_cache": 1},
    {"local_window_size": 0},
    {"unheard_of": 3},
    {"kv_cache_bit_width": 8, "k_quant_type": "PER_TENSOR"},
    {"do_rotary": 1},
]
PRODUCTS: list[dict[str, Any]] = [
    {"bits": 4, "block_size": 32},
    {"bits": 4, "block_size": 32, "accuracy_level": 4},
    {"bits": 3, "block_size": 32},
    {"bits": 4, "block_size": 48},
    {"bits": 4, "block_size": 32, "accuracy_level": 7},
    {"bits": 4, "block_size": 32, "weight_prepacked": 1},
]


def attention(attributes: dict[str, Any]) -> onnx.ModelProto:
    case = Case(past=(6,), length=2)
    return node_model(OP, case.arrays(), OUTPUTS, **(case.attributes() | attributes))


def product(attributes: dict[str, Any]) -> onnx.ModelProto:
    q = quantised(24, 96, 4, 32)
    inputs: dict[str, np.ndarray | None] = {"a": draw((1, 96)), "b": q.weights, "scales": q.scales}
    return node_model("MatMulNBits", inputs, ["y"], constants=["b", "scales"], N=24, K=96, **attributes)


def verdict(model: onnx.ModelProto) -> Claim:
    """The provider's. ONNX Runtime tells it the element types of results."""
    for entry in model.graph.output:
        entry.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    return claim(LoadedModel(model, (), "a test"), CompileOptions(), load_registry(()))


MODELS = [(attention, attributes) for attributes in ATTENTION] + [(product, attributes) for attributes in PRODUCTS]


@pytest.mark.parametrize(("make", "attributes"), MODELS)
def test_claim_and_compilation_agree(make: Any, attributes: dict[str, Any]) -> None:
    model = make(attributes)
    found = verdict(make(attributes))
    try:
        hip_compiler.compile(model).close()
    except hip_compiler.UnsupportedError as error:
        assert found.groups == (LEFT,)
        [sentence] = found.left
        reason = sentence.split(": ", 1)[1]
        assert reason and reason in str(error)
    else:
        assert found.groups == (0,) and found.left == ()


def test_both_verdicts_are_among_these() -> None:
    assert {verdict(make(attributes)).groups for make, attributes in MODELS} == {(LEFT,), (0,)}
