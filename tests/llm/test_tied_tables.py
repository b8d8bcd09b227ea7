"""Embedding tables that are the last product's matrix are stored once, packed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import onnx.numpy_helper as numpy_helper
import pytest

import hip_compiler
from tests.kernels.compare import assert_close, widen
from tests.llm import drive
from tests.models.decoders import PRECISIONS, SHAPES, decoder

TIED = replace(SHAPES["smollm2"], vocabulary=150)
GATHERS = ("hip.gather", "hip.gather_block_quantized", "hip.gather_packed")


def prompt(model: onnx.ModelProto, tokens: list[int]) -> drive.Arrays:
    ids = np.array([tokens])
    return {"input_ids": ids, "attention_mask": np.ones_like(ids), **drive.empty_states(model, TIED.size)}


@pytest.mark.parametrize("precision", ["fp32", "int4", "int4-asym", "int8"])
def test_the_table_is_stored_once_and_read_right(precision: str) -> None:
    settings = replace(PRECISIONS[precision], accuracy=0)
    tied, apart = decoder(TIED, settings), decoder(replace(TIED, shared=False), settings)
    feeds = prompt(tied, [0, 149, 31, 32, 15, 16, 77, -1 if precision == "fp32" else 5])
    with hip_compiler.compile(tied) as session, hip_compiler.compile(apart) as other:
        ops = session.metadata.ops
        assert {name: ops.get(name, 0) for name in GATHERS} == dict(zip(GATHERS, (0, 0, 1), strict=True))
        assert other.metadata.ops.get("hip.gather_packed", 0) == 0
        sizes = [loaded.metadata.constants.bytes for loaded in (session, other) if loaded.metadata.constants]
        assert sizes[1] - sizes[0] > 0.95 * 4 * TIED.vocabulary * TIED.hidden
        ours = session.run(feeds)["logits"]
    assert_close(ours, widen(drive.onnx_runtime(tied.SerializeToString())(feeds)["logits"]), factor=100)


def test_a_token_outside_the_table_is_refused() -> None:
    model = decoder(TIED, PRECISIONS["fp32"])
    with (
        hip_compiler.compile(model) as session,
        pytest.raises(hip_compiler.HipCompilerError, match=r"embedded.*index 150 is outside \[-150, 150\)"),
    ):
        session.run(prompt(model, [150]))


def test_a_table_that_differs_in_one_bit_is_stored_apart() -> None:
    model = decoder(TIED, PRECISIONS["fp32"])
    [matrix] = [entry for entry in model.graph.initializer if entry.name == "lm_head.weight"]
    array = numpy_helper.to_array(matrix).T.copy()
    array[3, 5] = np.nextafter(array[3, 5], np.float32(9))
    model.graph.initializer.append(numpy_helper.from_array(array, "own_table"))
    [gather] = [node for node in model.graph.node if node.name == "/embedded"]
    gather.input[0] = "own_table"
    [transpose] = [node for node in model.graph.node if node.op_type == "Transpose"]
    model.graph.node.remove(transpose)
    with hip_compiler.compile(model) as session:
        assert session.metadata.ops.get("hip.gather_packed", 0) == 0
        feeds = prompt(model, [3, 4])
        ours = session.run(feeds)["logits"]
    assert_close(ours, widen(drive.onnx_runtime(model.SerializeToString())(feeds)["logits"]), factor=100)
