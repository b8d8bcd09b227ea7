"""GroupQueryAttention over caches of 8 and 4 bits, against float64 and ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import hip_compiler
from hip_compiler.runtime import empty
from tests.kernels.compare import assert_close, widen
from tests.llm.graphs import feeds_of, node_model, ours, runtime
from tests.llm.test_group_query_attention import OP, OUTPUTS, Case

KINDS = ("PER_TENSOR", "PER_CHANNEL")
Arrays = dict[str, np.ndarray | None]


def quantised(case: Case, bits: int, kind: str) -> tuple[Arrays, dict[str, Any]]:
    """The inputs of a case with caches of random levels, and the attributes of the node."""
    rng, arrays = np.random.default_rng(bits), case.arrays()
    count = 1 if kind == "PER_TENSOR" else case.shared * case.size
    for name in ("key", "value"):
        arrays[f"{name[0]}_scale"] = (rng.uniform(1.5, 3, count) / 2 ** (bits - 1)).astype(np.float32)
        floats = arrays[f"past_{name}"]
        extents = (len(case.past), case.shared, 0) if floats is None else floats.shape[:3]
        levels = rng.integers(0, 256, (*extents, case.size * bits // 8), np.uint8)
        arrays[f"past_{name}"] = levels if bits == 4 else levels.view(np.int8)
    attributes = {"k_quant_type": kind, "v_quant_type": kind, "kv_cache_bit_width": bits}
    return arrays, case.attributes() | attributes


def levels_of(cache: np.ndarray, bits: int) -> np.ndarray:
    """[batch, head, position, size] integers."""
    if bits == 8:
        return cache.astype(np.int64)
    return np.stack([cache & 15, cache >> 4], -1).reshape(*cache.shape[:3], -1).astype(np.int64) - 8


def by_column(scale: np.ndarray | None, case: Case) -> np.ndarray:
    """[head, 1, size], or one number."""
    assert scale is not None
    return widen(scale) if scale.size == 1 else widen(scale).reshape(case.shared, 1, case.size)


CASES = {
    "prefill": Case(length=6),
    "prefill, tall": Case(length=60, rotary=32),
    "prefill in a large cache": Case(capacity=16),
    "decode": Case(past=(7,), length=1),
    "decode in a large cache": Case(past=(7,), length=1, capacity=20),
    "decode, many keys": Case(past=(700,), length=1, size=64),
    "decode of two lengths": Case(past=(7, 3), length=1),
    "three more tokens": Case(past=(7,), length=3, capacity=16),
    "packed, rotary": Case(packed=True, rotary=32, past=(6,), length=1),
    "window, softcap, sink": Case(past=(20,), length=3, window=6, softcap=4.0, sink=True, packed=True),
    "heads of 80": Case(size=80, heads=3, shared=3, length=19),
    "half precision": Case(dtype=np.float16, rotary=32, past=(11,), length=1),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("name", CASES)
def test_against_float64_and_onnx_runtime(name: str, bits: int, kind: str) -> None:
    case = CASES[name]
    arrays, attributes = quantised(case, bits, kind)
    model = node_model(OP, arrays, OUTPUTS, dynamic=False, **attributes)
    feeds = feeds_of(model, arrays)
    y, *presents = ours(model, feeds)
    q, *news = case.heads_of(arrays)
    least, most = -(1 << bits - 1), (1 << bits - 1) - 1
    caches = []
    for kept, new, part in zip(presents, news, ("key", "value"), strict=True):
        before, levels, scale = (
            arrays[f"past_{part}"],
            levels_of(kept, bits),
            by_column(arrays[f"{part[0]}_scale"], case),
        )
        for b, past in enumerate(case.past):
            np.testing.assert_array_equal(kept[b, :, :past], before[b, :, :past])  # type: ignore[index]
            exact = np.clip(new[b] / scale, least, most)
            off = np.abs(levels[b, :, past : past + case.length] - exact)
            assert 0.3 < off.max() < 0.5 + (0.1 if case.dtype == np.float16 else 1e-3)
        caches.append(levels * scale)
    assert_close(y, case.attended(arrays, q, caches), factor=8)
    if case.dtype == np.float16:
        return  # its caches of integers take float32 in ONNX Runtime on CPUs
    theirs = runtime(model, feeds)
    assert_close(y, widen(theirs[0]), factor=40)
    for kept, other in zip(presents, theirs[1:], strict=True):
        for b, past in enumerate(case.past):
            np.testing.assert_array_equal(kept[b, :, : past + case.length], other[b, :, : past + case.length])


@pytest.mark.parametrize("bits", [8, 4])
def test_shared_buffer_gives_the_same(bits: int) -> None:
    case = Case(past=(7,), length=1, capacity=24)
    arrays, attributes = quantised(case, bits, "PER_CHANNEL")
    model = node_model(OP, arrays, OUTPUTS, **attributes)
    feeds = feeds_of(model, arrays)
    apart = ours(model, feeds)
    caches = {}
    for name in ("key", "value"):
        caches[name] = empty(feeds[f"past_{name}"].shape, feeds[f"past_{name}"].dtype)
        caches[name][...] = feeds[f"past_{name}"]
    with hip_compiler.compile(model) as session:
        assert dict(session.metadata.shared) == {f"past_{name}": f"present_{name}" for name in caches}
        shared = feeds | {f"past_{name}": cache for name, cache in caches.items()}
        results = session.run(shared, outputs={f"present_{name}": cache for name, cache in caches.items()})
        np.testing.assert_array_equal(results["y"], apart[0])
    for name, after in zip(caches, apart[1:], strict=True):
        np.testing.assert_array_equal(caches[name][:, :, :8], after[:, :, :8])
        np.testing.assert_array_equal(caches[name][:, :, 8:], feeds[f"past_{name}"][:, :, 8:])


@pytest.mark.parametrize("bits", [8, 4])
def test_a_cache_that_keeps_a_window(bits: int) -> None:
    """The last 8 positions stay; a run over all positions at once, quantised the same, is the oracle."""
    window, steps = 8, 14
    whole = Case(length=steps, window=window)
    arrays, attributes = quantised(whole, bits, "PER_CHANNEL")
    y, *_ = ours(
        node_model(OP, arrays, OUTPUTS, **attributes), feeds_of(node_model(OP, arrays, OUTPUTS, **attributes), arrays)
    )
    columns = whole.size * bits // 8
    caches = [np.zeros((1, whole.shared, window, columns), np.uint8 if bits == 4 else np.int8)] * 2
    step_of = {name: arrays[name] for name in arrays}
    made: Any = None
    for step in range(steps):
        for name in ("query", "key", "value"):
            step_of[name] = arrays[name][:, step : step + 1]  # type: ignore[index]
        step_of |= {"past_key": caches[0], "past_value": caches[1], "seqlens_k": np.array([step], np.int32)}
        step_of["total_sequence_length"] = np.array(step + 1, np.int32)
        if made is None:
            made = node_model(OP, step_of, OUTPUTS, **attributes, sliding_window_cache=1)
            session = hip_compiler.compile(made)
        found = [np.array(x) for x in session.run(feeds_of(made, step_of)).values()]
        caches = found[1:]
        assert_close(found[0][:, 0], widen(y[:, step]), factor=20)
    session.close()


@pytest.mark.parametrize(
    ("changes", "inputs", "reason"),
    [
        ({"v_quant_type": "NONE"}, {}, "a quantised cache of keys without one of values"),
        ({"kv_cache_bit_width": 2}, {}, "a quantised cache of 2 bits"),
        ({}, {"k_scale": None}, "without k_scale"),
        ({}, {"v_scale": np.ones(3, np.float32)}, "3 elements of v_scale"),
        ({"k_quant_type": "PER_TOKEN"}, {}, "k_quant_type = PER_TOKEN"),
        ({"k_quant_type": "NONE", "v_quant_type": "NONE"}, {}, "kv_cache_bit_width = 8 of a cache that is not"),
    ],
)
def test_what_is_not_defined_is_refused(changes: dict[str, Any], inputs: Arrays, reason: str) -> None:
    arrays, attributes = quantised(Case(past=(6,), length=2), 8, "PER_TENSOR")
    model = node_model(OP, arrays | inputs, OUTPUTS, **(attributes | changes))
    with pytest.raises(hip_compiler.UnsupportedError, match=reason):
        hip_compiler.compile(model)


def test_caches_of_float8_are_refused() -> None:
    arrays, attributes = quantised(Case(past=(6,), length=2), 8, "PER_TENSOR")
    model = node_model(OP, arrays, OUTPUTS, **attributes)
    for entry in model.graph.input:
        if entry.name.startswith("past"):
            entry.type.tensor_type.elem_type = onnx.TensorProto.FLOAT8E4M3FN
    with pytest.raises(hip_compiler.UnsupportedError, match="a cache of 8 bits in elements of float8e4m3fn"):
        hip_compiler.compile(model)


def test_gpus_refuse_quantised_caches() -> None:
    arrays, attributes = quantised(Case(past=(6,), length=2), 8, "PER_TENSOR")
    with pytest.raises(hip_compiler.UnsupportedError, match="a quantised cache on a GPU"):
        hip_compiler.compile(node_model(OP, arrays, OUTPUTS, **attributes), target="amdgpu", arch=("gfx1151",))
