"""MoE and QMoE of com.microsoft: experts whose weights are packed here, one after the other."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.onnx_op import OnnxOp, onnx_op
from hip_compiler.core.conversion.ops.rotary import HALVES, MICROSOFT
from hip_compiler.core.conversion.tensors import Tensor, constant
from hip_compiler.core.dialects.hip.moe import ACTIVATIONS, FUSIONS
from hip_compiler.core.passes.pack_quantized import pack_cells, pack_words, unpack_fields
from hip_compiler.core.passes.pack_weights import pack
from hip_compiler.dtypes import BY_NAME

FLOAT = BY_NAME["float"]
BYTE = BY_NAME["uint8"]
_LIMITS = "weights known at compile time"


@dataclass(frozen=True)
class Layer:
    """Constants of one product of all experts; `rows` outputs of `columns` inputs."""

    operands: dict[str, Tensor]
    attributes: dict[str, int]
    experts: int
    rows: int
    columns: int


@onnx_op("MoE", domain=MICROSOFT, how="hip.moe", dtypes=HALVES, limits=_LIMITS)
def convert_moe(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Weights [experts, outputs, inputs] of floats. Inputs: x, router, then weights and bias of fc1, fc2, fc3."""
    layers = {
        name: _float_layer(op, name, position)
        for name, position in (("fc1", 2), ("fc2", 4), ("fc3", 6))
        if op.optional(position) is not None
    }
    return _emit(emitter, op, layers, None)


@onnx_op("QMoE", domain=MICROSOFT, how="hip.moe", dtypes=HALVES, limits=f"{_LIMITS}; integers of 2, 4 or 8 bits")
def convert_qmoe(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Weights [experts, outputs, inputs * bits / 8], with a scale per row, or per block along the inputs."""
    op.require(op.attr("quant_type", "int") == "int", f"weights of type {op.attr('quant_type', 'int')}")
    op.require(op.attr("weights_prepacked", -1) in (-1, 0), "weights in a device's own layout")
    for position in range(15, len(op.inputs)):
        op.require(op.optional(position) is None, f"input {position}")
    layers = {
        name: _quantised_layer(op, name, weights, zeros)
        for name, weights, zeros in (("fc1", 2, 11), ("fc2", 5, 12), ("fc3", 8, 13))
        if op.optional(weights) is not None
    }
    return _emit(emitter, op, layers, op.optional(14))


def _emit(emitter: Emitter, op: OnnxOp, layers: dict[str, Layer], router_weights: Tensor | None) -> Tensor:
    x, router = op.input(0), op.input(1)
    op.require(op.attr("use_sparse_mixer", 0) == 0, "a sparse mixer")
    op.require(op.attr("swiglu_limit_after_activation", 0) == 0, "a limit after the activation")
    activation, fusion = op.attr("activation_type", "relu"), op.attr("swiglu_fusion", 0)
    op.require(activation in ACTIVATIONS, f"activation {activation}")
    swiglu = activation == "swiglu"
    op.require(fusion in (0, 1, 2), f"swiglu_fusion = {fusion}")
    if not swiglu:
        op.ignore("activation_alpha", "activation_beta", "swiglu_limit")
        fusion = 0
    op.require("fc1" in layers and "fc2" in layers, "the weights of fc1 or fc2 are absent")
    op.require(not (swiglu and fusion == 0 and "fc3" not in layers), "swiglu without its linear half (fc3)")
    op.require(not (fusion and "fc3" in layers), "fc3 beside a fused fc1")
    first, second = layers["fc1"], layers["fc2"]
    inner, hidden = second.columns, second.rows
    op.require(first.rows == inner * (2 if fusion else 1), f"fc1 has {first.rows} outputs, fc2 {inner} inputs")
    op.require(
        all(layer.experts == first.experts for layer in layers.values()), "layers of different numbers of experts"
    )
    op.require(x.shape[-1].value == hidden == first.columns, f"{x.shape[-1]} columns for experts of {hidden}")
    k = op.attr("k", 1)
    op.require(1 <= k <= first.experts, f"k = {k} of {first.experts} experts")
    attributes: dict[str, Any] = {
        "experts": first.experts,
        "inner": inner,
        "k": k,
        "activation": activation,
        "fusion": FUSIONS[fusion],
        "normalize": bool(op.attr("normalize_routing_weights", 0)),
        "accuracy_level": op.attr("accuracy_level", 0),
    }
    if swiglu:
        attributes |= {
            "alpha": op.attr("activation_alpha", 1.0),
            "beta": op.attr("activation_beta", 0.0),
            "limit": op.attr("swiglu_limit", math.inf),
        }
    inputs: dict[str, Tensor | None] = {"x": x, "router": router, "router_weights": router_weights}
    for layer in layers.values():
        inputs |= layer.operands
        attributes |= layer.attributes
    return emitter.hip("hip.moe", inputs, [x.dtype], **attributes)[0]


def _float_layer(op: OnnxOp, name: str, position: int) -> Layer:
    weights = op.constant(position)
    assert weights is not None
    op.require(weights.ndim == 3, f"{name} of rank {weights.ndim}")
    experts, rows, columns = weights.shape
    panels = np.stack([pack(np.asarray(matrix, np.float32).T) for matrix in weights])
    operands = {name: constant(panels, FLOAT)} | _bias(op, name, position + 1, experts, rows)
    return Layer(operands, {}, experts, rows, columns)


def _bias(op: OnnxOp, name: str, position: int, experts: int, rows: int) -> dict[str, Tensor]:
    bias = op.constant(position)
    if bias is None:
        return {}
    op.require(bias.shape == (experts, rows), f"a bias {list(bias.shape)} of {name}")
    return {f"{name}_bias": constant(np.ascontiguousarray(bias, np.float32), FLOAT)}


def _quantised_layer(op: OnnxOp, name: str, position: int, zeros_at: int) -> Layer:
    weights, scales, zeros = op.constant(position), op.constant(position + 1), op.constant(zeros_at)
    assert weights is not None
    bits = op.attr(f"{name}_expert_weight_bits", 0) or op.attr("expert_weight_bits", 4)
    op.require(bits in (2, 4, 8), f"weights of {bits} bits")
    op.require(weights.ndim == 3 and weights.dtype.itemsize == 1, f"{name} of rank {weights.ndim}")
    op.require(scales is not None, f"{name} without scales")
    assert scales is not None
    experts, rows, columns = weights.shape[0], weights.shape[1], weights.shape[2] * 8 // bits
    block = op.attr("block_size", 0) or columns
    op.require(columns % block == 0 and block % 16 == 0, f"{name} has blocks of {block} along {columns} columns")
    blocks = columns // block
    op.require(
        scales.size == experts * rows * blocks, f"{scales.size} scales of {name}, expected {experts * rows * blocks}"
    )
    per_expert = weights.view(np.uint8).reshape(experts, rows, blocks, block * bits // 8)
    operands = {
        name: constant(np.stack([pack_words(matrix, bits) for matrix in per_expert]), BYTE),
        f"{name}_scales": _cells(scales, experts, rows, blocks),
    }
    if zeros is not None:
        operands[f"{name}_zeros"] = _cells(_zeros(op, zeros, name, experts, rows, blocks, bits), experts, rows, blocks)
    operands |= _bias(op, name, position + 2, experts, rows)
    return Layer(operands, {f"{name}_bits": bits, f"{name}_block": block}, experts, rows, columns)


def _cells(values: np.ndarray, experts: int, rows: int, blocks: int) -> Tensor:
    cells = np.asarray(values, np.float32).reshape(experts, rows, blocks)
    return constant(np.stack([pack_cells(matrix) for matrix in cells]), FLOAT)


def _zeros(op: OnnxOp, zeros: np.ndarray, name: str, experts: int, rows: int, blocks: int, bits: int) -> np.ndarray:
    """Zero points side by side in bytes: along the rows where a row has one, else along the blocks."""
    fields = unpack_fields(zeros.view(np.uint8), bits)
    wanted = rows if zeros.ndim == 2 else blocks
    op.require(
        zeros.ndim == (2 if blocks == 1 and zeros.ndim == 2 else 3), f"zero points of {name} of rank {zeros.ndim}"
    )
    op.require(fields.shape[-1] >= wanted, f"{fields.shape[-1]} zero points of {name}, expected {wanted}")
    return fields[..., :wanted].astype(np.float32)
