"""hip.resize against ONNX's reference implementation in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.reference.ops.op_resize as onnx_resize
import pytest

from hip_compiler.core.dialects.hip.resize import COORDINATES, OPS, ROUNDINGS
from tests.kernels.compare import FLOATS, assert_close, draw, is_float, widen
from tests.kernels.harness import KernelError, call_op
from tests.kernels.reference import reference

RESIZE, RESIZE_EXTENTS = OPS


@pytest.fixture(autouse=True)
def wide_coefficients(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference computes cubic weights in the type of the coefficient, which it reads as float32."""
    for name in ("_cubic_coeffs", "_cubic_coeffs_antialias"):
        original = getattr(onnx_resize, name)
        monkeypatch.setattr(
            onnx_resize,
            name,
            lambda ratio, scale, A, original=original: original(ratio, scale, float(A)),  # noqa: N803
        )


def check(
    x: np.ndarray,
    *,
    scales: list[float] | None = None,
    sizes: list[int] | None = None,
    roi: list[float] | None = None,
    mode: str = "nearest",
    coordinate: str = "half_pixel",
    nearest: str = "round_prefer_floor",
    **attributes: Any,
) -> None:
    region = None if roi is None else np.array(roi, np.float32)
    factors = None if scales is None else np.array(scales, np.float32)
    target = None if sizes is None else np.array(sizes, np.int64)
    (expected,) = reference(
        "Resize",
        [widen(x) if is_float(x.dtype) else x, region, factors, target],
        opset=19,
        mode=mode,
        coordinate_transformation_mode=coordinate,
        nearest_mode=nearest,
        **attributes,
    )
    (actual,) = call_op(
        RESIZE,
        [x, factors, region],
        [(expected.shape, x.dtype)],
        mode=mode,
        coordinate=coordinate,
        nearest=nearest,
        threads=2,
        **attributes,
    )
    assert_close(actual, expected, factor=2)


@pytest.mark.parametrize("coordinate", [c for c in COORDINATES if c != "tf_crop_and_resize"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("scales", [[1, 1, 2, 3], [1, 1, 0.6, 0.5], [1, 1, 1.7, 0.8], [2, 1, 1, 1.5], [1, 1, 0.25, 1]])
def test_scales(scales: list[float], mode: str, coordinate: str) -> None:
    check(draw((1, 2, 5, 6)), scales=scales, mode=mode, coordinate=coordinate)


@pytest.mark.parametrize("nearest", ROUNDINGS[:-1])
@pytest.mark.parametrize("coordinate", ["half_pixel", "asymmetric", "align_corners"])
@pytest.mark.parametrize("sizes", [[1, 1, 7, 3], [1, 1, 2, 9], [1, 1, 1, 8]])
def test_nearest_sizes(sizes: list[int], coordinate: str, nearest: str) -> None:
    check(draw((1, 1, 4, 4)), sizes=sizes, coordinate=coordinate, nearest=nearest)


@pytest.mark.parametrize("dtype", [*FLOATS, np.uint8, np.int8, np.int32])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_dtypes(mode: str, dtype: Any) -> None:
    x = draw((2, 3, 5), dtype) if is_float(dtype) else (draw((2, 3, 5), dtype) * 2).astype(dtype)
    check(x, scales=[1, 2.5, 0.7], mode=mode)


def test_integers_saturate_and_signless_storage() -> None:
    x = np.array([[0, 255, 255, 0]], np.uint8)
    check(x, scales=[1, 3], mode="cubic")
    (expected,) = call_op(RESIZE, [x, None, None], [((1, 12), np.uint8)], mode="cubic")
    (actual,) = call_op(RESIZE, [x.view(np.int8), None, None], [((1, 12), np.int8)], mode="cubic", unsigned=True)
    np.testing.assert_array_equal(actual.view(np.uint8), expected)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("scales", [[1, 1, 0.6, 0.3], [1, 1, 2, 0.5]])
@pytest.mark.parametrize("exclude_outside", [0, 1])
def test_antialias(scales: list[float], mode: str, exclude_outside: int) -> None:
    check(draw((1, 2, 9, 10)), scales=scales, mode=mode, antialias=1, exclude_outside=exclude_outside)


def test_cubic_options() -> None:
    check(draw((1, 1, 4, 5)), scales=[1, 1, 0.8, 2], mode="cubic", cubic_coeff_a=-0.5, exclude_outside=1)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_crop(mode: str) -> None:
    roi = [0, 0, 0.4, 0.6, 1, 1, 0.6, 1.4]
    options: dict[str, Any] = {"mode": mode, "coordinate": "tf_crop_and_resize", "extrapolation_value": 10.0}
    check(draw((1, 1, 6, 5)), sizes=[1, 1, 3, 4], roi=roi, **options)


def test_one_axis_of_many_ranks() -> None:
    check(draw((7,)), scales=[2.3], mode="linear")
    check(draw((2, 3, 2, 4, 3)), scales=[1, 1, 2, 0.5, 1.5], mode="linear")


def test_identity_and_empty() -> None:
    x = draw((2, 3), np.float16)
    np.testing.assert_array_equal(call_op(RESIZE, [x, None, None], [((2, 3), np.float16)], mode="cubic")[0], x)
    assert call_op(RESIZE, [draw((0, 3)), None, None], [((0, 6), np.float32)])[0].shape == (0, 6)
    with pytest.raises(KernelError, match="axis 0 is empty"):
        call_op(RESIZE, [draw((0, 3)), None, None], [((2, 3), np.float32)])
    with pytest.raises(KernelError, match="scale of axis 1 is not positive"):
        call_op(RESIZE, [draw((2, 3)), np.array([1, 0], np.float32), None], [((2, 3), np.float32)])


def test_extents_from_scales() -> None:
    x, scales = draw((2, 5, 7)), np.array([1, 0.5, 1.3], np.float32)
    (extents,) = call_op(RESIZE_EXTENTS, [x, scales], [((3,), np.int64)])
    assert extents.tolist() == [2, 2, 9]
    with pytest.raises(KernelError, match="the scale of axis 1 makes no extent"):
        call_op(RESIZE_EXTENTS, [x, np.array([1, np.nan, 1], np.float32)], [((3,), np.int64)])
