"""GroupQueryAttention in graphs: every variant against float64, and ONNX Runtime as second opinion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import hip_compiler
from tests.kernels.compare import assert_close, draw, widen
from tests.llm import oracles
from tests.llm.graphs import feeds_of, node_model, ours, runtime

OP = "GroupQueryAttention"
OUTPUTS = ("y", "present_key", "present_value")
NAMES = (
    "query", "key", "value", "past_key", "past_value", "seqlens_k", "total_sequence_length", "cos_cache", "sin_cache",
    "position_ids", "attention_bias", "head_sink", "k_scale", "v_scale", "q_norm_weight", "k_norm_weight",
)  # fmt: skip


@dataclass
class Case:
    """One run: shapes, the length of the past per batch entry, and what the operator is asked for."""

    past: tuple[int, ...] = (0,)
    length: int = 5
    heads: int = 4
    shared: int = 2
    size: int = 32
    capacity: int = 0
    packed: bool = False
    rotary: int = 0
    interleaved: bool = False
    window: int = -1
    softcap: float = 0.0
    scale: float | None = None
    bias: bool = False
    sink: bool = False
    smooth: bool = False
    normed: bool = False
    positions: bool = False
    dtype: Any = np.float32

    def arrays(self) -> dict[str, np.ndarray | None]:
        """Inputs by name; the cache holds noise beyond its valid part."""
        batch, total = len(self.past), max(self.past) + self.length
        q, k, v = (
            draw((batch, self.length, heads * self.size), self.dtype, seed, 1.0)
            for seed, heads in enumerate((self.heads, self.shared, self.shared))
        )
        made: dict[str, np.ndarray | None] = dict.fromkeys(NAMES)
        made |= {"query": q, "key": k, "value": v}
        if self.packed:
            made |= {"query": np.concatenate([q, k, v], -1), "key": None, "value": None}
        if any(self.past) or self.capacity:
            cache = (batch, self.shared, max(self.capacity, max(self.past)), self.size)
            made |= {"past_key": draw(cache, self.dtype, 5, 1.0), "past_value": draw(cache, self.dtype, 6, 1.0)}
        made["seqlens_k"] = np.array([past + self.length - 1 for past in self.past], np.int32)
        made["total_sequence_length"] = np.array(total, np.int32)
        if self.rotary:
            made["cos_cache"], made["sin_cache"] = oracles.rotary_tables(64, self.rotary // 2, self.dtype)
        if self.positions:
            made["position_ids"] = self.places().astype(np.int64)
        if self.bias:
            made["attention_bias"] = draw((batch, self.heads, self.length, total), self.dtype, 8)
        if self.sink:
            made["head_sink"] = draw((self.heads,), self.dtype, 9)
        if self.normed:
            made |= {
                f"{x}_norm_weight": draw((self.size,), self.dtype, seed, 1.0) for x, seed in (("q", 10), ("k", 11))
            }
        return made

    def places(self) -> np.ndarray:
        """Positions of the new tokens, [batch, token]; given ones leave a gap before the first.

        Of a prompt the definition reads the first one only, so that they follow each other.
        """
        found = np.array(self.past)[:, None] + np.arange(self.length)
        return found + 3 if self.positions else found

    def attributes(self) -> dict[str, Any]:
        given: dict[str, Any] = {"num_heads": self.heads, "kv_num_heads": self.shared, "local_window_size": self.window}
        if self.rotary:
            given |= {"do_rotary": 1, "rotary_interleaved": int(self.interleaved)}
        if self.scale is not None:
            given["scale"] = self.scale
        if self.normed:
            given |= {"qk_norm_epsilon": 1e-5, "k_norm_epsilon": 1e-3}
        return (
            given | ({"softcap": self.softcap} if self.softcap else {}) | ({"smooth_softmax": 1} if self.smooth else {})
        )

    def heads_of(self, arrays: dict[str, np.ndarray | None]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """New queries, keys and values, [batch, head, position, size]: normalised and rotated."""
        packed = arrays["query"]
        assert packed is not None
        parts = [packed, arrays["key"], arrays["value"]]
        if self.packed:
            columns = np.cumsum([self.heads, self.shared]) * self.size
            parts = list(np.split(packed, columns, -1))
        q, k, v = (
            oracles.split_heads(widen(part), heads)  # type: ignore[arg-type]
            for part, heads in zip(parts, (self.heads, self.shared, self.shared), strict=True)
        )
        if self.normed:
            q, k = (
                x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon) * widen(arrays[f"{name}_norm_weight"])  # type: ignore[arg-type]
                for x, name, epsilon in ((q, "q", 1e-5), (k, "k", 1e-3))
            )
        if self.rotary:
            tables = arrays["cos_cache"], arrays["sin_cache"]
            q, k = (oracles.rotary(x, *tables, self.places(), interleaved=self.interleaved) for x in (q, k))  # type: ignore[arg-type]
        return q, k, v

    def expected(self, arrays: dict[str, np.ndarray | None]) -> list[np.ndarray]:
        """y, and the valid parts of the caches padded with zeros."""
        q, k, v = self.heads_of(arrays)
        total = max(max(self.past) + self.length, self.capacity)
        caches = []
        for new, name in ((k, "past_key"), (v, "past_value")):
            cache = np.zeros((len(self.past), self.shared, total, self.size))
            for b, past in enumerate(self.past):
                if past:
                    cache[b, :, :past] = widen(arrays[name][b, :, :past])  # type: ignore[index]
                cache[b, :, past : past + self.length] = new[b]
            caches.append(cache)
        return [self.attended(arrays, q, caches), *caches]

    def attended(self, arrays: dict[str, np.ndarray | None], q: np.ndarray, caches: list[np.ndarray]) -> np.ndarray:
        """y of queries over caches."""
        y = oracles.attention(
            q, *caches, scale=self.scale, past=self.past, valid=[past + self.length for past in self.past],
            causal=True, window=max(self.window, 0), softcap=self.softcap, sink=arrays["head_sink"], smooth=self.smooth,
            bias=_padded(arrays["attention_bias"], caches[0].shape[2]),
        )  # fmt: skip
        return oracles.join_heads(y)


def _padded(bias: np.ndarray | None, keys: int) -> np.ndarray | None:
    return None if bias is None else np.pad(widen(bias), [(0, 0)] * 3 + [(0, keys - bias.shape[-1])])


CASES = {
    "prefill": Case(),
    "prefill in a large cache": Case(capacity=16),
    "decode": Case(past=(7,), length=1),
    "decode in a large cache": Case(past=(7,), length=1, capacity=20),
    "decode of two lengths": Case(past=(7, 3), length=1),
    "three more tokens": Case(past=(7,), length=3, capacity=16),
    "packed": Case(packed=True),
    "packed, rotary": Case(packed=True, rotary=32, past=(6,), length=1),
    "rotary": Case(rotary=32),
    "rotary, interleaved": Case(rotary=32, interleaved=True, past=(9,), length=1),
    "rotary, part of the head": Case(rotary=16, past=(9, 2), length=1),
    "window": Case(length=20, window=6),
    "window, decode": Case(past=(20,), length=1, window=6),
    "softcap": Case(softcap=3.0),
    "scale": Case(scale=0.5),
    "bias": Case(bias=True, past=(4,), length=1),
    "bias, prefill": Case(bias=True),
    "sink": Case(sink=True),
    "smooth": Case(smooth=True),
    "one head of keys": Case(heads=5, shared=1, size=64, past=(70,), length=1),
    "heads of 80": Case(size=80, heads=3, shared=3, length=19),
    **{
        f"heads of {size}, {'decode' if past else 'prefill'}": Case(
            size=size, rotary=size, packed=True, past=(past,), length=1 if past else 19
        )
        for size in (32, 64, 96, 128, 192, 256)
        for past in (0, 11)
    },
    "positions given": Case(rotary=32, positions=True),
    "positions given, decode of two lengths": Case(rotary=32, positions=True, past=(7, 3), length=1),
    "packed, interleaved, part of the head": Case(packed=True, rotary=16, interleaved=True, length=7),
    "window and sink, prefill": Case(length=20, window=6, sink=True, rotary=32),
    "smooth, decode with softcap": Case(past=(13,), length=1, smooth=True, softcap=5.0),
    "half precision": Case(dtype=np.float16, rotary=32, past=(11,), length=1),
    "half precision, prefill": Case(dtype=np.float16, rotary=32, length=24),
    "normalised heads": Case(normed=True, rotary=32),
    "normalised heads, packed": Case(normed=True, rotary=32, packed=True, past=(6,), length=1),
    "everything": Case(past=(9,), length=1, packed=True, rotary=16, window=5, softcap=4.0, scale=0.3, sink=True),
}


@pytest.mark.parametrize("name", CASES)
def test_against_float64_and_onnx_runtime(name: str) -> None:
    case = CASES[name]
    arrays = case.arrays()
    model = node_model(OP, arrays, OUTPUTS, constants=[n for n in ("cos_cache", "sin_cache") if arrays[n] is not None],
                       dynamic=False, **case.attributes())  # fmt: skip
    feeds = feeds_of(model, arrays)
    results = ours(model, feeds)
    expected = case.expected(arrays)
    for actual, wanted in zip(results, expected, strict=True):
        assert_close(actual, wanted, factor=6)
    if case.normed:
        return  # ONNX Runtime has these inputs on GPUs only
    theirs = runtime(model, feeds)
    assert_close(results[0], widen(theirs[0]), factor=20)
    for actual, other in zip(results[1:], theirs[1:], strict=True):
        for b, past in enumerate(case.past):
            valid = past + case.length
            assert_close(actual[b, :, :valid], widen(other[b, :, :valid]), factor=6)


def test_case_c2_packed_columns_tell_the_head_size() -> None:
    """40 query heads and 10 of keys, 7,680 packed columns: heads of 128, and a scale of 1 / sqrt(128)."""
    packed = Case(heads=40, shared=10, size=128, packed=True, length=3)
    separate = Case(heads=40, shared=10, size=128, length=3)
    assert packed.arrays()["query"].shape[-1] == 7680  # type: ignore[union-attr]
    results = []
    for case in (packed, separate):
        arrays = case.arrays()
        model = node_model(OP, arrays, OUTPUTS, **case.attributes())
        results.append(ours(model, feeds_of(model, arrays)))
    assert_close(results[0][0], packed.expected(packed.arrays())[0], factor=6)
    for one, other in zip(results[0], results[1], strict=True):
        np.testing.assert_array_equal(one, other)


def test_case_c5_equal_destinations_stay_apart() -> None:
    """Keys and values have caches of one shape, and neither is a graph output: they must not share a buffer."""
    case = Case(past=(6,), length=2)
    arrays = case.arrays()
    model = node_model(OP, arrays, ("y", "", ""), **case.attributes())
    [y] = ours(model, feeds_of(model, arrays))
    assert_close(y, case.expected(arrays)[0], factor=6)


def test_one_artifact_serves_prefill_and_decode_with_padding() -> None:
    """Every extent open: prompts of two lengths, padded on the right, then one token each."""
    case = Case(past=(0, 0), length=6, rotary=32)
    arrays = case.arrays()
    arrays["past_key"] = arrays["past_value"] = np.zeros((2, 2, 0, 32), np.float32)
    arrays["seqlens_k"] = np.array([5, 3], np.int32)
    model = node_model(OP, arrays, OUTPUTS, constants=["cos_cache", "sin_cache"], **case.attributes())
    open_shapes: list[list[str | int]] = [
        ["b", "s", 128], ["b", "s", 64], ["b", "s", 64], ["b", 2, "p", 32], ["b", 2, "p", 32], ["b"], [],
    ]  # fmt: skip
    for entry, extents in zip(model.graph.input, open_shapes, strict=True):
        for extent, name in zip(entry.type.tensor_type.shape.dim, extents, strict=True):
            extent.Clear()
            if isinstance(name, str):
                extent.dim_param = name
            else:
                extent.dim_value = name
    peer_feeds = feeds_of(model, arrays)
    with hip_compiler.compile(model) as session:
        prompt = [np.array(x) for x in session.run(feeds_of(model, arrays)).values()]
        theirs = runtime(model, peer_feeds)
        assert_close(prompt[0][0], widen(theirs[0][0]), factor=20)
        assert_close(prompt[0][1, :4], widen(theirs[0][1, :4]), factor=20)
        step = Case(past=(6, 4), length=1, rotary=32)
        more = step.arrays() | {"past_key": prompt[1], "past_value": prompt[2]}
        token = [np.array(x) for x in session.run(feeds_of(model, more)).values()]
    assert_close(token[0], step.expected(more)[0], factor=6)


def test_shared_buffer_gives_the_same_and_copies_nothing() -> None:
    case = Case(past=(7,), length=1, capacity=24, rotary=32)
    arrays = case.arrays()
    model = node_model(OP, arrays, OUTPUTS, constants=["cos_cache", "sin_cache"], **case.attributes())
    feeds = feeds_of(model, arrays)
    apart = ours(model, feeds)
    caches = {name: _aligned(feeds[f"past_{name}"]) for name in ("key", "value")}
    shared = feeds | {f"past_{name}": cache for name, cache in caches.items()}
    with hip_compiler.compile(model) as session:
        results = session.run(shared, outputs={f"present_{name}": cache for name, cache in caches.items()})
        np.testing.assert_array_equal(results["y"], apart[0])
    for name, before, after in (("key", arrays["past_key"], apart[1]), ("value", arrays["past_value"], apart[2])):
        np.testing.assert_array_equal(caches[name][:, :, :8], after[:, :, :8])
        assert before is not None
        np.testing.assert_array_equal(caches[name][:, :, 8:], before[:, :, 8:])


def _aligned(array: np.ndarray) -> np.ndarray:
    """A copy at an address that outputs may have."""
    block = np.empty(array.nbytes + 64, np.uint8)
    start = -block.ctypes.data % 64
    copy = block[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def test_a_cache_smaller_than_needed_is_refused() -> None:
    case = Case(past=(7,), length=1, capacity=8)
    arrays = case.arrays()
    model = node_model(OP, arrays, OUTPUTS, **case.attributes())
    arrays["seqlens_k"] = np.array([8], np.int32)
    with (
        hip_compiler.compile(model) as session,
        pytest.raises(hip_compiler.HipCompilerError, match="the cache holds 8 positions; batch entry 0 needs 9"),
    ):
        session.run(feeds_of(model, arrays))


def test_case_c16_what_is_refused_at_all_is_refused_before_any_run() -> None:
    """One report of compilation names the node; coverage and providers ask by compiling, with the same code."""
    case = Case(past=(6,), length=2)
    arrays = case.arrays() | {"k_scale": np.ones(1, np.float32)}
    with pytest.raises(hip_compiler.UnsupportedError, match=r"/GroupQueryAttention: .*input k_scale"):
        hip_compiler.compile(node_model(OP, arrays, OUTPUTS, **case.attributes()))


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"causal": 0}, "not causal"),
        ({"sliding_window_cache": 1}, "without a window"),
        ({"sliding_window_cache": 1, "local_window_size": 4}, "without a past"),
        ({"local_window_size": 0}, "local_window_size"),
        ({"unheard_of": 3}, "attribute unheard_of is not handled"),
    ],
)
def test_variants_without_kernel_are_refused(attributes: dict[str, Any], reason: str) -> None:
    case = Case()
    model = node_model(OP, case.arrays(), OUTPUTS, **(case.attributes() | attributes))
    with pytest.raises(hip_compiler.UnsupportedError, match=reason):
        hip_compiler.compile(model)
