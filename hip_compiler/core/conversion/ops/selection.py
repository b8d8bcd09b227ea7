"""Operators whose output extent depends on data: one operation counts, the other fills."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.onnx_op import OnnxOp, onnx_op
from hip_compiler.core.conversion.ops.elementwise import BOOLS, NUMBERS
from hip_compiler.core.conversion.ops.shape import normalize_axis
from hip_compiler.core.conversion.tensors import Tensor
from hip_compiler.dtypes import BY_NAME
from hip_compiler.shapes import Dim, dim, product

INT64, UINT8 = BY_NAME["int64"], BY_NAME["uint8"]


def counted(emitter: Emitter, name: str, inputs: dict[str, Tensor | None], **attributes: Any) -> Dim:
    """The extent that a counting operation finds at run time."""
    [count] = emitter.hip(name, inputs, [INT64], **attributes)
    return emitter.run_time_extents(count)[0]


@onnx_op("NonZero", how="hip.nonzero", dtypes=NUMBERS | BOOLS)
def convert_nonzero(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Coordinates of the elements that are not zero."""
    x = op.input(0)
    found = counted(emitter, "hip.nonzero_count", {"x": x})
    return emitter.hip("hip.nonzero", {"x": x}, [INT64], [(dim(x.rank), found)])[0]


@onnx_op("Compress", how="hip.compress", texts=True)
def convert_compress(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Slices, or elements of the flattened input, where the condition is true."""
    x, condition = op.input(0), op.input(1)
    axis = op.attr("axis")
    at = 0 if axis is None else normalize_axis(op, axis, x.rank)
    found = counted(emitter, "hip.compress_count", {"condition": condition})
    shape = (found,) if axis is None else tuple(found if i == at else e for i, e in enumerate(x.shape))
    inputs = {"x": x, "condition": condition}
    return emitter.hip("hip.compress", inputs, [x.dtype], [shape], axis=at, flatten=axis is None)[0]


@onnx_op("Unique", how="hip.unique", dtypes=NUMBERS | {"bool"})
def convert_unique(emitter: Emitter, op: OnnxOp) -> Sequence[Tensor]:
    """Different elements or slices, with positions, inverse and counts."""
    given = op.input(0)
    x = emitter.cast(given, UINT8) if given.dtype.name == "bool" else given
    axis = op.attr("axis")
    at = 0 if axis is None else normalize_axis(op, axis, x.rank)
    place: dict[str, Any] = {"axis": at, "flatten": axis is None}
    unsigned = x.dtype.kind == "uint"
    found = counted(emitter, "hip.unique_count", {"x": x}, unsigned=unsigned, **place)
    shape = (found,) if axis is None else tuple(found if i == at else e for i, e in enumerate(x.shape))
    inverse = product(x.shape) if axis is None else x.shape[at]
    shapes = [shape, (found,), (inverse,), (found,)]
    made = emitter.hip(
        "hip.unique", {"x": x}, [x.dtype, INT64, INT64, INT64], shapes, sorted=bool(op.attr("sorted", 1)), **place
    )
    return [emitter.cast(made[0], given.dtype), *made[1:]][: op.outputs]
