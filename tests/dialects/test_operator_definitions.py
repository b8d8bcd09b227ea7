"""Verifiers and shape functions of the operator families, on operations in tensor form."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hip_compiler.core.dialects.access import needs_segments
from hip_compiler.core.mlir import ir
from hip_compiler.registry.contributions import CallLowering, OpDef, OpShapes
from hip_compiler.shapes import Dim, dim, shape, symbol

FAMILIES = (
    "conv",
    "conv_transpose",
    "cumsum",
    "gather",
    "layout",
    "linear_algebra",
    "matmul",
    "nms",
    "noise",
    "norm",
    "pairwise",
    "pool",
    "ranking",
    "reduce",
    "resize",
    "rnn",
    "sampling",
    "scatter",
    "selection",
    "softmax",
    "spectrum",
    "tables",
    "unfold",
)
OPS: dict[str, OpDef] = {
    op.name: op for family in FAMILIES for op in importlib.import_module(f"hip_compiler.core.dialects.hip.{family}").OPS
}
KERNELS = Path(__file__).resolve().parents[2] / "kernels" / "host"


def problem(name: str, types: Mapping[str, str], attributes: str = "") -> str | None:
    """What the verifier of an operation says, given the types of the operands that are present."""
    definition = OPS[f"hip.{name}"]
    names = [operand.name for operand in (*definition.inputs, *definition.outputs)]
    assert set(types) <= set(names)
    present = [operand for operand in names if operand in types]
    sizes = ", ".join(str(int(operand in types)) for operand in names)
    arguments = ", ".join(f"%{operand}: {types[operand]}" for operand in present)
    results = ", ".join(types[output.name] for output in definition.outputs)
    segments = f"operandSegmentSizes = array<i32: {sizes}>" if needs_segments(definition) else ""
    written = ", ".join(part for part in (segments, attributes) if part)
    text = f"""
func.func @f({arguments}) {{
  %r:{len(definition.outputs)} = "hip.{name}"({", ".join("%" + operand for operand in present)})
      {{{written}}} : ({", ".join(types[o] for o in present)}) -> ({results})
  return
}}"""
    with ir.Context() as context, ir.Location.unknown():
        context.allow_unregistered_dialects = True
        module = ir.Module.parse(text)
        operation = module.body.operations[0].regions[0].blocks[0].operations[0].operation
        assert definition.verify is not None
        return definition.verify(operation)


def reify(name: str, inputs: Mapping[str, Any], dtype: str = "f32", **attributes: Any) -> list[str]:
    """Shapes and element types of the results, as text."""
    definition = OPS[f"hip.{name}"]
    filled = {row.name: row.default for row in definition.attributes} | attributes
    values = {key.removesuffix("_values"): value for key, value in inputs.items() if key.endswith("_values")}
    shapes = {key: shape(value) for key, value in inputs.items() if not key.endswith("_values")}
    specs = definition.reify(OpShapes(shapes, dict.fromkeys(shapes, dtype), filled, values))
    return ["x".join([*map(str, spec.shape), spec.dtype]) for spec in specs]


@pytest.mark.parametrize("name", OPS)
def test_every_operation_has_a_kernel_of_its_signature(name: str) -> None:
    definition = OPS[name]
    assert isinstance(definition.lowering, CallLowering)
    sources = "\n".join(path.read_text() for path in KERNELS.glob("*.cpp"))
    found = re.search(rf"HIPC_EXPORT int32_t {definition.lowering.symbol}\(([^)]*)\)", sources)
    assert found is not None
    kinds = [re.sub(r"\s*\w+$", "", part.strip()) for part in found.group(1).split(",")]
    expected = ["hipc_context *", *["const hipc_tensor *"] * len(definition.inputs)]
    expected += ["hipc_tensor *"] * len(definition.outputs)
    for row in definition.attributes:
        scalar = {"float": "double", "floats": "double"}.get(row.kind, "int64_t")
        expected += [f"const {scalar} *", "int64_t"] if row.kind in ("ints", "floats") else [scalar]
    assert [kind.replace(" *", "*") for kind in kinds] == [kind.replace(" *", "*") for kind in expected]


HALVED = "kernel = array<i64: 2>, strides = array<i64: 2>, pads = array<i64: 0, 0>, dilations = array<i64: 1>"

VALID = [
    ("softmax", {"x": "tensor<?x4xf32>", "y": "tensor<?x4xf32>"}, "axis = -1 : i64, log = false"),
    ("layer_norm", {"x": "tensor<2x4xf16>", "y": "tensor<2x4xf16>"}, "axis = 1 : i64"),
    ("layer_norm", {"x": "tensor<2x4xf16>", "scale": "tensor<4xf32>", "y": "tensor<2x4xf16>"}, "axis = 1 : i64"),
    ("gather", {"data": "tensor<5x3xi8>", "indices": "tensor<?xi64>", "y": "tensor<?x3xi8>"}, ""),
    ("pad", {"x": "tensor<5xf32>", "pads": "tensor<2xi64>", "y": "tensor<?xf32>"}, 'mode = "edge"'),
    ("nonzero_count", {"x": "tensor<?xi8>", "n": "tensor<i64>"}, ""),
    ("matmul", {"a": "tensor<?x4xf32>", "b": "tensor<4x5xf32>", "y": "tensor<?x5xf32>"}, 'activation = "gelu"'),
    (
        "matmul",
        {"a": "tensor<?x4xf16>", "b": "tensor<2x4x32xf16>", "bias": "tensor<33xf16>", "y": "tensor<?x33xf16>"},
        "packed = true, n = 33 : i64",
    ),
    ("matmul", {"a": "tensor<?x4xi8>", "b": "tensor<4x5xi8>", "y": "tensor<?x5xi8>"}, 'activation = "relu"'),
    (
        "conv",
        {"x": "tensor<?x2x4x?xf32>", "w": "tensor<3x2x3x1xf32>", "y": "tensor<?x3x2x?xf32>"},
        "strides = array<i64: 1, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>",
    ),
    (
        "pool",
        {"x": "tensor<?x2x4xi8>", "y": "tensor<?x2x2xi8>"},
        f'mode = "max", {HALVED}',
    ),
    ("global_pool", {"x": "tensor<?x2x?xf32>", "y": "tensor<?x2x1xf32>"}, 'mode = "average"'),
    (
        "conv_transpose",
        {"x": "tensor<1x2x4xf32>", "w": "tensor<2x3x3xf32>", "y": "tensor<1x3x6xf32>"},
        "strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, output_padding = array<i64: 0>",
    ),
]


@pytest.mark.parametrize(("name", "types", "attributes"), VALID)
def test_valid(name: str, types: dict[str, str], attributes: str) -> None:
    assert problem(name, types, attributes) is None


INVALID = [
    (
        "softmax",
        {"x": "tensor<4xi32>", "y": "tensor<4xi32>"},
        "",
        "operand x has element type i32; f32, f16, bf16 or f64 is needed",
    ),
    ("softmax", {"x": "tensor<4xf32>", "y": "tensor<4xf16>"}, "", "operand y has element type f16, but x has f32"),
    ("softmax", {"x": "tensor<4xf32>", "y": "tensor<4xf32>"}, "axis = 1 : i64", "axis = 1 is outside [-1, 1) of x"),
    (
        "softmax",
        {"x": "tensor<1x1x1x1x1x1x1x1x4xf32>", "y": "tensor<1x1x1x1x1x1x1x1x4xf32>"},
        "",
        "operand x has rank 9; at most 8 is supported",
    ),
    (
        "gather",
        {"data": "tensor<5x3xf32>", "indices": "tensor<2x2xi64>", "y": "tensor<2x3xf32>"},
        "",
        "operand y has rank 2; 3 is needed",
    ),
    (
        "gather_nd",
        {"data": "tensor<5xf32>", "indices": "tensor<1xi64>", "y": "tensor<f32>"},
        "batch_dims = 1 : i64",
        "batch_dims = 1 is outside [0, 1)",
    ),
    (
        "scatter_nd",
        {
            "data": "tensor<4xcomplex<f32>>",
            "indices": "tensor<1x1xi64>",
            "updates": "tensor<1xcomplex<f32>>",
            "y": "tensor<4xcomplex<f32>>",
        },
        'reduction = "add"',
        "a reduction of complex numbers is not supported",
    ),
    (
        "group_norm",
        {"x": "tensor<1x4x2xf32>", "scale": "tensor<4xf32>", "bias": "tensor<4xf32>", "y": "tensor<1x4x2xf32>"},
        "groups = 0 : i64",
        "groups = 0 must be positive",
    ),
    ("lp_norm", {"x": "tensor<4xf32>", "y": "tensor<4xf32>"}, "p = 3 : i64", "p = 3; 1 or 2 is needed"),
    (
        "resize",
        {"x": "tensor<4xf32>", "y": "tensor<8xf32>"},
        'coordinate = "tf_crop_and_resize"',
        "tf_crop_and_resize needs the operand roi",
    ),
    (
        "conv_transpose",
        {"x": "tensor<1x2x4xf32>", "w": "tensor<2x3x3xf32>", "y": "tensor<1x3x6xf32>"},
        "strides = array<i64: 1>, pads = array<i64: 0>, dilations = array<i64: 1>, output_padding = array<i64: 0>",
        "pads has 1 entries; 2 are needed, two per spatial axis",
    ),
    (
        "matmul",
        {"a": "tensor<?x4xf32>", "b": "tensor<4x5xf16>", "y": "tensor<?x5xf32>"},
        "",
        "operands have different element types: f32, f16, f32",
    ),
    (
        "matmul",
        {"a": "tensor<?x4xi32>", "b": "tensor<4x5xi32>", "y": "tensor<?x5xi32>"},
        'activation = "tanh"',
        "activation tanh of i32; integers allow none, relu",
    ),
    (
        "matmul",
        {"a": "tensor<?x4xf32>", "b": "tensor<1x4x32xf32>", "y": "tensor<?x33xf32>"},
        "packed = true, n = 33 : i64",
        "n = 33 takes 2 panels; the right-hand side has 1",
    ),
    (
        "conv",
        {"x": "tensor<?x2x4x?xf32>", "w": "tensor<3x2x3x1xf32>", "y": "tensor<?x3x2x?xf32>"},
        "strides = array<i64: 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>",
        "2 spatial dimensions take 2 kernel extents, strides and dilations, and 4 pads; found 2, 1, 2 and 4",
    ),
    (
        "conv",
        {"x": "tensor<?x2x?xf32>", "w": "tensor<3x2x3xf32>", "y": "tensor<?x3x?xf32>"},
        "strides = array<i64: 0>, pads = array<i64: 0, 0>, dilations = array<i64: 1>",
        "strides and dilations must be positive",
    ),
    (
        "pool",
        {"x": "tensor<?x2x4xi8>", "y": "tensor<?x2x2xi8>"},
        f'mode = "lp", {HALVED}',
        "element type i8 is not supported; supported are f32, f16, bf16, f64",
    ),
    (
        "max_pool_indices",
        {"x": "tensor<?x2x4xf32>", "y": "tensor<?x2x2xf32>", "indices": "tensor<?x2x2xi32>"},
        HALVED,
        "indices have element type i32; it must be i64",
    ),
    (
        "global_pool",
        {"x": "tensor<?x2x?xf32>", "y": "tensor<?x2x1xf32>"},
        'mode = "lp", p = 0 : i64',
        "p is 0; it must be positive",
    ),
    (
        "reverse_sequence",
        {"x": "tensor<2x3xf32>", "lengths": "tensor<2xi64>", "y": "tensor<2x3xf32>"},
        "batch_axis = 1 : i64, time_axis = 1 : i64",
        "batch_axis = 1 and time_axis = 1; one must be 0 and the other 1",
    ),
]


@pytest.mark.parametrize(("name", "types", "attributes", "sentence"), INVALID)
def test_invalid(name: str, types: dict[str, str], attributes: str, sentence: str) -> None:
    assert problem(name, types, attributes) == sentence


def test_reify_of_shapes_that_follow_from_inputs() -> None:
    assert reify("softmax", {"x": ["n", 4]}) == ["nx4xf32"]
    assert reify("layer_norm_stats", {"x": ["n", 4, 5]}, "f16", axis=1) == ["nx4x5xf16", "nx1x1xf32", "nx1x1xf32"]
    assert reify("gather", {"data": ["n", 4], "indices": [2, "k"]}, axis=1) == ["nx2xkxf32"]
    assert reify("gather_nd", {"data": ["b", 4, 5, 6], "indices": ["b", 3, 2]}, batch_dims=1) == ["bx3x6xf32"]
    assert reify("arg_reduce", {"x": ["n", 4]}, axis=1, keepdims=False) == ["nxi64"]
    assert reify("arg_reduce", {"x": ["n", 4]}, axis=1) == ["nx1xi64"]
    assert reify("grid_sample", {"x": ["n", 3, 8, 8], "grid": ["n", "h", "w", 2]}) == ["nx3xhxwxf32"]
    assert reify("lstm", {"x": ["t", "b", 3], "r": [2, 16, 4]}, direction="bidirectional") == [
        "tx2xbx4xf32",
        "2xbx4xf32",
        "2xbx4xf32",
    ]
    stride: dict[str, Any] = {"strides": (2,), "pads": (1, 1), "dilations": (1,), "output_padding": (1,)}
    assert reify("conv_transpose", {"x": [1, 2, "l"], "w": [2, 3, 3]}, **stride) == ["1x3x2*lxf32"]


def test_reify_of_products_and_windows() -> None:
    assert reify("matmul", {"a": ["b", "s", 8], "b": [8, 3]}) == ["bxsx3xf32"]
    assert reify("matmul", {"a": ["b", 1, 8, "s"], "b": [4, 5, 8]}, trans_a=True, trans_b=True) == ["bx4xsx5xf32"]
    assert reify("matmul", {"a": ["s", 8], "b": [2, 8, 32]}, "f16", packed=True, n=40) == ["sx40xf16"]
    with pytest.raises(ValueError, match="inner extents 8 and 7 differ"):
        reify("matmul", {"a": ["s", 8], "b": [7, 3]})
    with pytest.raises(ValueError, match="both need 2 or more"):
        reify("matmul", {"a": [8], "b": [8, 3]})
    same: dict[str, Any] = {"strides": (1, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1)}
    assert reify("conv", {"x": ["n", 3, "h", 9], "w": [5, 3, 3, 3]}, **same) == ["nx5xhx9xf32"]
    with pytest.raises(ValueError, match="4 input channels; the weights take 3 in 1 groups"):
        reify("conv", {"x": ["n", 4, "h", 9], "w": [5, 3, 3, 3]}, **same)
    halve: dict[str, Any] = {"kernel": (2, 2), "strides": (2, 2), "pads": (0, 0, 0, 0), "dilations": (1, 1)}
    h = symbol("h")
    assert reify("pool", {"x": ["n", 3, "h", 9]}, mode="max", **halve) == [f"nx3x{(h - 2) // 2 + 1}x4xf32"]
    assert reify("pool", {"x": ["n", 3, 4, 9]}, mode="max", ceil_mode=True, **halve) == ["nx3x2x5xf32"]
    assert reify("max_pool_indices", {"x": ["n", 3, 4, 9]}, **halve) == ["nx3x2x4xf32", "nx3x2x4xi64"]
    assert reify("global_pool", {"x": ["n", 3, "h", 9]}, mode="average") == ["nx3x1x1xf32"]


def test_reify_of_shapes_that_follow_from_values() -> None:
    pads: tuple[Dim, ...] = (dim(1), symbol("p"), dim(0), dim(2))
    assert reify("pad", {"x": ["n", 4], "pads_values": pads}) == ["1 + nx6 + pxf32"]


def test_reify_takes_free_extents_from_the_destination() -> None:
    assert reify("topk", {"x": ["n", 9], "values": ["n", 3]}) == ["nx3xf32", "nx3xi64"]
    assert reify("one_hot", {"indices": ["n"], "values": [2], "y": ["n", "d"]}, "f32") == ["nxdxf32"]
    assert reify("unique", {"x": [4, "n"], "y": [4, "u"]}, axis=1) == ["4xuxf32", "uxi64", "nxi64", "uxi64"]
    pairs = {"values": ["n", 7], "coefficients": [2, 7], "starts": [4], "offsets": [3]}
    assert reify("pairwise_scores", pairs) == ["nx3xf32", "nxi64"]
    assert reify("pairwise_coupling", {"scores": ["n", 3], "a": [3], "b": [3], "y": ["n", 3]}) == ["nx3xf32"]
    assert reify("nms", {"boxes": [1, 5, 4], "y": ["k", 3]}) == ["kx3xi64"]
    with pytest.raises(ValueError, match="give the shape of its destination"):
        reify("topk", {"x": ["n", 9]})
