"""Mixture of experts in float64, and random weights for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.kernels.compare import widen
from tests.llm.oracles import Quantised, quantised


@dataclass(frozen=True)
class Activation:
    """What stands between the two products of an expert."""

    kind: str = "relu"
    alpha: float = 1.0
    beta: float = 0.0
    limit: float = np.inf
    fusion: int = 0

    def apply(self, first: np.ndarray, third: np.ndarray | None) -> np.ndarray:
        """Activation of fc1's result [tokens, columns], with fc3's where that is apart."""
        if self.kind == "swiglu":
            if self.fusion == 1:
                gate, linear = first[:, 0::2], first[:, 1::2]
            elif self.fusion == 2:
                gate, linear = np.split(first, 2, -1)
            else:
                assert third is not None
                gate, linear = first, third
            gate, linear = np.minimum(gate, self.limit), np.clip(linear, -self.limit, self.limit)
            return gate / (1 + np.exp(-self.alpha * gate)) * (linear + self.beta)
        match self.kind:
            case "relu":
                return np.maximum(first, 0)
            case "gelu":
                return first * 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (first + 0.044715 * first**3)))
            case "silu":
                return first / (1 + np.exp(-first))
        assert self.kind == "identity"
        return first


def route(router: np.ndarray, k: int, normalize: bool, weights: np.ndarray | None = None) -> np.ndarray:
    """Weight of every expert for every token, [tokens, experts]; zero for those that are not among the k best."""
    logits = widen(router)
    order = np.argsort(-logits, axis=-1, kind="stable")[:, :k]
    chosen = np.zeros_like(logits)
    np.put_along_axis(chosen, order, 1, -1)
    if weights is None:
        e = np.exp(logits - logits.max(-1, keepdims=True))
        found = e / e.sum(-1, keepdims=True) * chosen
    else:
        found = widen(weights) * chosen
    return found / found.sum(-1, keepdims=True) if normalize else found


def experts(
    x: np.ndarray,
    shares: np.ndarray,
    first: list[np.ndarray],
    second: list[np.ndarray],
    activation: Activation,
    *,
    bias1: np.ndarray | None = None,
    bias2: np.ndarray | None = None,
    third: list[np.ndarray] | None = None,
) -> np.ndarray:
    """sum over experts e of shares[:, e] * (activation(x first[e] + bias1[e]) second[e] + bias2[e]).

    Matrices are [inputs, outputs].
    """
    rows = widen(x).reshape(-1, x.shape[-1])
    total = np.zeros((len(rows), second[0].shape[1]))
    for e in range(len(first)):
        inner = rows @ first[e] + (0 if bias1 is None else widen(bias1[e]))
        inner = activation.apply(inner, None if third is None else rows @ third[e])
        total += shares[:, e, None] * (inner @ second[e] + (0 if bias2 is None else widen(bias2[e])))
    return total.reshape(x.shape)


def quantised_experts(count: int, n: int, k: int, bits: int, block: int, zeros: str, seed: int) -> list[Quantised]:
    """A matrix per expert, of a magnitude that keeps results near 1."""
    found = []
    for e in range(count):
        q = quantised(n, k, bits, block, zeros, seed=seed + e)
        scale = np.float32(1 / np.sqrt(k))
        found.append(Quantised(q.weights, (q.scales * scale).astype(np.float32), q.zeros, q.matrix * np.float64(scale)))
    return found
