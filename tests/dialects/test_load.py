"""Dialects loaded from definitions: both forms, what the verifier says, effects, building and reading."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from hip_compiler.core.dialects.access import create_op, read_op
from hip_compiler.core.dialects.load import make_context
from hip_compiler.core.mlir import PassManager, ir
from hip_compiler.registry.contributions import (
    AttributeDef,
    CallLowering,
    DialectContribution,
    OpDef,
    OperandDef,
    PlainOpDef,
)


def refuse_axis_9(operation: Any) -> str | None:
    axis = operation.attributes["axis"].value
    if axis == 8:
        raise RuntimeError("no such luck")
    return "axis 9 is not for us" if axis == 9 else None


SOFTMAX = OpDef(
    "toy.softmax",
    "",
    (OperandDef("x"),),
    (OperandDef("y"),),
    lambda shapes: [],
    CallLowering("toy_softmax"),
    (
        AttributeDef("axis", "int"),
        AttributeDef("log", "bool", False),
        AttributeDef("mode", "string", "fast", ("fast", "exact")),
        AttributeDef("eps", "float", 0.5),
        AttributeDef("pads", "ints", ()),
        AttributeDef("scales", "floats", (1.0,)),
    ),
    verify=refuse_axis_9,
)
MATMUL = OpDef(
    "toy.matmul",
    "",
    (OperandDef("a"), OperandDef("bias", optional=True), OperandDef("residual", optional=True)),
    (OperandDef("results"),),
    lambda shapes: [],
    CallLowering("toy_matmul"),
)
CONCAT = OpDef(
    "toy.concat",
    "",
    (OperandDef("parts", variadic=True),),
    (OperandDef("y"), OperandDef("z")),
    lambda shapes: [],
    CallLowering("toy_concat"),
)
TOY = DialectContribution(
    "toy",
    (SOFTMAX, MATMUL, CONCAT),
    (
        PlainOpDef("toy.pool", "", results=(OperandDef("pool"),)),
        PlainOpDef("toy.view", "", results=(OperandDef("v"),), pure=True),
    ),
    ("context",),
)
T = "tensor<?x4xf32>"


@pytest.fixture
def context() -> Iterator[Any]:
    made = make_context(SimpleNamespace(dialects=(TOY,)))
    with made, ir.Location.unknown():
        yield made


def function(body: str) -> str:
    return f"func.func @f(%c: !toy.context, %x: {T}, %o: {T}, %m: memref<4xf32>) {{\n{body}\nreturn\n}}"


def operations(module: Any) -> list[Any]:
    return list(module.body.operations[0].regions[0].blocks[0].operations)


def test_round_trip_is_stable(context: Any) -> None:
    text = function(
        f"""%0 = "toy.softmax"(%x, %o) {{axis = 1 : i64}} : ({T}, {T}) -> {T}
        "toy.softmax"(%m, %m) {{axis = 0 : i64}} : (memref<4xf32>, memref<4xf32>) -> ()
        %1:2 = "toy.concat"(%x, %x, %x, %o, %o) {{resultSegmentSizes = array<i32: 1, 1>}}
          : ({T}, {T}, {T}, {T}, {T}) -> ({T}, {T})
        %2 = "toy.pool"() : () -> memref<?xi8>"""
    )
    once = str(ir.Module.parse(text))
    assert "toy.concat" in once
    assert str(ir.Module.parse(once)) == once


@pytest.mark.parametrize(
    ("op", "message"),
    [
        (
            f'"toy.softmax"(%x, %o) {{axs = 1 : i64}} : ({T}, {T}) -> {T}',
            "unknown attribute 'axs'; did you mean 'axis'?",
        ),
        (f'"toy.softmax"(%x, %o) : ({T}, {T}) -> {T}', "needs attribute 'axis'"),
        (f'"toy.softmax"(%x, %o) {{axis = 1.0 : f64}} : ({T}, {T}) -> {T}', "expected an integer such as 1 : i64"),
        (f'"toy.softmax"(%x, %o) {{axis = true}} : ({T}, {T}) -> {T}', "expected an integer such as 1 : i64"),
        (f'"toy.softmax"(%x, %o) {{axis = 1, log = 1 : i64}} : ({T}, {T}) -> {T}', "expected true or false"),
        (f'"toy.softmax"(%x, %o) {{axis = 1, mode = "slow"}} : ({T}, {T}) -> {T}', "expected one of fast, exact"),
        (f'"toy.softmax"(%x, %o) {{axis = 1, pads = [1]}} : ({T}, {T}) -> {T}', "expected integers such as array<i64"),
        (f'"toy.softmax"(%x, %o) {{axis = 9 : i64}} : ({T}, {T}) -> {T}', "axis 9 is not for us"),
        (
            f'"toy.softmax"(%x, %o) {{axis = 8 : i64}} : ({T}, {T}) -> {T}',
            "its verifier failed with RuntimeError: no such luck",
        ),
        (f'"toy.softmax"(%x, %o) {{axis = 1 : i64}} : ({T}, {T}) -> tensor<4x4xf32>', "differ from the destinations'"),
        (
            f'"toy.softmax"(%x, %m) {{axis = 1 : i64}} : ({T}, memref<4xf32>) -> {T}',
            "expected ranked tensors only, or memrefs only",
        ),
        (f'"toy.matmul"(%x, %o) : ({T}, {T}) -> {T}', "operandSegmentSizes"),
        (f'"toy.unknown"(%x) : ({T}) -> ()', "toy.unknown"),
    ],
)
def test_what_the_verifier_says(context: Any, op: str, message: str) -> None:
    with pytest.raises(ir.MLIRError) as caught:
        ir.Module.parse(function(op))
    assert message in str(caught.value)


def test_effects_let_unused_tensor_ops_go_and_keep_memref_ops(context: Any) -> None:
    module = ir.Module.parse(
        function(
            f"""%0 = "toy.softmax"(%x, %o) {{axis = 1 : i64}} : ({T}, {T}) -> {T}
            "toy.softmax"(%m, %m) {{axis = 0 : i64}} : (memref<4xf32>, memref<4xf32>) -> ()
            %1 = "toy.pool"() : () -> memref<?xi8>
            %2 = "toy.view"() : () -> memref<?xi8>"""
        )
    )
    PassManager.parse("builtin.module(canonicalize,cse)").run(module.operation)
    assert [op.operation.name for op in operations(module)] == ["toy.softmax", "toy.pool", "func.return"]


def test_create_and_read_agree(context: Any) -> None:
    module = ir.Module.parse(function(""))
    block = module.body.operations[0].regions[0].blocks[0]
    _, x, out, memory = block.arguments
    with ir.InsertionPoint.at_block_begin(block):
        first = create_op(MATMUL, [x, None, x], [out])
        second = create_op(SOFTMAX, [memory], [memory], {"axis": 2, "log": True, "pads": (1, 2), "eps": 1.0})
        third = create_op(CONCAT, [[x, x]], [out, out])
    assert module.operation.verify()
    parts = read_op(MATMUL, first)
    assert parts.inputs == {"a": x, "bias": None, "residual": x}
    assert parts.outputs == {"results": out}
    assert len(first.results) == 1
    assert read_op(SOFTMAX, second).attributes == {
        "axis": 2, "log": True, "mode": "fast", "eps": 1.0, "pads": (1, 2), "scales": (1.0,)
    }  # fmt: skip
    assert len(second.results) == 0
    assert read_op(CONCAT, third).inputs == {"parts": (x, x)}


def test_create_refuses_what_does_not_fit(context: Any) -> None:
    module = ir.Module.parse(function(""))
    block = module.body.operations[0].regions[0].blocks[0]
    _, x, out, _ = block.arguments
    with ir.InsertionPoint.at_block_begin(block):
        with pytest.raises(ValueError, match="needs attribute 'axis'"):
            create_op(SOFTMAX, [x], [out])
        with pytest.raises(ValueError, match="has no attribute axes"):
            create_op(SOFTMAX, [x], [out], {"axis": 1, "axes": 1})
        with pytest.raises(ValueError, match="none of fast, exact"):
            create_op(SOFTMAX, [x], [out], {"axis": 1, "mode": "slow"})
        with pytest.raises(ValueError, match="operand 'a' is not optional"):
            create_op(MATMUL, [None, None, None], [out])


def test_a_dialect_loads_into_several_contexts() -> None:
    for _ in range(3):
        with make_context(SimpleNamespace(dialects=(TOY,))), ir.Location.unknown():
            module = ir.Module.parse(function(""))
            assert "!toy.context" in str(module)
