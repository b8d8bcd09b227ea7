"""hip.grid_sample, hip.roi_align and hip.max_roi_pool against ONNX's reference implementation and NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hip_compiler.core.dialects.hip.sampling import OPS
from tests.kernels.compare import FLOATS, assert_close, draw, widen
from tests.kernels.harness import KernelError, call_op
from tests.kernels.reference import reference

GRID_SAMPLE, ROI_ALIGN, MAX_ROI_POOL = OPS


def positions(shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
    """Multiples of 1/8 between -2 and 2: coordinates are exact in every type."""
    return (np.random.default_rng(5).integers(-16, 17, shape) / 8).astype(dtype)


def grid_sample(x: np.ndarray, grid: np.ndarray, **attributes: Any) -> np.ndarray:
    shape = (*x.shape[:2], *grid.shape[1:-1])
    return call_op(GRID_SAMPLE, [x, grid], [(shape, x.dtype)], threads=2, **attributes)[0]


@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("extents", [(6,), (4, 5), (3, 4, 2)])
def test_grid_sample(extents: tuple[int, ...], align_corners: bool, padding: str, mode: str) -> None:
    x, grid = draw((2, 2, *extents)), positions((2, *(3,) * len(extents), len(extents)))
    (expected,) = reference(
        "GridSample", [widen(x), grid], opset=20, mode=mode, padding_mode=padding, align_corners=int(align_corners)
    )
    actual = grid_sample(x, grid, mode=mode, padding=padding, align_corners=align_corners)
    assert_close(actual, expected, factor=4)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_grid_sample_dtypes(mode: str, dtype: Any) -> None:
    x, grid = draw((1, 3, 4, 5), dtype), positions((1, 4, 3, 2), dtype)
    (expected,) = reference("GridSample", [widen(x), grid.astype(np.float32)], opset=20, mode=mode)
    assert_close(grid_sample(x, grid, mode=mode), expected, factor=2)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_grid_sample_survives_wild_positions(mode: str, padding: str) -> None:
    grid = np.array([np.nan, np.inf, -np.inf, 3e38, -3e38, 1e19, 1e9, -1e9], np.float32).reshape(1, 2, 2, 2)
    actual = grid_sample(np.ones((1, 1, 3, 3), np.float32), grid, mode=mode, padding=padding)
    assert actual.shape == (1, 1, 2, 2)
    if mode == "nearest" and padding == "border":
        np.testing.assert_array_equal(actual, 1)


def roi_align(x: np.ndarray, rois: np.ndarray, images: list[int], **attributes: Any) -> np.ndarray:
    shape = (len(rois), x.shape[1], attributes.get("output_height", 1), attributes.get("output_width", 1))
    return call_op(ROI_ALIGN, [x, rois, np.array(images, np.int64)], [(shape, x.dtype)], threads=2, **attributes)[0]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("coordinate", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("sampling_ratio", [0, 2])
def test_roi_align(sampling_ratio: int, coordinate: str, mode: str, dtype: Any) -> None:
    x = draw((2, 3, 9, 11), dtype)
    rois = np.array([[0, 0, 8, 8], [2, 4, 20, 16], [-6, 3, 5, 40], [7, 7, 7.5, 7.5]], dtype)
    attributes: dict[str, Any] = {
        "mode": mode,
        "output_height": 2,
        "output_width": 3,
        "sampling_ratio": sampling_ratio,
        "spatial_scale": 0.5,
    }
    (expected,) = reference(
        "RoiAlign",
        [widen(x), widen(rois), np.array([0, 1, 1, 0])],
        opset=16,
        coordinate_transformation_mode=coordinate,
        **attributes,
    )
    actual = roi_align(x, rois, [0, 1, 1, 0], coordinate=coordinate, **attributes)
    assert_close(actual, expected, factor=2)


def test_roi_align_refuses_and_survives() -> None:
    x = draw((1, 1, 4, 4))
    with pytest.raises(KernelError, match="roi_align: index 1 is outside axis 0 of extent 1"):
        roi_align(x, np.zeros((1, 4), np.float32), [1])
    wild = np.array([[np.nan, 0, 1, 1], [0, 0, np.inf, 3e38], [-3e38, -3e38, 3e38, 3e38]], np.float32)
    assert roi_align(x, wild, [0, 0, 0], sampling_ratio=2).shape == (3, 1, 1, 1)
    assert roi_align(x, np.zeros((0, 4), np.float32), []).shape == (0, 1, 1, 1)


@pytest.mark.parametrize("dtype", FLOATS)
def test_max_roi_pool(dtype: Any) -> None:
    x = draw((2, 3, 8, 9), dtype)
    rois = np.array([[0, 0, 0, 16, 14], [1, 4, 6, 9, 9], [1, 12, 2, 30, 40], [0, 5, 5, 2, 2]], dtype)
    expected = np.zeros((4, 3, 2, 3))
    for i, (image, *corners) in enumerate(widen(rois)):
        # Halves round away from zero.
        x0, y0, x1, y1 = (int(np.floor(value * 0.5 + 0.5)) for value in corners)
        height, width = max(y1 - y0 + 1, 1), max(x1 - x0 + 1, 1)
        for p, q in np.ndindex(2, 3):
            rows = slice(min(y0 + p * height // 2, 8), min(y0 - (-(p + 1) * height // 2), 8))
            columns = slice(min(x0 + q * width // 3, 9), min(x0 - (-(q + 1) * width // 3), 9))
            cell = widen(x)[int(image), :, rows, columns]
            expected[i, :, p, q] = cell.max((1, 2)) if cell.size else 0
    actual = call_op(
        MAX_ROI_POOL, [x, rois], [((4, 3, 2, 3), dtype)], output_height=2, output_width=3, spatial_scale=0.5, threads=2
    )[0]
    np.testing.assert_array_equal(widen(actual), expected)


def test_max_roi_pool_refuses_and_survives() -> None:
    x = draw((1, 1, 4, 4))
    pool: dict[str, Any] = {"output_height": 1, "output_width": 1}
    with pytest.raises(KernelError, match="max_roi_pool: index 1 is outside axis 0 of extent 1"):
        call_op(MAX_ROI_POOL, [x, np.array([[1, 0, 0, 1, 1]], np.float32)], [((1, 1, 1, 1), np.float32)], **pool)
    wild = np.array([[0, np.nan, 0, 1, 1], [0, -3e38, -3e38, 3e38, 3e38]], np.float32)
    actual = call_op(MAX_ROI_POOL, [x, wild], [((2, 1, 1, 1), np.float32)], **pool)[0]
    assert actual[1, 0, 0, 0] == x.max()
