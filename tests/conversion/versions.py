"""Nodes whose meaning or form changed between opsets: one row for every form, with the opsets that it is for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

NEWEST = 99
_RNG = np.random.default_rng(3)


@dataclass(frozen=True)
class Constant:
    """An input whose value the model holds."""

    array: np.ndarray


Input = np.ndarray | Constant | None


@dataclass(frozen=True)
class Row:
    """A node: operator, first and last opset, inputs (None: absent), attributes, number of outputs."""

    op: str
    first: int
    last: int
    inputs: Sequence[Input]
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1


def f32(*shape: int, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    return _RNG.uniform(low, high, shape).astype(np.float32)


def ints(*values: int) -> Constant:
    return Constant(np.array(values, np.int64))


def const(value: Any, dtype: Any = np.float32) -> Constant:
    return Constant(np.array(value, dtype))


ROWS: list[Row] = []


def row(op: str, opsets: tuple[int, int], inputs: Sequence[Input], outputs: int = 1, **attributes: Any) -> None:
    ROWS.append(Row(op, *opsets, inputs, attributes, outputs))


ALL, OLD = (7, NEWEST), (7, 12)
X3, X4 = f32(2, 3, 4), f32(1, 2, 5, 6)
SPECIAL = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-40, 3.4e38, -2.5, 0.5, 1.5, 300.7], np.float32)

# Axes that were flattened at, and then one axis.
for name in ("Softmax", "LogSoftmax", "Hardmax"):
    row(name, ALL, [X3])
    row(name, ALL, [X3], axis=2)
    row(name, (11, NEWEST), [X3], axis=-2)
    row(name, ALL, [X3], axis=0)

# Axes as an attribute, and then as an input.
for name in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
             "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"):  # fmt: skip
    turn = 13 if name == "ReduceSum" else 18
    positive = f32(2, 3, 4, low=0.5)
    row(name, ALL, [positive])
    row(name, ALL, [positive], keepdims=0)
    row(name, (7, turn - 1), [positive], axes=[0, 2])
    row(name, (11, turn - 1), [positive], axes=[-1], keepdims=0)
    row(name, (turn, NEWEST), [positive, ints(0, -1)], keepdims=0)
    row(name, (turn, NEWEST), [positive, ints()], noop_with_empty_axes=1)
    row(name, (turn, NEWEST), [positive], noop_with_empty_axes=0)
    if name not in ("ReduceLogSum", "ReduceLogSumExp", "ReduceL1", "ReduceL2", "ReduceSumSquare"):
        row(name, ALL, [_RNG.integers(-9, 9, (3, 4)).astype(np.int32)])
row("ReduceMax", (20, NEWEST), [np.array([[True, False], [False, False]]), ints(1)], keepdims=0)
row("ReduceMin", (20, NEWEST), [np.array([[True, False], [True, True]]), ints(1)], keepdims=0)
for name in ("ArgMax", "ArgMin"):
    ties = np.array([[1, 3, 3], [2, 2, 0]], np.float32)
    row(name, ALL, [ties], axis=1, keepdims=0)
    row(name, (11, NEWEST), [ties], axis=-2)
    row(name, (12, NEWEST), [ties], axis=-1, select_last_index=1)

SQUEEZES: list[tuple[dict[str, Any], tuple[int, int]]] = [({"axes": [0, 2]}, OLD), ({}, ALL)]
for form, opsets in SQUEEZES:
    row("Squeeze", opsets, [f32(1, 3, 1)], **form)
row("Squeeze", (11, 12), [f32(1, 3, 1)], axes=[-1])
row("Squeeze", (13, NEWEST), [f32(1, 3, 1), ints(-1, 0)])
row("Unsqueeze", OLD, [f32(3, 2)], axes=[0, 2])
row("Unsqueeze", (11, 12), [f32(3, 2)], axes=[-1, 0])
row("Unsqueeze", (13, NEWEST), [f32(3, 2), ints(-1, 1)])

row("Split", OLD, [f32(6, 2)], 2, axis=0)
row("Split", OLD, [f32(6, 2)], 3, axis=0, split=[1, 0, 5])
row("Split", (11, 12), [f32(2, 6)], 2, axis=-1)
row("Split", (13, 17), [f32(6, 2)], 2)
row("Split", (13, NEWEST), [f32(2, 6), ints(2, 4)], 2, axis=-1)
row("Split", (18, NEWEST), [f32(7, 2)], 3, num_outputs=3)

SLICED = f32(5, 6)
row("Slice", (7, 9), [SLICED], starts=[1, -3], ends=[100, -1])
row("Slice", (7, 9), [SLICED], starts=[-100], ends=[2], axes=[1])
for ends in ((4, 100), (-1, -100)):
    row("Slice", (10, NEWEST), [SLICED, ints(0, -2), ints(*ends)])
row("Slice", (10, NEWEST), [SLICED, ints(100, -1), ints(-100, 0), ints(0, 1), ints(-2, -1)])
row("Slice", (10, NEWEST), [SLICED, ints(-100, -8), ints(-100, -100), ints(0, 1), ints(-1, -2)])
row("Slice", (10, NEWEST), [np.zeros((0, 2), np.float32), ints(-2), ints(-9), ints(0), ints(-1)])
row("Slice", (11, NEWEST), [SLICED, ints(-100), ints(100), ints(-1), ints(2)])

row("Pad", (7, 10), [X3], pads=[0, 1, 2, 1, 0, 0], value=1.5)
row("Pad", (7, 10), [X3], pads=[0, -1, 0, 1, 0, -2])
for mode in ("reflect", "edge"):
    row("Pad", (7, 10), [X3], pads=[0, 1, 2, 0, 2, 3], mode=mode)
    row("Pad", (11, NEWEST), [X3, ints(0, 1, 2, 0, 2, 3)], mode=mode)
row("Pad", (11, NEWEST), [X3, ints(0, 1, -2, 1, 0, 0), const(1.5)])
row("Pad", (11, NEWEST), [X3, ints(0, 0, 1, 0, 0, 1)])
row("Pad", (18, NEWEST), [X3, ints(1, 2, 0, 3), None, ints(-1, 0)])
row("Pad", (19, NEWEST), [X3, ints(0, 2, 1, 0, 1, 3)], mode="wrap")

# Bounds as attributes, and then as inputs that may be absent; later bounds that cross give the maximum.
row("Clip", (7, 10), [SPECIAL], min=-1.0, max=2.0)
row("Clip", (7, 10), [SPECIAL], max=0.5)
row("Clip", (11, NEWEST), [f32(7), const(-1), const(1)])
row("Clip", (11, NEWEST), [f32(7), None, np.array(0.5, np.float32)])
row("Clip", (11, NEWEST), [f32(7)])
row("Clip", (12, NEWEST), [np.arange(-4, 5).astype(np.int8), const(-2, np.int8), const(3, np.int8)])
row("Clip", (13, NEWEST), [f32(7), const(1), const(-1)])

row("TopK", (7, 9), [X3], 2, k=2)
row("TopK", (7, 9), [X3], 2, k=1, axis=0)
row("TopK", (10, NEWEST), [X3, ints(2)], 2, axis=1)
row("TopK", (11, NEWEST), [X3, ints(3)], 2, axis=-1, largest=0)
row("TopK", (11, NEWEST), [np.array([3, 1, 3, 2, 3], np.int64), ints(4)], 2)

for target in (1, 2, 3, 5, 6, 7, 9, 10, 11):
    row("Cast", ALL, [np.array([-2.5, -1, -0.0, 0.5, 1.5, 100.9], np.float32 if target != 2 else np.float64)
                      if target not in (2,) else np.array([0.5, 1.5, 100.9], np.float32)], to=target)  # fmt: skip
row("Cast", ALL, [np.array([-1, 0, 255, 2**40], np.int64)], to=6)
row("Cast", ALL, [np.array([0, 2, -1], np.int32)], to=9)
row("Cast", ALL, [np.array([True, False])], to=1)
row("Cast", (13, NEWEST), [np.array([1.00390625, 3.3e38, 1.005859375], np.float32)], to=16)
FLOAT8 = np.array([0.3, 448, 464, 465, 1e6, -1e6, np.inf, np.nan, 1e-3, -0.0], np.float32)
for target in (17, 18, 19, 20):
    row("Cast", (19, NEWEST), [FLOAT8], to=target)
    row("Cast", (19, NEWEST), [FLOAT8], to=target, saturate=0)

# Statistics, in its forms of inference.
NORM = [f32(3), f32(3), f32(3), f32(3, low=0.5)]
row("BatchNormalization", (7, 8), [f32(2, 3, 4), *NORM], spatial=1)
row("BatchNormalization", ALL, [f32(2, 3, 4, 2), *NORM], epsilon=1e-3)
row("BatchNormalization", (9, NEWEST), [f32(2, 3), *NORM])
row("BatchNormalization", (14, NEWEST), [f32(2, 3, 4), *NORM], 3, training_mode=1, momentum=0.8)
row("Dropout", (7, 11), [X3], ratio=0.3)
row("Dropout", (12, NEWEST), [X3, const(0.3)])
row("Dropout", (12, NEWEST), [X3], 2)
row("GroupNormalization", (18, 20), [f32(2, 4, 3), f32(2), f32(2)], num_groups=2)
row("GroupNormalization", (21, NEWEST), [f32(2, 4, 3), f32(4), f32(4)], num_groups=2)
row("LayerNormalization", (17, NEWEST), [X3, f32(4), f32(4)])
row("LayerNormalization", (17, NEWEST), [X3, f32(3, 4)], axis=1)
row("MeanVarianceNormalization", (9, NEWEST), [X4])
row("MeanVarianceNormalization", (9, NEWEST), [X4], axes=[0, 2])
row("InstanceNormalization", ALL, [X4, f32(2), f32(2)])
row("LpNormalization", ALL, [X3], axis=1, p=1)
row("LpNormalization", ALL, [X3])
row("LRN", ALL, [f32(1, 5, 3, 3)], size=3)

# Resampling.
SCALES = (1.0, 1.0, 2.0, 3.0)
NO_ROI = const([])  # needed up to opset 12
for mode in ("nearest", "linear"):
    row("Upsample", (7, 8), [X4], scales=SCALES, mode=mode)
    row("Upsample", (9, 9), [X4, const(SCALES)], mode=mode)
    row("Resize", (10, 10), [X4, const((1.0, 1.0, 2.0, 1.5))], mode=mode)
    row("Resize", (10, 10), [X4, const((1.0, 1.0, 0.6, 0.5))], mode=mode)
for mode in ("nearest", "linear", "cubic"):
    for where in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"):
        for scales in ((1.0, 1.0, 2.0, 1.5), (1.0, 1.0, 0.6, 0.5)):
            row("Resize", (11, NEWEST), [X4, NO_ROI, const(scales)], mode=mode, coordinate_transformation_mode=where)
for rounding in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
    row("Resize", (11, NEWEST), [X4, NO_ROI, const(SCALES)], mode="nearest", nearest_mode=rounding)
row("Resize", (11, NEWEST), [X4, NO_ROI, const([]), ints(1, 2, 3, 9)], mode="linear")
row(
    "Resize",
    (11, NEWEST),
    [X4, NO_ROI, const([]), ints(1, 2, 7, 1)],
    mode="cubic",
    cubic_coeff_a=-0.5,
    exclude_outside=1,
)
row("Resize", (11, NEWEST), [X4, const([0, 0, 0.1, 0.2, 1, 1, 0.8, 1.2]), const([]), ints(1, 2, 4, 4)], mode="linear",
    coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=7.0)  # fmt: skip
row("Resize", (18, NEWEST), [X4, None, const((0.6, 0.7))], mode="linear", axes=[2, 3], antialias=1)
row("Resize", (18, NEWEST), [X4, None, None, ints(4, 8)], axes=[2, 3], keep_aspect_ratio_policy="not_larger")
row("RoiAlign", (10, 15), [X4, const([[0, 0, 4, 4], [1, 1, 3, 2]]), ints(0, 0)], output_height=2, output_width=2)
row("RoiAlign", (16, NEWEST), [X4, const([[0, 0, 4, 4], [1, 1, 3, 2]]), ints(0, 0)], output_height=2, output_width=2)
row("RoiAlign", (16, NEWEST), [X4, const([[0, 0, 4, 4]]), ints(0)], output_height=3, output_width=2, mode="max",
    sampling_ratio=2, coordinate_transformation_mode="output_half_pixel")  # fmt: skip
GRID = f32(1, 3, 4, 2, low=-1.2, high=1.2)
for names in (("bilinear", "linear"), ("bicubic", "cubic")):
    row("GridSample", (16, 19), [X4, GRID], mode=names[0], padding_mode="zeros")
    row("GridSample", (20, NEWEST), [X4, GRID], mode=names[1], padding_mode="reflection")
row("GridSample", (16, NEWEST), [X4, GRID], mode="nearest", align_corners=1)

# Windows.
for name in ("AveragePool", "MaxPool", "LpPool"):
    row(name, ALL, [X4], kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1])
    row(name, ALL, [X4], kernel_shape=[2, 2], strides=[2, 2], auto_pad="SAME_LOWER")
    row(name, ALL, [X4], kernel_shape=[3, 3], auto_pad="VALID")
    opset = {"AveragePool": 10, "MaxPool": 10, "LpPool": 18}[name]
    row(name, (opset, NEWEST), [X4], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
    opset = {"AveragePool": 19, "MaxPool": 10, "LpPool": 18}[name]
    row(name, (opset, NEWEST), [X4], kernel_shape=[2, 2], dilations=[2, 3])
row("AveragePool", ALL, [X4], kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)
row("AveragePool", (19, NEWEST), [X4], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=1,
    count_include_pad=1)  # fmt: skip
row("MaxPool", (8, NEWEST), [X4], 2, kernel_shape=[2, 2], strides=[2, 2])
row("MaxPool", (8, NEWEST), [X4], 2, kernel_shape=[2, 2], storage_order=1)
row("MaxPool", (12, NEWEST), [np.arange(30, dtype=np.int8).reshape(1, 1, 5, 6)], kernel_shape=[2, 2])
row("GlobalLpPool", ALL, [X4], p=3)
for auto in ("SAME_UPPER", "SAME_LOWER", "VALID"):
    row("Conv", ALL, [X4, f32(4, 1, 3, 2)], group=2, auto_pad=auto, strides=[2, 1])
    row("ConvTranspose", ALL, [X4, f32(2, 3, 3, 2)], auto_pad=auto, strides=[2, 2])
row("ConvTranspose", ALL, [X4, f32(2, 3, 3, 3), f32(3)], output_shape=[12, 13], strides=[2, 2])

# Arithmetic: element types and broadcasting grew.
for name in ("Add", "Sub", "Mul", "Div"):
    row(name, ALL, [f32(2, 1, 4), f32(3, 1)])
    row(name, ALL, [np.array([-7, 7, 8], np.int32), np.array([2, -2, 3], np.int32)])
    row(name, (14, NEWEST), [np.array([250, 7], np.uint8), np.array([10, 9], np.uint8)])
row("Pow", ALL, [f32(3, 4, low=0.5), f32(4)])
row("Pow", (12, NEWEST), [f32(4, low=0.5), np.array([2, 3, 0, -1], np.int32)])
row("Pow", (12, NEWEST), [np.array([2, -3, 5], np.int64), np.array([2.0, 3.0, 0.5], np.float32)])
SIGNED = [np.array([-7, 7, -8, 5], np.int32), np.array([3, -3, 3, 5], np.int32)]
row("Mod", (10, NEWEST), SIGNED)
row("Mod", (10, NEWEST), SIGNED, fmod=1)
row("Mod", (10, NEWEST), [f32(5), f32(5, low=0.5)], fmod=1)
for name in ("Max", "Min", "Sum", "Mean"):
    row(name, ALL, [f32(2, 3), f32(2, 3), f32(2, 3)])
    row(name, (8, NEWEST), [f32(2, 1), f32(3)])
    row(name, ALL, [f32(2)])
row("Max", (12, NEWEST), [np.array([1, -5], np.int8), np.array([-3, 2], np.int8)])
row("Min", (8, NEWEST), [SPECIAL, np.float32(1) + np.zeros(1, np.float32)])
for name in ("Equal", "Less", "Greater"):
    row(name, (9 if name != "Equal" else 7, NEWEST), [np.array([1, 2, 3], np.int32), np.array([3, 2, 1], np.int32)])
    row(name, (11 if name == "Equal" else 7, NEWEST), [SPECIAL, SPECIAL[::-1].copy()])
row("PRelu", ALL, [X3, f32(3, 1)])
row("PRelu", ALL, [X3, f32(1)])
row("Gemm", ALL, [f32(3, 2), f32(3, 4), f32(4)], transA=1, alpha=0.5, beta=2.0)
row("Gemm", (11, NEWEST), [f32(2, 3), f32(4, 3)], transB=1)
row("MatMul", ALL, [f32(2, 1, 3, 4), f32(5, 4, 2)])
row("MatMul", ALL, [f32(4), f32(3, 4, 2)])
row(
    "MatMul",
    (9, NEWEST),
    [_RNG.integers(-9, 9, (2, 3)).astype(np.int32), _RNG.integers(-9, 9, (3, 2)).astype(np.int32)],
)
ACTIVATIONS: dict[str, dict[str, Any]] = {
    "Elu": {},
    "Selu": {},
    "LeakyRelu": {"alpha": 0.3},
    "HardSigmoid": {"alpha": 0.1},
    "Softplus": {},
    "Softsign": {},
    "ThresholdedRelu": {"alpha": 0.5},
    "Celu": {"alpha": 2.0},
    "Shrink": {"bias": 0.5},
    "HardSwish": {},
    "Mish": {},
    "Gelu": {"approximate": "tanh"},
    "Round": {},
    "Sign": {},
    "Erf": {},
    "IsNaN": {},
    "IsInf": {"detect_negative": 0},
    "Sigmoid": {},
    "Tanh": {},
    "Relu": {},
}
for name, values in ACTIVATIONS.items():
    opset = {"ThresholdedRelu": 10, "Celu": 12, "Shrink": 9, "HardSwish": 14, "Mish": 18, "Gelu": 20, "Round": 11,
             "Sign": 9, "Erf": 9, "IsNaN": 9, "IsInf": 10}.get(name, 7)  # fmt: skip
    numbers = SPECIAL if name.startswith("Is") else np.array([-3, -2.5, -0.5, 0.5, 1.5, 4], np.float32)
    row(name, (opset, NEWEST), [numbers], **values)
row("Relu", (14, NEWEST), [np.array([-3, 0, 5], np.int32)])
row("BitShift", (11, NEWEST), [np.array([1, 255, 16], np.uint8), np.array([1, 7, 2], np.uint8)], direction="LEFT")

# Movement.
INDEX = np.array([[0, -1], [1, -2]], np.int64)
row("Gather", (11, NEWEST), [X3, INDEX], axis=-1)
row("Gather", ALL, [X3, np.abs(INDEX).astype(np.int32)], axis=1)
row("GatherElements", (11, NEWEST), [f32(2, 3), INDEX], axis=-1)
row("GatherND", (11, NEWEST), [X3, np.array([[0, -1], [1, 0]], np.int64)])
row("GatherND", (12, NEWEST), [X3, np.array([[1], [0]], np.int64)], batch_dims=1)
row("Scatter", (9, 10), [f32(2, 3), np.array([[0, 2]], np.int64), f32(1, 2)], axis=1)
row("ScatterElements", (11, NEWEST), [f32(2, 3), np.array([[0, -1]], np.int64), f32(1, 2)], axis=-1)
for how in ("add", "mul"):
    row("ScatterElements", (16, NEWEST), [f32(2, 3), np.array([[0, 0]], np.int64), f32(1, 2)], axis=1, reduction=how)
    row("ScatterND", (16, NEWEST), [X3, np.array([[0], [0]], np.int64), f32(2, 3, 4)], reduction=how)
for how in ("max", "min"):
    row("ScatterElements", (18, NEWEST), [f32(2, 3), np.array([[0, 0]], np.int64), f32(1, 2)], axis=1, reduction=how)
row("ScatterND", (11, NEWEST), [X3, np.array([[1, -1]], np.int64), f32(1, 4)])
row("Concat", ALL, [X3, f32(2, 1, 4)], axis=1)
row("Concat", (11, NEWEST), [X3, f32(2, 1, 4)], axis=-2)
row("Flatten", ALL, [X4], axis=2)
row("Flatten", ALL, [X4], axis=0)
row("Flatten", (11, NEWEST), [X4], axis=-1)
row("Reshape", ALL, [X3, ints(0, -1)])
row("Reshape", (14, NEWEST), [np.zeros((0, 3), np.float32), ints(3, 0)], allowzero=1)
row("Shape", ALL, [X4])
row("Shape", (15, NEWEST), [X4], start=1, end=-1)
row("Shape", (15, NEWEST), [X4], start=-100, end=100)
row("Transpose", ALL, [X3])
row("Tile", ALL, [X3, ints(1, 2, 0)])
row("Expand", (8, NEWEST), [f32(3, 1), ints(2, 1, 4)])
row("DepthToSpace", ALL, [f32(1, 8, 2, 3)], blocksize=2)
row("DepthToSpace", (11, NEWEST), [f32(1, 8, 2, 3)], blocksize=2, mode="CRD")
row("SpaceToDepth", ALL, [f32(1, 2, 4, 6)], blocksize=2)
for depth in (4, 3):
    row("OneHot", (9, NEWEST), [np.array([0, 2, 1], np.int64), const(depth, np.int64), const([0.5, 2])])
row("OneHot", (11, NEWEST), [np.array([0, -1, 5], np.int64), const(3, np.int64), const([0, 1])], axis=-2)
row("Compress", (9, NEWEST), [X3, np.array([True, False, True])], axis=1)
row("Compress", (11, NEWEST), [X3, np.array([True, False])], axis=-2)
row("CumSum", (11, NEWEST), [X3, const(-1, np.int64)], exclusive=1, reverse=1)
row("Unique", (11, NEWEST), [np.array([3, 1, 3, 2, 1], np.float32)], 4)
row("Unique", (11, NEWEST), [np.array([[3, 1], [3, 1], [0, 2]], np.float32)], 4, axis=0, sorted=1)
row("NonZero", (9, NEWEST), [np.array([[0, 1], [2, 0]], np.float32)])
row("ReverseSequence", (10, NEWEST), [f32(4, 3, 2), np.array([1, 4, 2], np.int64)])
row("EyeLike", (9, NEWEST), [f32(3, 4)], k=1)
row("Trilu", (14, NEWEST), [X3, const(-1, np.int64)], upper=0)
row("Range", (11, NEWEST), [const(5, np.int32), const(-4, np.int32), const(-3, np.int32)])
BOXES = const([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11]]])
row("NonMaxSuppression", (10, NEWEST), [BOXES, const([[[0.9, 0.75, 0.6, 0.95]]]), ints(3), const(0.5), const(0.0)])
row("NonMaxSuppression", (11, NEWEST), [BOXES, const([[[0.9, 0.75, 0.6, 0.95]]]), ints(1), None, None],
    center_point_box=1)  # fmt: skip

# Quantisation.
row("QuantizeLinear", (10, NEWEST), [f32(2, 6, low=-9, high=9), const(0.1), const(128, np.uint8)])
row("QuantizeLinear", (13, NEWEST), [f32(2, 3), const([0.1, 0.2]), const([3, -4], np.int8)], axis=0)
row("QuantizeLinear", (19, NEWEST), [f32(4), const(0.5), Constant(np.zeros((), ml_dtypes.float8_e4m3fn))])
row("QuantizeLinear", (21, NEWEST), [f32(2, 6), f32(2, 3, low=0.1), Constant(np.zeros((2, 3), np.int8))], axis=1,
    block_size=2)  # fmt: skip
row("DequantizeLinear", (10, NEWEST), [np.array([0, 128, 255], np.uint8), const(0.1), const(128, np.uint8)])
row("DequantizeLinear", (13, NEWEST), [np.array([[1, 2], [3, 4]], np.int8), const([0.1, 0.2]), const([1, 2], np.int8)],
    axis=-1)  # fmt: skip
row("DequantizeLinear", (21, NEWEST), [np.full((2, 6), 9, np.int8), f32(2, 3), const([[1, 2, 3]] * 2, np.int8)],
    block_size=2)  # fmt: skip
row("DynamicQuantizeLinear", (11, NEWEST), [X3], 3)

# Sequences of steps.
STEPS = f32(3, 2, 4)
for name, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
    weights = [f32(2, gates * 5, 4), f32(2, gates * 5, 5), f32(2, gates * 10)]
    outputs = 3 if name == "LSTM" else 2
    row(name, ALL, [STEPS, *weights, np.array([3, 1], np.int32)], outputs, hidden_size=5, direction="bidirectional")
    one = [f32(1, gates * 5, 4), f32(1, gates * 5, 5)]
    # ONNX Runtime does not clip what an LSTM's cell gives to its last activation; tests/kernels have that.
    limit = {} if name == "LSTM" else {"clip": 0.5}
    row(name, ALL, [STEPS, *one], outputs, hidden_size=5, direction="reverse", **limit)
row("GRU", ALL, [STEPS, f32(1, 15, 4), f32(1, 15, 5), f32(1, 30)], 2, hidden_size=5, linear_before_reset=1)

# Spectra.
row("DFT", (17, 19), [f32(1, 6, 1)], axis=1, onesided=1)
row("DFT", (17, 19), [f32(1, 3, 5, 2), const(4, np.int64)], axis=2)
row("DFT", (20, NEWEST), [f32(1, 6, 1), None, const(1, np.int64)], onesided=1)
row("DFT", (20, NEWEST), [f32(1, 3, 5, 2), const(4, np.int64)], inverse=1)
row("HannWindow", (17, NEWEST), [const(6, np.int64)])
row("HammingWindow", (17, NEWEST), [const(6, np.int64)], periodic=0)
for reduction in ("none", "mean", "sum"):
    row("NegativeLogLikelihoodLoss", (12, NEWEST), [f32(3, 4), np.array([0, 3, 1], np.int64), f32(4, low=0.5)],
        reduction=reduction, ignore_index=3)  # fmt: skip
    row("SoftmaxCrossEntropyLoss", (12, NEWEST), [f32(3, 4), np.array([0, 3, 1], np.int64)], 2, reduction=reduction)

# What changed in element types alone.
for name in ("Abs", "Neg", "Ceil", "Floor", "Exp", "Sin", "Cos", "Tan", "Atan", "Asinh", "Sinh", "Cosh"):
    row(name, (9 if name in ("Asinh", "Sinh", "Cosh") else 7, NEWEST), [X3])
for name, low in (("Log", 0.1), ("Sqrt", 0.0), ("Reciprocal", 0.1), ("Acosh", 1.1)):
    row(name, (9 if name == "Acosh" else 7, NEWEST), [f32(5, low=low)])
for name in ("Acos", "Asin", "Atanh"):
    row(name, (9 if name == "Atanh" else 7, NEWEST), [f32(5, low=-0.9, high=0.9)])
for name in ("And", "Or", "Xor"):
    row(name, ALL, [np.array([[True], [False]]), np.array([True, False, True])])
for name in ("GreaterOrEqual", "LessOrEqual"):
    row(name, (12, NEWEST), [SPECIAL, SPECIAL[::-1].copy()])
row("Where", (9, NEWEST), [np.array([[True], [False]]), f32(3), f32(2, 1)])
row("Identity", ALL, [X3])
row("Size", ALL, [X3])
row("CastLike", (15, NEWEST), [SPECIAL[3:], np.zeros(1, np.float64)])
row("ConstantOfShape", (9, NEWEST), [ints(2, 0, 3)])
row("Det", (11, NEWEST), [f32(2, 3, 3)])
row("Einsum", (12, NEWEST), [f32(2, 3), f32(3, 4)], equation="ij,jk->ki")
row("GlobalAveragePool", ALL, [X4])
row("GlobalMaxPool", ALL, [X4])
row("MaxRoiPool", ALL, [X4, const([[0, 0, 0, 3, 4], [0, 1, 1, 5, 4]])], pooled_shape=[2, 2])
row("MaxUnpool", (9, NEWEST), [f32(1, 1, 2, 2), Constant(np.array([[[[0, 3], [8, 14]]]], np.int64))],
    kernel_shape=[2, 2], strides=[2, 2])  # fmt: skip
row("DeformConv", (19, NEWEST), [X4, f32(3, 2, 2, 2), f32(1, 8, 4, 5)])
BYTES = (const(0.1), const(7, np.uint8))
row("QLinearMatMul", (10, NEWEST), [np.arange(6, dtype=np.uint8).reshape(2, 3) * 9, *BYTES,
                                    np.arange(12, dtype=np.uint8).reshape(3, 4) * 9, *BYTES, *BYTES])  # fmt: skip
