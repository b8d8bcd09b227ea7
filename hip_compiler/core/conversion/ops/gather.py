"""Operators that read or write at indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.onnx_op import OnnxOp, onnx_op
from hip_compiler.core.conversion.ops.shape import normalize_axis
from hip_compiler.core.conversion.tensors import Tensor
from hip_compiler.dtypes import BY_NAME
from hip_compiler.shapes import dim

INT64 = BY_NAME["int64"]


@onnx_op("Gather", how="hip.gather; a view for one known index", texts=True)
def convert_gather(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Slices of the data along one axis, at every index."""
    data, indices = op.input(0), op.input(1)
    axis = normalize_axis(op, op.attr("axis", 0), data.rank)
    picked = indices.constant
    if picked is not None and picked.size == 1 and data.constant is None:
        at, extent = int(picked.flat[0]), data.shape[axis]
        if at < 0 or (extent.value is not None and at < extent.value):
            start = extent + at if at < 0 else dim(at)
            if start.value is None or start.value >= 0:
                starts = [start if i == axis else dim(0) for i in range(data.rank)]
                sizes = [dim(1) if i == axis else data.shape[i] for i in range(data.rank)]
                slab = emitter.slice(data, starts, sizes, [1] * data.rank)
                return emitter.reshape(slab, (*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :]))
    return emitter.hip("hip.gather", {"data": data, "indices": indices}, [data.dtype], axis=axis)[0]


@onnx_op("GatherElements", how="hip.gather_elements", texts=True)
def convert_gather_elements(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Elements of the data where one coordinate is replaced by an index."""
    data, indices = op.input(0), op.input(1)
    axis = normalize_axis(op, op.attr("axis", 0), data.rank)
    return emitter.hip("hip.gather_elements", {"data": data, "indices": indices}, [data.dtype], axis=axis)[0]


@onnx_op("GatherND", how="hip.gather_nd", texts=True)
def convert_gather_nd(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Slices of the data at index tuples."""
    data, indices = op.input(0), op.input(1)
    inputs = {"data": data, "indices": indices}
    return emitter.hip("hip.gather_nd", inputs, [data.dtype], batch_dims=op.attr("batch_dims", 0))[0]


def _reduction(op: OnnxOp) -> str:
    kind = op.attr("reduction", "none")
    op.require(kind == "none" or op.input(0).dtype.kind != "string", f"reduction {kind} of strings")
    return str(kind)


@onnx_op("ScatterElements", "Scatter", how="hip.scatter_elements", texts=True)
def convert_scatter_elements(emitter: Emitter, op: OnnxOp) -> Tensor:
    """A copy of the data with updates at replaced coordinates."""
    data, indices, updates = (op.input(i) for i in range(3))
    axis = normalize_axis(op, op.attr("axis", 0), data.rank)
    attributes: dict[str, Any] = {"axis": axis, "reduction": _reduction(op)}
    inputs = {"data": data, "indices": indices, "updates": updates}
    return emitter.hip("hip.scatter_elements", inputs, [data.dtype], **attributes)[0]


@onnx_op("ScatterND", how="hip.scatter_nd", texts=True)
def convert_scatter_nd(emitter: Emitter, op: OnnxOp) -> Tensor:
    """A copy of the data with updates at index tuples."""
    data, indices, updates = (op.input(i) for i in range(3))
    inputs = {"data": data, "indices": indices, "updates": updates}
    return emitter.hip("hip.scatter_nd", inputs, [data.dtype], reduction=_reduction(op))[0]


@onnx_op("ArgMax", "ArgMin", how="hip.arg_reduce")
def convert_arg_reduce(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Position of the greatest or least element along one axis."""
    x = op.input(0)
    attributes: dict[str, Any] = {
        "mode": "max" if op.op == "ArgMax" else "min",
        "axis": normalize_axis(op, op.attr("axis", 0), x.rank),
        "keepdims": bool(op.attr("keepdims", 1)),
        "select_last_index": bool(op.attr("select_last_index", 0)),
    }
    return emitter.hip("hip.arg_reduce", {"x": x}, [INT64], **attributes)[0]


@onnx_op("TopK", how="hip.topk")
def convert_topk(emitter: Emitter, op: OnnxOp) -> Sequence[Tensor]:
    """The k greatest or least elements along one axis, and their positions."""
    x = op.input(0)
    axis = normalize_axis(op, op.attr("axis", -1), x.rank)
    count = dim(op.attr("k")) if op.version < 10 else emitter.run_time_extents(op.input(1))[0]
    shape = tuple(count if i == axis else extent for i, extent in enumerate(x.shape))
    attributes: dict[str, Any] = {
        "axis": axis,
        "largest": bool(op.attr("largest", 1)),
        "sorted": bool(op.attr("sorted", 1)),
    }
    return emitter.hip("hip.topk", {"x": x}, [x.dtype, INT64], [shape, shape], **attributes)


@onnx_op("CumSum", "CumProd", how="hip.cumsum, hip.cumprod")
def convert_running(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Sum or product of all elements up to each position along one axis, which may be known at run time only."""
    x, at = op.input(0), op.input(1)
    attributes: dict[str, Any] = {"exclusive": bool(op.attr("exclusive", 0)), "reverse": bool(op.attr("reverse", 0))}
    name = f"hip.{op.op.lower()}"
    if at.constant is None:
        return emitter.hip(name, {"x": x, "at": at}, [x.dtype], **attributes)[0]
    axis = normalize_axis(op, int(at.constant.reshape(())), x.rank)
    return emitter.hip(name, {"x": x}, [x.dtype], axis=axis, **attributes)[0]


@onnx_op("TensorScatter", since=24, how="hip.tensor_scatter")
def convert_tensor_scatter(emitter: Emitter, op: OnnxOp) -> Tensor:
    """A cache with new entries written at a position per batch entry."""
    past = op.input(0)
    axis = normalize_axis(op, op.attr("axis", -2), past.rank)
    inputs = {"past": past, "update": op.input(1), "positions": op.optional(2)}
    return emitter.hip("hip.tensor_scatter", inputs, [past.dtype], axis=axis, mode=op.attr("mode", "linear"))[0]
