"""Operations of the `onnx` dialect as ONNX nodes and tensors: for constant folding, export and reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from hip_compiler.core.frontend.attributes import dense_array, dtype_of, shape_of
from hip_compiler.core.frontend.opsets import module_opsets, opset_of
from hip_compiler.core.mlir import ir
from hip_compiler.dtypes import BY_NUMPY
from hip_compiler.errors import ErrorCode, HipCompilerError, Unsupported

PREFIX = "onnx."
REFUSED = "hip.refused"
"""Attribute of an operation that a plugin's verifier refused: it is reported already, and not converted."""
RESERVED = ("domain", "region_names", "hip.opset", REFUSED)
"""Attributes of an operation that are no attributes of its node."""


def is_onnx(op: Any, *names: str) -> bool:
    """Whether an operation is of ONNX's default domain and, when names (without `onnx.`) are given, has one of them."""
    name: str = op.name
    if not name.startswith(PREFIX) or "domain" in op.attributes:
        return False
    return not names or name[len(PREFIX) :] in names


def node_name(op: Any) -> str:
    """Name of the node that an operation came from: the text of its location."""
    location = op.location
    while not isinstance(location, ir.NameLoc):
        if isinstance(location, ir.FusedLoc) and location.locations:
            location = location.locations[0]
            continue
        return ""
    return str(location.name_str)


def domain_of(op: Any) -> str:
    """Domain of an operation; "" for the default one."""
    return str(op.attributes["domain"].value) if "domain" in op.attributes else ""


def tensor_proto(array: np.ndarray, name: str = "") -> onnx.TensorProto:
    """A tensor with an array's contents; `object` arrays are tensors of strings.

    Returns:
        A message with `raw_data` for every dtype that has it.
    """
    if array.dtype == object:
        return helper.make_tensor(name, onnx.TensorProto.STRING, array.shape, array.reshape(-1).tolist())
    dtype = BY_NUMPY[array.dtype]
    if dtype.name in ("uint4", "int4", "float4e2m1", "uint2", "int2"):
        return onnx.numpy_helper.from_array(array, name)
    return helper.make_tensor(name, dtype.onnx, array.shape, np.ascontiguousarray(array).tobytes(), raw=True)


def type_proto(type_: Any) -> onnx.TypeProto | None:
    """ONNX type of a value; None for what is not known to be a tensor of numbers or strings."""
    if str(type_) == "!onnx.string_tensor":
        return helper.make_tensor_type_proto(onnx.TensorProto.STRING, None)
    dtype = dtype_of(type_)
    return None if dtype is None else helper.make_tensor_type_proto(dtype.onnx, shape_of(type_))


def attribute_proto(name: str, attribute: Any) -> onnx.AttributeProto:
    """An attribute of the `onnx` dialect as ONNX has it.

    Raises:
        HipCompilerError: `HIPC0303` for an attribute of a kind that the dialect does not use.
    """
    if isinstance(attribute, ir.DenseElementsAttr):
        return helper.make_attribute(name, tensor_proto(dense_array(attribute), name))
    if isinstance(attribute, ir.TypeAttr):
        proto = type_proto(attribute.value)
        if proto is not None:
            return helper.make_attribute(name, proto)
    for kind, number, read in _KINDS:
        if isinstance(attribute, kind):
            return helper.make_attribute(name, read(attribute), attr_type=number)
    if isinstance(attribute, ir.DictAttr) and "strings" in attribute:
        strings = np.empty(len(attribute["strings"]), dtype=object)
        strings[:] = [text.value_bytes for text in attribute["strings"]]
        return helper.make_attribute(name, tensor_proto(strings.reshape(tuple(attribute["shape"])), name))
    raise HipCompilerError(
        ErrorCode.IR_INVALID, f"attribute '{name}' = {attribute} has no counterpart in ONNX", where="onnx dialect"
    )


def node_proto(op: Any, inputs: Sequence[str], outputs: Sequence[str]) -> onnx.NodeProto:
    """The node of an operation, without its subgraphs.

    Args:
        op: operation of the `onnx` dialect.
        inputs: name per operand; "" for an absent one.
        outputs: name per result.
    """
    node = onnx.NodeProto(op_type=op.name.removeprefix(PREFIX), domain=domain_of(op), name=node_name(op))
    node.input.extend(inputs)
    node.output.extend(outputs)
    for name in op.attributes:
        if name not in RESERVED:
            node.attribute.append(attribute_proto(name, op.attributes[name]))
    return node


def unsupported(op: Any, reason: str, opsets: dict[str, int] | None = None) -> Unsupported:
    """A finding about an operation, for `UnsupportedError`."""
    if opsets is None:
        parent = op
        while parent.parent is not None:
            parent = parent.parent
        opsets = module_opsets(parent)
    dtypes = tuple("?" if (dtype := dtype_of(value.type)) is None else dtype.name for value in op.operands)
    return Unsupported(node_name(op), op.name.removeprefix(PREFIX), domain_of(op), opset_of(op, opsets), dtypes, reason)


_KINDS = (
    (ir.IntegerAttr, onnx.AttributeProto.INT, lambda a: a.value),
    (ir.FloatAttr, onnx.AttributeProto.FLOAT, lambda a: a.value),
    (ir.StringAttr, onnx.AttributeProto.STRING, lambda a: a.value_bytes),
    (ir.DenseI64ArrayAttr, onnx.AttributeProto.INTS, list),
    (ir.DenseF32ArrayAttr, onnx.AttributeProto.FLOATS, list),
    (ir.ArrayAttr, onnx.AttributeProto.STRINGS, lambda a: [text.value_bytes for text in a]),
)
