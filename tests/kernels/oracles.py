"""Reference results in float64, and comparisons as tight as the element type deserves."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from scipy.special import erf

EPSILON = {
    np.dtype(np.float64): 2.0**-52,
    np.dtype(np.float32): 2.0**-23,
    np.dtype(np.float16): 2.0**-10,
    np.dtype(ml_dtypes.bfloat16): 2.0**-7,
}


def activate(name: str, x: np.ndarray, alpha: float = 0.0, beta: float = 0.0) -> np.ndarray:
    """An activation of matmul or conv, in float64."""
    with np.errstate(over="ignore", invalid="ignore"):
        match name:
            case "none":
                return x
            case "relu":
                return np.maximum(x, 0)
            case "gelu":
                return 0.5 * x * (1 + erf(x / np.sqrt(2)))
            case "gelu_tanh":
                return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
            case "silu":
                return x / (1 + np.exp(-x))
            case "sigmoid":
                return 1 / (1 + np.exp(-x))
            case "tanh":
                return np.tanh(x)
            case "hard_swish":
                return x * np.clip(x / 6 + 0.5, 0, 1)
            case "hard_sigmoid":
                return np.clip(alpha * x + beta, 0, 1)
            case "leaky_relu":
                return np.where(x < 0, alpha * x, x)
            case "clip":
                return np.clip(x, alpha, beta)
    raise AssertionError(name)


def close(found: np.ndarray, expected: np.ndarray, *, depth: int = 1, what: str = "") -> None:
    """Compare with a float64 oracle.

    Allowed is the rounding of the result's type, and that of a float32 sum of `depth` products of about unit size.
    """
    assert found.shape == expected.shape, what
    assert np.isfinite(expected).all() and (expected.size == 0 or expected.any()), f"{what}: the oracle is degenerate"
    epsilon = EPSILON[found.dtype]
    sums = 2.0**-52 if found.dtype == np.float64 else 2.0**-23
    scale = max(float(np.abs(expected).max(initial=0.0)), 1.0)
    allowed = epsilon * np.abs(expected) + sums * 4 * np.sqrt(max(depth, 4)) * scale
    if found.dtype in (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)):
        allowed += epsilon * 1e-3
    error = np.abs(found.astype(np.float64) - expected)
    worst = np.unravel_index(int(np.argmax(error - allowed)), error.shape) if error.size else None
    assert worst is None or error[worst] <= allowed[worst], (
        f"{what}: at {worst} {found[worst]} against {expected[worst]}, error {error[worst]:.3g} of {allowed[worst]:.3g}"
    )
