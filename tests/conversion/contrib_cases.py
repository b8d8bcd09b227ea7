"""Operators of com.microsoft with every attribute and optional input that ONNX Runtime's CPU provider takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

_RNG = np.random.default_rng(4)
Inputs = Sequence[np.ndarray | None]


@dataclass(frozen=True)
class Case:
    """A node: inputs (None: absent), number of outputs, attributes."""

    op: str
    inputs: Inputs
    outputs: int
    attributes: dict[str, Any]


CASES: list[Case] = []


def case(op: str, inputs: Inputs, outputs: int = 1, **attributes: Any) -> None:
    CASES.append(Case(op, inputs, outputs, attributes))


def f(*shape: int, low: float = -1.0) -> np.ndarray:
    return _RNG.uniform(low, 1, shape).astype(np.float32)


def one(value: float, dtype: Any = np.float32) -> np.ndarray:
    return np.array(value, dtype)


def ints(*rows: Any) -> np.ndarray:
    return np.array(rows, np.int32)


def draw(dtype: Any, *shape: int) -> np.ndarray:
    info = np.iinfo(dtype)
    return _RNG.integers(info.min, info.max + 1, shape).astype(dtype)


def _skips(parameters: int) -> Iterator[Inputs]:
    """Input, skip (broadcast or not), gamma, and the optional vectors after it."""
    for x, skip in ((f(2, 3, 8), f(2, 3, 8)), (f(2, 3, 8), f(1, 3, 8)), (f(2, 3, 8), f(3, 8)), (f(6, 8), f(6, 8))):
        for count in range(1, parameters + 1):
            yield [x, skip, *(f(8) for _ in range(count))]


for number, inputs in enumerate(_skips(3)):
    case("SkipLayerNormalization", inputs, 4 if number % 2 else 1, epsilon=0.1)
case("SkipLayerNormalization", [f(2, 3, 8), f(2, 3, 8), f(8), None, f(8)], 4)
for number, inputs in enumerate(_skips(2)):
    case("SkipSimplifiedLayerNormalization", inputs, 1 if number % 2 else 4, epsilon=0.1)
for op, count in (("Gelu", 1), ("BiasGelu", 2), ("FastGelu", 1), ("FastGelu", 2), ("QuickGelu", 1)):
    case(op, [f(2, 3, 8) * 4, f(8)][:count])
case("QuickGelu", [f(2, 3, 8)], alpha=2.5)

for flags in product((0, 1), repeat=2):
    given = dict(zip(("transA", "transB"), flags, strict=True))
    case("FusedMatMul", [f(2, 3, 4, 4), f(2, 3, 4, 4)], alpha=0.5, **given)
    case("FusedMatMul", [f(4), f(4, 4)], **given)
    if sum(flags) == 1:
        case("FusedMatMul", [f(3, 4, 4), f(3, 4, 4)], transBatchA=1, transBatchB=1, **given)
        case("FusedMatMul", [f(2, 3, 4, 4), f(2, 3, 4, 4)], transBatchA=1, transBatchB=1, **given)
ACTIVATIONS: dict[str, list[float]] = {
    "Relu": [], "Tanh": [], "Sigmoid": [], "LeakyRelu": [0.2], "Clip": [-0.3, 0.4], "HardSigmoid": [0.3, 0.4],
}  # fmt: skip
for activation, parameters in ACTIVATIONS.items():
    more: dict[str, Any] = {"activation_params": parameters} if parameters else {}
    for rest in ([], [f(3)], [f(3), f(1, 3, 3, 3)], [None, f(1, 3, 3, 3)]):
        case("FusedConv", [f(1, 2, 5, 5), f(3, 2, 3, 3), *rest], activation=activation, **more)
case("FusedConv", [f(1, 2, 5, 5), f(4, 1, 3, 3), f(4)], activation="Relu", group=2, auto_pad="SAME_UPPER")
case(
    "FusedConv", [f(1, 2, 7, 7), f(4, 2, 3, 3)], activation="Relu", dilations=[2, 2], strides=[2, 1], pads=[1, 1, 0, 1]
)

PAIRS = ((np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8))
for left, right in PAIRS:
    a, b = draw(left, 2, 3, 4), draw(right, 4, 5)
    case("MatMulIntegerToFloat", [a, b, one(0.1), one(0.2)])
    case("MatMulIntegerToFloat", [a, b, one(0.1), f(5, low=0.1), one(3, left), draw(right, 5), f(5)])
    case("MatMulIntegerToFloat", [a, b, one(0.1), one(0.2), None, one(7, right)])
    for flags in product((0, 1), repeat=2):
        a, b = draw(left, *((4, 3) if flags[0] else (3, 4))), draw(right, *((5, 4) if flags[1] else (4, 5)))
        given = dict(zip(("transA", "transB"), flags, strict=True))
        head = [a, one(0.1), one(7, left), b]
        case("QGemm", [*head, one(0.2), one(3, right)], **given)
        case("QGemm", [*head, f(5, low=0.1), draw(right, 5), np.arange(5, dtype=np.int32)], **given)
        case("QGemm", [*head, one(0.2), one(3, right), ints(range(5)), one(3), one(9, left)], alpha=2.0, **given)
        case("QGemm", [*head, f(5, low=0.1), draw(right, 5), None, one(3), one(9, left)], **given)
for right in (np.uint8, np.int8):
    b = draw(right, 4, 5)
    for rest in ([one(0.2)], [f(5, low=0.1), draw(right, 5)], [one(0.1), one(5, right), f(5)], [one(0.1), None, f(5)]):
        case("DynamicQuantizeMatMul", [f(2, 3, 4), b, *rest])
WINDOWS: tuple[dict[str, Any], ...] = (
    {"pads": [1, 0, 1, 1]}, {"strides": [2, 1]}, {"count_include_pad": 1, "pads": [1, 1, 1, 1]},
    {"ceil_mode": 1, "strides": [2, 2]}, {"auto_pad": "SAME_UPPER"}, {"auto_pad": "SAME_LOWER", "strides": [2, 2]},
)  # fmt: skip
for kind in (np.uint8, np.int8):
    out = [one(0.3), one(5, kind)]
    for op in ("QLinearAdd", "QLinearMul"):
        for first, second in (((2, 3, 4), (2, 3, 4)), ((2, 3, 4), (4,)), ((4,), (2, 1, 4))):
            case(op, [draw(kind, *first), one(0.1), one(7, kind), draw(kind, *second), one(0.2), one(3, kind), *out])
    case("QLinearLeakyRelu", [draw(kind, 2, 3, 4), one(0.05), one(7, kind), *out], alpha=0.3)
    case("QLinearGlobalAveragePool", [draw(kind, 2, 3, 4, 5), one(0.05), one(7, kind), *out])
    case("QLinearGlobalAveragePool", [draw(kind, 2, 4, 5, 3), one(0.05), one(7, kind), *out], channels_last=1)
    for number, window in enumerate(WINDOWS):
        last = number % 2
        x = draw(kind, *((1, 6, 5, 2) if last else (1, 2, 6, 5)))
        case(
            "QLinearAveragePool", [x, one(0.05), one(7, kind), *out], kernel_shape=[2, 3], channels_last=last, **window
        )
    for axis in (0, -1):
        parts = [draw(kind, 2, 3), one(0.2), one(7, kind), draw(kind, 2, 3), one(0.05), one(1, kind)]
        case("QLinearConcat", [*out, *parts], axis=axis)

IDS, SEGMENTS = _RNG.integers(0, 5, (2, 3)).astype(np.int32), _RNG.integers(0, 2, (2, 3)).astype(np.int32)
KEPT = ints([1, 1, 0], [1, 0, 0])
EMBEDDED: Inputs = [IDS, SEGMENTS, f(5, 8), f(4, 8), f(2, 8), f(8), f(8)]
case("EmbedLayerNormalization", EMBEDDED, 2, mask_index_type=0)
case("EmbedLayerNormalization", EMBEDDED, 2, mask_index_type=1)
case("EmbedLayerNormalization", [IDS, None, f(5, 8), f(4, 8), None, f(8), f(8)], 3, epsilon=0.1)
case("EmbedLayerNormalization", [*EMBEDDED, KEPT], 3)
case("EmbedLayerNormalization", [*EMBEDDED, KEPT, ints([2, 1, 0])], 3)
case("EmbedLayerNormalization", [*EMBEDDED, None, ints([2, 1, 0], [0, 1, 3])], 2)

for interleaved, positions in product((0, 1), (np.array([1]), np.array([[0, 1, 2], [3, 4, 5]]))):
    tables, narrow = (f(8, 4), f(8, 4)), (f(8, 2), f(8, 2))
    case("RotaryEmbedding", [f(2, 3, 16), positions, *tables], interleaved=interleaved)
    case("RotaryEmbedding", [f(2, 2, 3, 8), positions, *tables], interleaved=interleaved)
    part = {"interleaved": interleaved, "num_heads": 2, "rotary_embedding_dim": 4}
    case("RotaryEmbedding", [f(2, 3, 16), positions, *narrow], **part)
    case("RotaryEmbedding", [f(2, 2, 3, 8), positions, *narrow], **part)

SEEN = _RNG.integers(0, 2, (2, 3, 4)).astype(np.int32) | np.eye(3, 4, dtype=np.int32)
q, k, v, past = f(2, 3, 8), f(2, 4, 8), f(2, 4, 8), [f(2, 2, 5, 4), f(2, 2, 5, 4)]
for name, value in (("scale", 0.3), ("mask_filter_value", -5.0), ("unidirectional", 1)):
    how: dict[str, Any] = {"num_heads": 2, name: value}
    if name != "unidirectional":
        for mask in (ints(3, 2), ints([1, 1, 0, 0], [1, 1, 1, 0]), SEEN):
            case("MultiHeadAttention", [q, k, v, None, mask], **how)
        for bias in (f(2, 2, 3, 4), f(1, 1, 3, 4), f(2, 1, 3, 4)):
            case("MultiHeadAttention", [q, k, v, None, None, bias], **how)
        case("MultiHeadAttention", [q, k, f(2, 4, 12), f(28)], **how)
        case("MultiHeadAttention", [q, f(2, 2, 4, 4), f(2, 2, 4, 4)], **how)
    case("MultiHeadAttention", [f(2, 1, 8), f(2, 2, 4, 4), f(2, 2, 4, 4)], **how)
    case("MultiHeadAttention", [q, f(2, 3, 8), f(2, 3, 8), f(24), None, f(1, 1, 3, 8), *past], 3, **how)
    masked = [q, f(2, 3, 8), f(2, 3, 8), None, ints([1] * 6 + [0] * 2, [1] * 8), None, *past]
    case("MultiHeadAttention", masked, 3, **how)
    case("MultiHeadAttention", [q, f(2, 3, 8), f(2, 3, 8)], 3, **how)
    projected = [q, f(8, 24), f(24)]
    for hidden in (None, ints(3, 2), ints(3, 2, 0, 1), ints([1, 1, 0], [1, 1, 1]), SEEN[:, :, :3]):
        case("Attention", [*projected, hidden], **how)
        case("Attention", [*projected, hidden, None, f(2, 2, 3, 3)], **how)
    case("Attention", [*projected, None, f(2, 2, 2, 5, 4)], 2, **how)
    case("Attention", [*projected, ints([1] * 7 + [0], [1] * 8), f(2, 2, 2, 5, 4)], 2, **how)
    case("Attention", [q, f(8, 28), None], qkv_hidden_sizes=[8, 8, 12], **how)

for activation in ("none", "silu", "swish"):
    for rest in ([], [f(4)], [f(4), f(2, 4, 2)], [None, f(2, 4, 2)]):
        case("CausalConvWithState", [f(2, 4, 5), f(4, 1, 3), *rest], 2, activation=activation)
case("CausalConvWithState", [f(2, 4, 5), f(4, 1, 3), f(4), f(2, 4, 4)], 2, dilation=2)
case("CausalConvWithState", [f(2, 5, 4), f(4, 1, 3), f(4), f(2, 2, 4)], 2, channels_last=1)
case("CausalConvWithState", [f(2, 5, 4), f(4, 1, 3)], 2, channels_last=1)
for rule in ("linear", "gated", "delta", "gated_delta"):
    decays = [-f(2, 3, 8, low=0), -f(2, 3, 2, low=0)] if "gated" in rule else [None]
    for decay, beta in product(decays, [f(2, 3, 2, low=0), f(2, 3, 1, low=0)] if "delta" in rule else [None]):
        for q_heads in (1, 2, 4):
            state = None if q_heads == 2 else f(2, 2, 4, 4)
            case("LinearAttention", [f(2, 3, 4 * q_heads), k[:, :3], v[:, :3], state, decay, beta], 2,
                 q_num_heads=q_heads, kv_num_heads=2, update_rule=rule, scale=0.5 if q_heads == 4 else 0.0)  # fmt: skip
