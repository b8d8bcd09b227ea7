"""Lookups, n-grams and trees on emulated GPUs equal the host's; and what kernels report instead of reading outside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.device.machine import ARCHITECTURES
from tests.device.operators import FLOATS, MakeHip, call, check
from tests.gpu_runtime.harness import RunError

TABLES, PAIRWISE, NORM, SAMPLING = ("tables",), ("pairwise",), ("local_norm",), ("sampling",)
INDEX = "value that is used as an index"


def draw(shape: Any, dtype: Any, seed: int = 1) -> Any:
    return (np.random.default_rng(seed).standard_normal(shape) * 3).astype(dtype)


@pytest.mark.parametrize("dtype", [*FLOATS, np.float64, np.int8, np.int64])
def test_lookup(make_hip: MakeHip, dtype: Any) -> None:
    """Keys that are there, below, between and above; NaN finds NaN."""
    keys = np.unique(draw(37, np.int8)).astype(dtype)
    x = draw((5, 23), np.int8, 2).astype(dtype)
    if np.dtype(dtype).kind == "f":
        keys = np.append(keys, dtype(np.nan))
        x[0, :2] = np.nan
    for kept in (keys, keys[:0]):
        check(make_hip, "gfx1151", TABLES, "hipc_lookup", [x, kept], [(x.shape, np.int64)])


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_count_ngrams(make_hip: MakeHip, architecture: str, dtype: Any) -> None:
    """Two columns for one length, a column that two n-grams share, and numbers left out between members."""
    x = np.random.default_rng(3).integers(0, 3, (2, 13)).astype(dtype)
    pool = np.array([0, 2, 0, 1, 1, 2, 0, 1, 2], np.int64)
    table = np.array([[0, 1, 3], [1, 1, 0], [2, 2, 1], [4, 2, 1], [6, 3, 2]], np.int64)
    for lengths in ((1, 3, 0), (2, 3, 2)):
        y = check(
            make_hip, architecture, TABLES, "hipc_count_ngrams", [x, pool, table], [((2, 4), np.float32)], *lengths
        )
        assert y[0].max() > 1
    with pytest.raises(RunError, match=INDEX):
        wrong = np.array([[8, 2, 0]], np.int64)
        call(make_hip, architecture, TABLES, "hipc_count_ngrams", [x, pool, wrong], [((2, 4), np.float32)], 1, 2, 0)


def forest() -> list[Any]:
    """Two trees over three features; the second asks for membership."""
    rows = [  # feature, mode, yes, no, missing_is_yes, first, count
        [0, 0, 1, 2, 0, 0, 0], [0, 7, 0, 0, 0, 0, 1], [2, 3, 3, 4, 1, 0, 0],
        [0, 7, 0, 0, 0, 1, 2], [0, 7, 0, 0, 0, 3, 1],
        [1, 6, 6, 7, 0, 0, 2], [0, 7, 0, 0, 0, 0, 1], [0, 7, 0, 0, 0, 2, 2],
    ]  # fmt: skip
    splits = np.array([0.5, 0, -0.25, 0, 0, 0, 0, 0])
    roots, targets = np.array([0, 5], np.int64), np.array([0, 1, 0, 1], np.int64)
    return [np.array(rows, np.int64), splits, roots, targets, np.array([1.5, -2.0, 0.25, 4.0]), np.array([1.0, 2.0])]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
@pytest.mark.parametrize("aggregate", range(4))
def test_tree_ensemble(make_hip: MakeHip, aggregate: int, dtype: Any) -> None:
    x = np.random.default_rng(4).integers(-2, 3, (11, 3)).astype(dtype)
    x[3, 2] = np.nan
    check(make_hip, "gfx1151", TABLES, "hipc_tree_ensemble", [x, *forest()], [((11, 2), dtype)], aggregate)


def test_a_tree_that_points_outside(make_hip: MakeHip) -> None:
    """Beyond the nodes, the features, and round in a circle."""
    x = np.ones((3, 3), np.float32)
    for column, value in ((2, 9), (0, 3), (3, 0)):
        tables = forest()
        tables[0][0, column] = value
        with pytest.raises(RunError, match=INDEX):
            call(make_hip, "gfx1151", TABLES, "hipc_tree_ensemble", [x, *tables], [((3, 2), np.float32)], 0)


@pytest.mark.parametrize("classes", [2, 5])
def test_pairs_of_classes(make_hip: MakeHip, classes: int) -> None:
    """Scores of pairs, winners and coupled probabilities; one class has no vectors."""
    starts, pairs = np.array([0, 3, 3, 5, 8, 9][: classes + 1], np.int64), classes * (classes - 1) // 2
    inputs = [draw((7, 9), np.float32), draw((classes - 1, 9), np.float32, 2), starts, draw(pairs, np.float32, 3) / 8]
    outputs = [((7, pairs), np.float32), ((7,), np.int64)]
    scores, winners = check(make_hip, "gfx1151", PAIRWISE, "hipc_pairwise_scores", inputs, outputs)
    assert len(np.unique(winners)) > 1
    sigmoids = [-np.abs(draw(pairs, np.float32, 4)), draw(pairs, np.float32, 5)]
    coupled = check(
        make_hip, "gfx1151", PAIRWISE, "hipc_pairwise_coupling", [scores, *sigmoids], [((7, classes), np.float32)]
    )
    np.testing.assert_allclose(coupled[0].sum(1), 1, rtol=1e-5)
    starts[1] = 12
    with pytest.raises(RunError, match=INDEX):
        call(make_hip, "gfx1151", PAIRWISE, "hipc_pairwise_scores", inputs, outputs)


@pytest.mark.parametrize("dtype", [*FLOATS, np.float64])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_local_norms(make_hip: MakeHip, architecture: str, dtype: Any) -> None:
    x = draw((2, 7, 3, 5), dtype)
    outputs = [(x.shape, dtype)]
    for size, beta in ((3, 0.75), (4, 0.5), (1, 1.0), (20, 0.6)):
        check(make_hip, architecture, NORM, "hipc_lrn", [x], outputs, size, 0.1, beta, 1.5, factor=3)
    x[0, :, 1, 2] = 0
    for axis in (1, 3):
        for p in (1, 2):
            check(make_hip, architecture, NORM, "hipc_lp_norm", [x], outputs, axis, p, factor=2)


@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32, np.float64])
def test_reverse_sequence(make_hip: MakeHip, dtype: Any) -> None:
    x = draw((4, 3, 5), dtype)
    outputs = [(x.shape, dtype)]
    for batch, lengths in ((1, [4, 1, 0]), (0, [3, 0, 2, 1])):
        inputs = [x, np.array(lengths, np.int64)]
        check(make_hip, "gfx1151", ("indexing",), "hipc_reverse_sequence", inputs, outputs, batch, 1 - batch)
    with pytest.raises(RunError, match=INDEX):
        call(make_hip, "gfx1151", ("indexing",), "hipc_reverse_sequence", [x, np.array([1, 5, 1])], outputs, 1, 0)


def test_regions_of_images_that_are_not_there(make_hip: MakeHip) -> None:
    x, outputs = draw((2, 1, 4, 4), np.float32), [((1, 1, 1, 1), np.float32)]
    for image in (2, -1):
        regions = [x, np.array([[0, 0, 2, 2]], np.float32), np.array([image], np.int64)]
        with pytest.raises(RunError, match=INDEX):
            call(make_hip, "gfx1151", SAMPLING, "hipc_roi_align", regions, outputs, 0, 0, 1, 1, 0, 1.0)
        pooled = [x, np.array([[image, 0, 0, 2, 2]], np.float32)]
        with pytest.raises(RunError, match=INDEX):
            call(make_hip, "gfx1151", SAMPLING, "hipc_max_roi_pool", pooled, outputs, 1, 1, 1.0)


def test_regions_that_are_no_numbers(make_hip: MakeHip) -> None:
    x, wild = draw((1, 1, 4, 4), np.float32), np.array([[np.nan, np.nan, 1e30, 1e30], [-1e30, 0, 1e30, 2]], np.float32)
    images = np.zeros(2, np.int64)
    outputs = [((2, 1, 2, 2), np.float32)]
    call(make_hip, "gfx1151", SAMPLING, "hipc_roi_align", [x, wild, images], outputs, 0, 0, 2, 2, 2, 1.0)
    pooled = np.concatenate([np.zeros((2, 1), np.float32), wild], 1)
    check(make_hip, "gfx1151", SAMPLING, "hipc_max_roi_pool", [x, pooled], outputs, 2, 2, 1.0)


def test_a_condition_that_is_true_beyond_the_axis(make_hip: MakeHip) -> None:
    inputs = [draw(3, np.float32), np.array([True, False, False, True])]
    with pytest.raises(RunError, match=INDEX):
        call(make_hip, "gfx1151", ("selection",), "hipc_compress", inputs, [((2,), np.float32)], 0, 0)


def test_elements_of_many_chunks(make_hip: MakeHip) -> None:
    """More than the 4096 elements that one block numbers."""
    x = (np.random.default_rng(5).random((3, 2777)) < 0.01).astype(np.uint8)
    found = int(x.sum())
    assert found > 40
    check(make_hip, "gfx942", ("selection",), "hipc_nonzero_count", [x], [((), np.int64)])
    check(make_hip, "gfx942", ("selection",), "hipc_nonzero", [x], [((2, found), np.int64)])


def test_sequences_that_are_too_long(make_hip: MakeHip) -> None:
    x, w, r = draw((3, 2, 4), np.float32), draw((1, 5, 4), np.float32), draw((1, 5, 5), np.float32)
    inputs = [x, w, r, None, np.array([2, 4], np.int32), None]
    outputs = [((3, 1, 2, 5), np.float32), ((1, 2, 5), np.float32)]
    with pytest.raises(RunError, match="position of a cache"):
        call(make_hip, "gfx1151", ("rnn",), "hipc_rnn", inputs, outputs, [1], [0.0], [0.0], 0.0, 0, 0)
