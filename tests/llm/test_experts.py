"""MoE and QMoE: against float64, and ONNX Runtime where it has the variant."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import hip_compiler
from tests.kernels.compare import assert_close, draw, widen
from tests.llm import experts
from tests.llm.experts import Activation
from tests.llm.graphs import feeds_of, node_model, ours, runtime

HIDDEN, INNER, COUNT = 32, 48, 4
RELU = Activation()
SWIGLU = Activation("swiglu", alpha=1.702, beta=1.0, limit=1.0, fusion=1)


@dataclass(frozen=True)
class Case:
    """One run; bits 0 is MoE."""

    activation: Activation = RELU
    tokens: int = 5
    k: int = 2
    normalize: bool = True
    bias: bool = True
    third: bool = False
    bits: int = 0
    block: int = 16
    zeros: str = "none"
    dtype: Any = np.float32
    peer: bool = True

    @property
    def columns(self) -> int:
        return INNER * (2 if self.activation.fusion else 1)

    def build(self) -> tuple[Any, dict[str, np.ndarray], np.ndarray]:
        """Model, feeds, and the float64 result."""
        x = draw((self.tokens, HIDDEN), self.dtype, 1, 1.0)
        router = draw((self.tokens, COUNT), self.dtype, 2, 1.0)
        made: dict[str, np.ndarray | None] = {"x": x, "router": router}
        shapes = {"fc1": (self.columns, HIDDEN), "fc2": (HIDDEN, INNER), "fc3": (INNER, HIDDEN)}
        matrices: dict[str, list[np.ndarray]] = {}
        zeros: dict[str, np.ndarray | None] = {}
        for seed, (name, (rows, columns)) in enumerate(shapes.items()):
            wanted = name != "fc3" or self.third
            bias = draw((COUNT, rows), self.dtype, 20 + seed, 0.5) if self.bias and wanted else None
            if not self.bits:
                weights = draw((COUNT, rows, columns), self.dtype, 10 + seed, 1 / np.sqrt(columns)) if wanted else None
                matrices[name] = [] if weights is None else [widen(matrix).T for matrix in weights]
                made |= {name: weights, f"{name}_bias": bias}
                continue
            block = self.block or columns
            parts = experts.quantised_experts(COUNT, rows, columns, self.bits, block, self.zeros, 100 * seed)
            matrices[name] = [part.matrix for part in parts]
            scales = np.stack([part.scales.reshape(rows, -1) for part in parts])
            made |= {
                name: np.stack([part.weights.reshape(rows, -1) for part in parts]) if wanted else None,
                f"{name}_scales": (scales if self.block else scales[..., 0]).astype(self.dtype) if wanted else None,
                f"{name}_bias": bias,
            }
            zeros[f"{name}_zeros"] = (
                np.stack([part.zeros for part in parts if part.zeros is not None])
                if wanted and self.zeros == "packed"
                else None
            )
        made |= zeros
        constants = [name for name, array in made.items() if array is not None and name not in ("x", "router")]
        model = node_model("QMoE" if self.bits else "MoE", made, ["y"], constants=constants, **self.attributes())
        shares = experts.route(router, self.k, self.normalize)
        expected = experts.experts(
            x, shares, matrices["fc1"], matrices["fc2"], self.activation,
            bias1=made["fc1_bias"], bias2=made["fc2_bias"], third=matrices["fc3"] if self.third else None,
        )  # fmt: skip
        return model, feeds_of(model, made), expected

    def attributes(self) -> dict[str, Any]:
        a = self.activation
        given: dict[str, Any] = {
            "k": self.k,
            "normalize_routing_weights": int(self.normalize),
            "activation_type": a.kind,
        }
        if a.kind == "swiglu":
            given |= {"activation_alpha": a.alpha, "activation_beta": a.beta, "swiglu_fusion": a.fusion}
            given |= {"swiglu_limit": a.limit} if np.isfinite(a.limit) else {}
        if self.bits:
            given |= {"expert_weight_bits": self.bits, "weights_prepacked": 0}
            given |= {"block_size": self.block} if self.block else {}
        return given


FLOATS = {
    "relu": Case(),
    "silu, not normalised": Case(Activation("silu"), normalize=False),
    "gelu": Case(Activation("gelu")),
    "identity": Case(Activation("identity"), k=1, bias=False),
    "swiglu, interleaved": Case(SWIGLU),
    "swiglu, one token": Case(SWIGLU, tokens=1),
    "swiglu, every expert": Case(SWIGLU, k=COUNT, tokens=40),
    "swiglu, concatenated": Case(replace(SWIGLU, fusion=2), peer=False),
    "swiglu, apart": Case(replace(SWIGLU, fusion=0), bias=False, third=True, peer=False),
    "half precision": Case(SWIGLU, dtype=np.float16, peer=False),
}
INTEGERS = {
    "4 bits": Case(SWIGLU, bits=4),
    "4 bits, zero points": Case(SWIGLU, bits=4, zeros="packed"),
    "4 bits, one token": Case(SWIGLU, bits=4, tokens=1),
    "4 bits, a scale per row": Case(SWIGLU, bits=4, block=0),
    "8 bits": Case(SWIGLU, bits=8, peer=False),
    "2 bits, many tokens": Case(SWIGLU, bits=2, tokens=33, peer=False),
}


@pytest.mark.parametrize("name", [*FLOATS, *INTEGERS])
def test_against_float64_and_onnx_runtime(name: str) -> None:
    case = (FLOATS | INTEGERS)[name]
    model, feeds, expected = case.build()
    assert np.abs(expected).max() > 0.3
    [y] = ours(model, feeds)
    assert_close(y, expected, factor=20)
    if case.peer:
        [theirs] = runtime(model, feeds)
        assert_close(y, widen(theirs), factor=50)


@pytest.mark.parametrize("bits", [0, 4])
def test_equal_scores_choose_the_last_experts(bits: int) -> None:
    model, feeds, _ = Case(SWIGLU, bits=bits).build()
    feeds["router"] = np.zeros_like(feeds["router"])
    [y], [theirs] = ours(model, feeds), runtime(model, feeds)
    assert_close(y, widen(theirs), factor=50)


def test_integer_activations_stay_near() -> None:
    case = Case(SWIGLU, bits=4, tokens=8)
    model, feeds, expected = case.build()
    model.graph.node[0].attribute.append(_accuracy(4))
    [y] = ours(model, feeds)
    error = np.abs(y - expected).max() / np.abs(expected).max()
    assert 1e-6 < error < 0.03


def _accuracy(level: int) -> Any:
    import onnx.helper

    return onnx.helper.make_attribute("accuracy_level", level)


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"use_sparse_mixer": 1}, "a sparse mixer"),
        ({"k": 9}, "k = 9 of 4 experts"),
        ({"activation_type": "geglu"}, "activation geglu"),
        ({"swiglu_limit_after_activation": 1}, "a limit after the activation"),
    ],
)
def test_variants_without_kernel_are_refused(attributes: dict[str, Any], reason: str) -> None:
    model, _, _ = Case(SWIGLU).build()
    node = model.graph.node[0]
    kept = [entry for entry in node.attribute if entry.name not in attributes]
    del node.attribute[:]
    node.attribute.extend(kept)
    import onnx.helper

    node.attribute.extend(onnx.helper.make_attribute(name, value) for name, value in attributes.items())
    with pytest.raises(hip_compiler.UnsupportedError, match=reason):
        hip_compiler.compile(model)
