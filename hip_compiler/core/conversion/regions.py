"""What branches and loops share: regions, what they yield, and extents that only run time knows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.extents import index
from hip_compiler.core.conversion.tensors import Tensor
from hip_compiler.core.mlir import arith, bufferization, ir, tensor
from hip_compiler.dtypes import DType
from hip_compiler.shapes import Dim, dim, symbol

UNKNOWN = symbol("?")
"""An extent that only run time knows; `read_back` asks for it."""

_VIEWS = ("tensor.cast", "tensor.collapse_shape", "tensor.expand_shape")


def region_holder(regions: int) -> Any:
    """An operation to build regions in while the results of the real one are not known yet."""
    return ir.Operation.create("onnx.Regions", regions=regions)


def is_true(emitter: Emitter, condition: Tensor) -> Any:
    """Whether the one element of a tensor is not zero; `i1`."""
    for extent in condition.shape:
        emitter.check_equal(extent, dim(1), "a condition has one element")
    element = tensor.extract(emitter.value(condition), [index(0)] * condition.rank)
    zero = arith.constant(element.type, ir.IntegerAttr.get(element.type, 0))
    return arith.cmpi(arith.CmpIPredicate.ne, element, zero)


def cast(value: Any, kind: Any) -> Any:
    """The same tensor with more or less of its shape in its type."""
    return value if value.type == kind else tensor.cast(kind, value)


def give(values: Sequence[Any], types: Sequence[Any]) -> None:
    """End a region."""
    operands = [cast(value, kind) for value, kind in zip(values, types, strict=True)]
    ir.Operation.create("scf.yield", operands=operands)


def apart(value: Any) -> Any:
    """A tensor to yield: a copy where it is a part of another tensor, because control flow carries only whole buffers,
    and where it is the state of a loop, because that is written to.
    """
    source = origin(value)
    if isinstance(source.owner, ir.Block):
        return value if source.owner.owner.operation.name == "func.func" else private(value)
    return private(value) if source.owner.name == "tensor.extract_slice" else value


def origin(value: Any) -> Any:
    """The tensor that a tensor is all of, in another shape or type."""
    while not isinstance(value.owner, ir.Block) and value.owner.name in _VIEWS:
        value = value.owner.operands[0]
    return value


def private(value: Any) -> Any:
    """A copy of a tensor in memory of its own."""
    return bufferization.AllocTensorOp(value.type, [], copy=value).result


def read_back(emitter: Emitter, value: Any, shape: Sequence[Dim], dtype: DType) -> Tensor:
    """A tensor whose unknown extents are asked for where it is now known."""
    known = tuple(
        emitter.fresh_symbol(tensor.dim(value, index(axis))) if extent is UNKNOWN else extent
        for axis, extent in enumerate(shape)
    )
    return Tensor(known, dtype, value)
