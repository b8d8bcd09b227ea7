"""Operators of the rarer families against ONNX Runtime, over drawn shapes, attributes and numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnxruntime
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.fuzz.drawing import budget, floats, same
from tests.fuzz.nodes import OPSET, model_of, node

Draw = Callable[[st.SearchStrategy[Any]], Any]
few, small, seeds, masks = st.integers(1, 4), st.integers(1, 7), st.integers(0, 2**31), st.integers(0, 2**16 - 1)


@dataclass(frozen=True)
class Example:
    """A node: operator, inputs of the run, constants after them, number of outputs, attributes.

    A negative tolerance is one step of integers.
    """

    op: str
    feeds: dict[str, np.ndarray]
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    outputs: int = 1
    attributes: dict[str, Any] = field(default_factory=dict)
    opset: int = OPSET
    tolerance: float = 1e-4
    extents_known: bool = False


def plain(draw: Draw, *shape: int) -> np.ndarray:
    return floats(shape, draw(seeds), special=False)


def whole(draw: Draw, low: int, high: int, shape: tuple[int, ...], dtype: Any = np.int64) -> np.ndarray:
    return np.random.default_rng(draw(seeds)).integers(low, high, shape).astype(dtype)


def flags(draw: Draw, *names: str) -> dict[str, int]:
    return {name: draw(st.integers(0, 1)) for name in names}


def choice(draw: Draw, *values: Any) -> Any:
    return draw(st.sampled_from(values))


def resize(draw: Draw) -> Example:
    """Four axes of which two are resized; ONNX Runtime has no cubic for others."""
    x = plain(draw, draw(few), draw(few), draw(small), draw(small))
    mode = choice(draw, "nearest", "linear", "cubic")
    how: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": choice(
        draw, "half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")}  # fmt: skip
    if mode == "nearest":
        how["nearest_mode"] = choice(draw, "round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    if mode == "cubic":
        how |= {"exclude_outside": draw(st.integers(0, 1)), "cubic_coeff_a": choice(draw, -0.75, -0.5)}
    sizes = np.array([*x.shape[:2], draw(small), draw(small)], np.int64)
    if draw(st.booleans()):
        return Example("Resize", {"x": x}, {"_roi": sizes, "_scales": sizes, "sizes": sizes}, 1, how)
    scales = np.array([1, 1, *(choice(draw, 0.5, 1, 1.5, 2, 3) for _ in range(2))], np.float32)
    resized = np.array(x.shape) * scales
    assume((resized >= 1).all())
    # The corners of an extent that is no whole number: ONNX's reference takes it as it is, ONNX Runtime rounds it.
    assume(how["coordinate_transformation_mode"] != "align_corners" or (resized == np.floor(resized)).all())
    return Example("Resize", {"x": x}, {"_roi": sizes, "scales": scales}, 1, how, extents_known=True)


def grid_sample(draw: Draw) -> Example:
    n, h, w = draw(few), draw(small), draw(small)
    grid = np.asarray(plain(draw, n, draw(few), draw(few), 2) / 3, np.float32)
    how: dict[str, Any] = {"mode": choice(draw, "linear", "nearest", "cubic"), **flags(draw, "align_corners")}
    how["padding_mode"] = choice(draw, "zeros", "border", "reflection")
    # Cubic positions outside: ONNX Runtime moves them to the border, ONNX's reference the pixels beside them.
    assume(how["mode"] != "cubic" or how["padding_mode"] != "border")
    return Example("GridSample", {"x": plain(draw, n, draw(few), h, w), "grid": grid}, attributes=how)


def roi_align(draw: Draw) -> Example:
    n, count = draw(few), draw(few)
    rois = np.abs(plain(draw, count, 4)) * 2
    rois[:, 2:] += rois[:, :2]
    how = {"output_height": draw(few), "output_width": draw(few), "sampling_ratio": draw(st.integers(0, 2)),
           "spatial_scale": choice(draw, 1.0, 0.5), "mode": choice(draw, "avg", "max"),
           "coordinate_transformation_mode": choice(draw, "half_pixel", "output_half_pixel")}  # fmt: skip
    assume(how["mode"] == "avg" or how["sampling_ratio"])
    feeds = {"x": plain(draw, n, draw(few), 8, 9), "rois": rois, "at": whole(draw, 0, n, (count,))}
    return Example("RoiAlign", feeds, attributes=how, opset=16)


def col2im(draw: Draw) -> Example:
    image, block = [draw(st.integers(3, 7)) for _ in range(2)], [draw(st.integers(1, 3)) for _ in range(2)]
    strides, pads, dilations = ([draw(st.integers(low, 2)) for _ in range(n)] for low, n in ((1, 2), (0, 4), (1, 2)))
    cells = [(image[i] + pads[i] + pads[i + 2] - dilations[i] * (block[i] - 1) - 1) // strides[i] + 1 for i in range(2)]
    assume(min(cells) > 0)
    x = plain(draw, draw(few), draw(few) * block[0] * block[1], cells[0] * cells[1])
    how = {"strides": strides, "pads": pads, "dilations": dilations}
    return Example("Col2Im", {"x": x}, {"i": np.array(image), "b": np.array(block)}, attributes=how)


def one_hot(draw: Draw) -> Example:
    shape = tuple(draw(st.lists(st.integers(0, 3), min_size=1, max_size=3)))
    depth = draw(few)
    at = whole(draw, -depth - 1, depth + 1, shape)
    rank = len(shape) + 1
    values = np.array([0.5, -2], choice(draw, np.float32, np.int64))
    return Example(
        "OneHot",
        {"x": at},
        {"d": np.array(depth), "v": values},
        attributes={"axis": draw(st.integers(-rank, rank - 1))},
    )


def reverse_sequence(draw: Draw) -> Example:
    time = draw(st.integers(0, 1))
    shape = (draw(small), draw(small), *draw(st.lists(few, max_size=2)))
    lengths = whole(draw, 1, shape[time] + 1, (shape[1 - time],))
    return Example(
        "ReverseSequence",
        {"x": plain(draw, *shape), "n": lengths},
        attributes={"time_axis": time, "batch_axis": 1 - time},
    )


def scatter_nd(draw: Draw) -> Example:
    shape = tuple(draw(st.lists(few, min_size=1, max_size=4)))
    depth, outer = draw(st.integers(1, len(shape))), draw(st.lists(few, min_size=1, max_size=2))
    at = np.stack([whole(draw, -e, e, tuple(outer)) for e in shape[:depth]], -1)
    how = {"reduction": choice(draw, "add", "mul", "max", "min")}
    feeds = {"x": plain(draw, *shape), "at": at, "u": plain(draw, *outer, *shape[depth:])}
    return Example("ScatterND", feeds, attributes=how, opset=18)


def blocks(draw: Draw) -> Example:
    op, size = choice(draw, "DepthToSpace", "SpaceToDepth"), draw(st.integers(1, 3))
    n, c, h, w = draw(st.integers(0, 2)), draw(few), draw(few), draw(few)
    if op == "DepthToSpace":
        return Example(
            op,
            {"x": plain(draw, n, c * size * size, h, w)},
            attributes={"blocksize": size, "mode": choice(draw, "DCR", "CRD")},
        )
    return Example(op, {"x": plain(draw, n, c, h * size, w * size)}, attributes={"blocksize": size})


def crop_pad(draw: Draw) -> Example:
    shape = draw(st.lists(small, min_size=1, max_size=4))
    axes = draw(st.lists(st.integers(0, len(shape) - 1), unique=True, min_size=1))
    target = np.array([draw(small) for _ in axes], np.int64)
    return Example("CenterCropPad", {"x": plain(draw, *shape)}, {"s": target}, attributes={"axes": axes})


def suppression(draw: Draw) -> Example:
    n, boxes, classes = draw(st.integers(1, 2)), draw(st.integers(1, 9)), draw(st.integers(1, 3))
    where = np.abs(plain(draw, n, boxes, 4))
    held = {"m": np.array([draw(st.integers(0, 4))]), "i": np.array([choice(draw, 0.3, 0.5)], np.float32),
            "s": np.array([choice(draw, 0.0, 0.6)], np.float32)}  # fmt: skip
    feeds = {"b": where, "p": np.abs(plain(draw, n, classes, boxes))}
    return Example("NonMaxSuppression", feeds, held, attributes=flags(draw, "center_point_box"))


def global_pool(draw: Draw) -> Example:
    op = choice(draw, "GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
    shape = (draw(few), draw(few), *draw(st.lists(few, min_size=1, max_size=3)))
    return Example(op, {"x": plain(draw, *shape)}, attributes={"p": draw(few)} if op == "GlobalLpPool" else {})


def determinant(draw: Draw) -> Example:
    size = draw(small)
    return Example("Det", {"x": plain(draw, *draw(st.lists(few, max_size=2)), size, size)}, tolerance=1e-2)


def clip(draw: Draw) -> Example:
    x = floats(tuple(draw(st.lists(st.integers(0, 4), max_size=3))), draw(seeds))
    low, high = np.sort(np.array([draw(st.floats(-3, 3, width=32)) for _ in range(2)], np.float32))
    names = choice(draw, ("low", "high"), ("_low", "high"), ("low",))
    return Example("Clip", {"x": x}, dict(zip(names, (np.array(low), np.array(high)), strict=False)))


def losses(draw: Draw) -> Example:
    op, classes = choice(draw, "NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"), draw(st.integers(2, 5))
    n, spatial = draw(few), draw(st.lists(few, max_size=2))
    feeds = {"x": plain(draw, n, classes, *spatial), "t": whole(draw, 0, classes, (n, *spatial))}
    if draw(st.booleans()):
        feeds["w"] = np.abs(plain(draw, classes)) + 0.1
    how: dict[str, Any] = {"reduction": choice(draw, "none", "sum", "mean")}
    if draw(st.booleans()):
        how["ignore_index"] = draw(st.integers(-1, classes - 1))
        assume(how["reduction"] != "mean" or (feeds["t"] != how["ignore_index"]).any())
    return Example(op, feeds, attributes=how, opset=13)


def convolved_bytes(draw: Draw) -> Example:
    kinds, group, c = (
        choice(draw, (np.uint8, np.uint8), (np.uint8, np.int8)),
        draw(st.integers(1, 2)),
        draw(st.integers(1, 3)),
    )
    x = whole(draw, 0, 256, (draw(few), c * group, draw(st.integers(3, 8)), draw(st.integers(3, 8))), np.uint8)
    w = whole(
        draw,
        *((0, 256) if kinds[1] is np.uint8 else (-128, 128)),
        (2 * group, c, draw(st.integers(1, 3)), draw(st.integers(1, 3))),
        kinds[1],
    )
    how = {
        "group": group,
        "strides": [draw(st.integers(1, 2)) for _ in range(2)],
        "pads": [draw(st.integers(0, 1)) for _ in range(4)],
    }
    zeros = np.array(draw(st.integers(0, 255)), np.uint8), np.array(draw(st.integers(0, 100)), kinds[1])
    if draw(st.booleans()):
        held = {"zx": zeros[0], "zw": zeros[1]}
        return Example("ConvInteger", {"x": x, "w": w}, held, attributes=how, extents_known=True)
    scale = np.array(0.1, np.float32)
    held = {
        "sx": scale,
        "zx": zeros[0],
        "w": w,
        "sw": scale,
        "zw": zeros[1],
        "sy": np.array(9.0, np.float32),
        "zy": zeros[0],
    }
    return Example("QLinearConv", {"x": x}, held, attributes=how, tolerance=-1)


def dynamic(draw: Draw) -> Example:
    return Example(
        "DynamicQuantizeLinear",
        {"x": plain(draw, *draw(st.lists(few, min_size=1, max_size=3)))},
        outputs=3,
        tolerance=-1,
    )


def identity_like(draw: Draw) -> Example:
    return Example(
        "EyeLike",
        {"x": plain(draw, draw(st.integers(0, 5)), draw(st.integers(0, 5)))},
        attributes={"k": draw(st.integers(-6, 6))},
    )


def ranges(draw: Draw) -> Example:
    dtype = choice(draw, np.int64, np.int32, np.float32)
    start, limit, step = draw(st.integers(-9, 9)), draw(st.integers(-9, 9)), choice(draw, -3, -2, -1, 1, 2, 3)
    return Example("Range", {n: np.array(v, dtype) for n, v in (("a", start), ("b", limit), ("c", step))})


def affine(draw: Draw) -> Example:
    axes, n = draw(st.integers(2, 3)), draw(few)
    size = np.array([n, draw(few), *(draw(small) for _ in range(axes))])
    return Example(
        "AffineGrid", {"t": plain(draw, n, axes, axes + 1)}, {"s": size}, attributes=flags(draw, "align_corners")
    )


def deformed(draw: Draw) -> Example:
    n, c, h, w, kh, kw = (
        draw(st.integers(1, 2)),
        draw(few),
        draw(st.integers(3, 6)),
        draw(st.integers(3, 6)),
        draw(st.integers(1, 3)),
        draw(st.integers(1, 3)),
    )
    groups = draw(st.integers(1, 2))
    pads = [draw(st.integers(0, 1)) for _ in range(4)]
    oh, ow = h + pads[0] + pads[2] - kh + 1, w + pads[1] + pads[3] - kw + 1
    feeds = {
        "x": plain(draw, n, c * groups, h, w),
        "w": plain(draw, 2 * groups, c, kh, kw),
        "o": plain(draw, n, 2 * groups * kh * kw, oh, ow),
    }
    if draw(st.booleans()):
        feeds |= {"b": plain(draw, 2 * groups), "m": plain(draw, n, groups * kh * kw, oh, ow)}
    return Example(
        "DeformConv",
        feeds,
        attributes={"pads": pads, "group": groups, "offset_group": groups, "kernel_shape": [kh, kw]},
        opset=19,
        tolerance=1e-3,
    )


def windows(draw: Draw) -> Example:
    op = choice(draw, "HannWindow", "HammingWindow", "BlackmanWindow")
    return Example(op, {"n": np.array(draw(st.integers(2, 40)))}, attributes=flags(draw, "periodic"), tolerance=1e-4)


def regions(draw: Draw) -> Example:
    n = draw(few)
    rois = np.concatenate([whole(draw, 0, n, (3, 1)), whole(draw, 0, 4, (3, 2)), whole(draw, 4, 9, (3, 2))], 1).astype(
        np.float32
    )
    return Example(
        "MaxRoiPool",
        {"x": plain(draw, n, draw(few), 8, 8), "r": rois},
        attributes={"pooled_shape": [draw(few), draw(few)]},
        opset=7,
    )


def shape_of(draw: Draw) -> Example:
    x = plain(draw, *draw(st.lists(st.integers(0, 4), max_size=5)))
    return choice(
        draw,
        Example("Size", {"x": x}),
        Example("Shape", {"x": x}, attributes={"start": draw(st.integers(-7, 7)), "end": draw(st.integers(-7, 7))}),
    )


def means(draw: Draw) -> Example:
    a, b = draw(few), draw(few)
    feeds = {"x": plain(draw, a, b), "y": plain(draw, b), "z": plain(draw, a, 1)}
    return Example(choice(draw, "Mean", "Sum", "Max", "Min"), dict(list(feeds.items())[: draw(few)]))


def log_softmax(draw: Draw) -> Example:
    rows, columns = draw(small), draw(small)
    return Example(
        "LogSoftmax",
        {"x": plain(draw, rows, columns)},
        attributes={"axis": draw(st.integers(-2, 1))},
        opset=choice(draw, 11, 13),
    )


FAMILIES: tuple[Callable[[Draw], Example], ...] = (
    resize, grid_sample, roi_align, col2im, one_hot, reverse_sequence, scatter_nd, blocks, crop_pad, suppression,
    global_pool, determinant, clip, losses, convolved_bytes, dynamic, identity_like, ranges, affine, deformed, windows,
    regions, shape_of, means, log_softmax,
)  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.__name__)
def test_agrees_with_onnx_runtime(family: Callable[[Draw], Example]) -> None:
    @budget(2)
    @given(known=masks, data=st.data())
    def holds(known: int, data: st.DataObject) -> None:
        e = family(data.draw)
        arguments = {"constants": e.constants, "opset": e.opset, "outputs": e.outputs, **e.attributes}
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        model = model_of(e.op, e.feeds, 0, **arguments)
        reference = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        expected = reference.run(None, dict(e.feeds))
        found = node(e.op, e.feeds, (1 << 16) - 1 if e.extents_known else known, **arguments)
        for number, (got, wanted) in enumerate(zip(found, expected, strict=True)):
            if e.tolerance < 0 and got.dtype.itemsize == 1:
                assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
                assert np.abs(got.astype(int) - wanted.astype(int)).max(initial=0) <= 1
            else:
                same(got, wanted, f"{e.op} {e.attributes} {number}", abs(e.tolerance), abs(e.tolerance))

    holds()
