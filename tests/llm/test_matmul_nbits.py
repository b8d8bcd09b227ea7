"""MatMulNBits: kernels on every CPU level and in graphs, against a dequantised float64 product and ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hip_compiler
from hip_compiler.core.dialects.hip.matmul_nbits import OPS
from hip_compiler.core.passes.pack_quantized import pack_cells, pack_words, unpack_fields
from hip_compiler.toolchain.levels import runnable_levels
from tests.kernels.compare import BF16, assert_close, draw, widen
from tests.kernels.harness import call_op
from tests.llm.graphs import feeds_of, node_model, ours, run_both, runtime
from tests.llm.oracles import Quantised, quantised

LEVELS = [level.name for level in runnable_levels()]


def call(a: np.ndarray, q: Quantised, *, packed: bool, bias: np.ndarray | None = None, **rest: Any) -> np.ndarray:
    """The kernel on the model's layout or on the packed one."""
    n, blocks = q.weights.shape[:2]
    bits = rest["bits"]
    weights, scales, zeros = q.weights, q.scales, q.zeros
    if packed:
        weights, scales = pack_words(weights, bits), pack_cells(q.scales.reshape(n, blocks).astype(np.float32))
        if zeros is not None:
            cells = unpack_fields(zeros, bits)[:, :blocks] if zeros.dtype == np.uint8 else zeros
            zeros = pack_cells(cells.astype(np.float32))
    spec = ((*a.shape[:-1], n), a.dtype)
    inputs = [a, weights, scales, zeros, bias]
    return call_op(OPS[0], inputs, [spec], n=n, k=a.shape[-1], packed=packed, **rest)[0]


def rounded_rows(a: np.ndarray, block: int) -> np.ndarray:
    """Activations as accuracy level 4 sees them: 127 steps to the largest of every block."""
    rows, k = a.shape
    blocks = np.pad(widen(a), [(0, 0), (0, -k % block)]).reshape(rows, -1, block)
    step = np.abs(blocks).max(-1, keepdims=True) / 127
    return (np.rint(np.divide(blocks, step, out=np.zeros_like(blocks), where=step > 0)) * step).reshape(rows, -1)[:, :k]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("zeros", ["none", "packed", "float"])
def test_float_products_on_every_level(level: str, bits: int, zeros: str) -> None:
    for m, n, k, block in ((1, 45, 100, 16), (1, 64, 128, 32), (5, 33, 70, 32), (1, 7, 600, 512), (20, 96, 256, 128)):
        q, a, bias = quantised(n, k, bits, block, zeros), draw((m, k)), draw((n,), seed=4)
        expected = widen(a) @ q.matrix
        rest: dict[str, Any] = {"bits": bits, "block": block, "level": level}
        for packed in (True, False):
            assert_close(call(a, q, packed=packed, **rest), expected, factor=8)
        assert_close(call(a, q, packed=True, bias=bias, **rest), expected + widen(bias), factor=8)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("zeros", ["none", "packed", "float"])
def test_accuracy_level_4_rounds_activations_by_block_or_not_at_all(level: str, bits: int, zeros: str) -> None:
    for m, n, k, block in ((1, 45, 100, 16), (1, 64, 128, 32), (13, 33, 70, 32), (3, 7, 600, 512), (2, 1, 5, 16)):
        q, a = quantised(n, k, bits, block, zeros), draw((m, k))
        rows = rounded_rows(a, block) if level.endswith("vnni") else widen(a)
        y = call(a, q, packed=True, bits=bits, block=block, accuracy_level=4, level=level)
        assert_close(y, rows @ q.matrix, factor=8)


@pytest.mark.parametrize("dtype", [np.float16, BF16])
@pytest.mark.parametrize("m", [1, 6])
@pytest.mark.parametrize("accuracy", [0, 4])
def test_half_precision(dtype: Any, m: int, accuracy: int) -> None:
    q, a, bias = quantised(40, 96, 4, 32, "float", dtype=dtype), draw((m, 96), dtype), draw((40,), dtype, 3)
    rows = rounded_rows(a, 32) if accuracy == 4 else widen(a)
    for packed in (True, False):
        exact = rows if packed else widen(a)
        y = call(a, q, packed=packed, bias=bias, bits=4, block=32, accuracy_level=accuracy)
        assert_close(y, exact @ q.matrix + widen(bias), factor=4)


def test_nan_and_zero_rows() -> None:
    q, a = quantised(40, 96, 4, 32), np.zeros((3, 96), np.float32)
    a[1, 7], a[2, 50] = np.nan, 1.0
    for accuracy in (0, 4):
        y = call(a, q, packed=True, bits=4, block=32, accuracy_level=accuracy)
        assert np.all(y[0] == 0)
        assert np.isnan(y[1]).all()
        assert_close(y[2:], q.matrix[None, 50], factor=4)


def _graph(a: np.ndarray, q: Quantised, **attributes: Any) -> tuple[Any, dict[str, np.ndarray | None]]:
    extra = {name: attributes.pop(name, None) for name in ("g_idx", "bias")}
    inputs = {"a": a, "b": q.weights, "scales": q.scales, "zeros": q.zeros, **extra}
    constants = [name for name in ("b", "scales", "zeros", "g_idx", "bias") if inputs[name] is not None]
    n, k = q.weights.shape[0], a.shape[-1]
    return node_model("MatMulNBits", inputs, ["y"], constants=constants, N=n, K=k, **attributes), inputs


@pytest.mark.parametrize("m", [1, 8])
@pytest.mark.parametrize("zeros", ["none", "packed"])
@pytest.mark.parametrize("accuracy", [0, 4])
def test_case_c1_rows_of_weights_take_whole_blocks(m: int, zeros: str, accuracy: int) -> None:
    """K = 4304 is no multiple of 32: a row takes 2160 bytes, not 2152."""
    q, a = quantised(1152, 4304, 4, 32, zeros), draw((1, m, 4304))
    assert q.weights[0].nbytes == 2160
    model, inputs = _graph(a, q, bits=4, block_size=32, accuracy_level=accuracy)
    [y] = ours(model, feeds_of(model, inputs))
    rows = rounded_rows(a[0], 32) if accuracy and LEVELS[-1].endswith("vnni") else widen(a[0])
    assert_close(y[0], rows @ q.matrix, factor=20)
    [theirs] = runtime(model, feeds_of(model, inputs))
    assert np.abs(y - theirs).max() < (2e-2 if accuracy else 1e-4) * np.abs(theirs).max()


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("block", [16, 64, 512])
@pytest.mark.parametrize("zeros", ["none", "packed", "float"])
def test_graphs_against_onnx_runtime(bits: int, block: int, zeros: str) -> None:
    q, a, bias = quantised(48, 530, bits, block, zeros), draw((2, 3, 530)), draw((48,), seed=2)
    model, inputs = _graph(a, q, bits=bits, block_size=block, bias=bias)
    [y] = ours(model, feeds_of(model, inputs))
    assert_close(y, widen(a) @ q.matrix + widen(bias), factor=8)
    if (bits == 2 and block in (16, 512)) or (bits != 4 and zeros == "float"):
        return  # ONNX Runtime has no CPU kernel for these.
    [theirs] = runtime(model, feeds_of(model, inputs))
    assert_close(y, widen(theirs), factor=20)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("accuracy", range(5))
@pytest.mark.parametrize("block", [16, 32, 64, 128, 256, 512])
def test_accuracy_levels_and_blocks(accuracy: int, block: int, dtype: Any) -> None:
    """Levels but 4 are computed in float32; 4 rounds activations where the CPU has the instructions."""
    q, a = quantised(40, 1100, 4, block, "packed", dtype=dtype), draw((3, 1100), dtype)
    model, inputs = _graph(a, q, bits=4, block_size=block, accuracy_level=accuracy)
    [y] = ours(model, feeds_of(model, inputs))
    rows = rounded_rows(a, block) if accuracy == 4 and LEVELS[-1].endswith("vnni") else widen(a)
    assert_close(y, rows @ q.matrix, factor=8)
    if dtype == np.float32:
        [theirs] = runtime(model, feeds_of(model, inputs))
        assert np.abs(y - theirs).max() < (2e-2 if accuracy == 4 else 1e-4) * np.abs(theirs).max()


@pytest.mark.parametrize("zeros", ["none", "packed", "float"])
def test_groups_out_of_order(zeros: str) -> None:
    q, a = quantised(24, 96, 4, 32, zeros), draw((5, 96))
    order = np.random.default_rng(0).permutation(np.repeat(np.arange(3), 32)).astype(np.int32)
    levels = unpack_fields(q.weights.reshape(24, -1), 4)[:, :96].astype(np.float64)
    offsets = np.full((24, 3), 8.0)
    if q.zeros is not None:
        offsets = unpack_fields(q.zeros, 4)[:, :3] if zeros == "packed" else widen(q.zeros)
    matrix = (levels - offsets[:, order]) * widen(q.scales).reshape(24, 3)[:, order]
    model, inputs = _graph(a, q, bits=4, block_size=32, g_idx=order)
    [y] = ours(model, feeds_of(model, inputs))
    assert_close(y, widen(a) @ matrix.T, factor=8)


def test_weights_known_at_run_time_only() -> None:
    q, a = quantised(24, 96, 4, 32, "packed"), draw((5, 96))
    inputs = {"a": a, "b": q.weights, "scales": q.scales, "zeros": q.zeros}
    [y], _ = run_both("MatMulNBits", inputs, ["y"], N=24, K=96, bits=4, block_size=32, constants=["b"])
    assert_close(y, widen(a) @ q.matrix, factor=8)


def test_constants_hold_the_packed_weights_alone() -> None:
    """Memory of a loaded model: the packed form replaces the model's."""
    q, a = quantised(512, 512, 4, 32), draw((1, 512))
    model, _ = _graph(a, q, bits=4, block_size=32, accuracy_level=4)
    with hip_compiler.compile(model) as session:
        constants = session.metadata.constants
        assert constants is not None
        assert constants.bytes == q.weights.nbytes + q.scales.nbytes


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"bits": 3}, "weights of 3 bits|bytes of weights"),
        ({"block_size": 48}, "blocks of 48|scales for"),
        ({"accuracy_level": 7}, "accuracy_level = 7"),
        ({"weight_prepacked": 1}, "own layout"),
        ({"novel": 1}, "attribute novel is not handled"),
    ],
)
def test_variants_are_refused(attributes: dict[str, Any], reason: str) -> None:
    model, _ = _graph(draw((1, 96)), quantised(24, 96, 4, 32), **({"bits": 4, "block_size": 32} | attributes))
    with pytest.raises(hip_compiler.UnsupportedError, match=reason):
        hip_compiler.compile(model)
