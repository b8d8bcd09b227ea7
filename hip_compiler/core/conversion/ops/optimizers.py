"""Steps of optimisers (ai.onnx.preview.training): elementwise, once for every tensor that is optimised."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.onnx_op import OnnxOp, onnx_op
from hip_compiler.core.conversion.ops.elementwise import FLOATS, select
from hip_compiler.core.conversion.scalars import Scalar, literal, where
from hip_compiler.core.conversion.tensors import Tensor
from hip_compiler.core.mlir import math

DOMAIN = "ai.onnx.preview.training"

Step = Callable[..., Sequence[Scalar]]
"""Learning rate, update count, the tensor and its state, to the new tensor and state."""


def _apply(emitter: Emitter, op: OnnxOp, roles: int, step: Step) -> list[Tensor]:
    """Inputs after rate and count: all tensors, then all gradients, then their state, role by role.

    Results come role by role, too, without the gradients.
    """
    rate, count = op.input(0), op.input(1)
    rest = [op.input(i) for i in range(2, len(op.inputs))]
    op.require(len(rest) % roles == 0, f"{len(rest)} tensors in {roles} roles")
    number = len(rest) // roles
    results: list[list[Tensor]] = [[] for _ in range(roles - 1)]
    for i in range(number):
        own = rest[i::number]
        x = own[0]
        op.require(x.dtype.name in FLOATS, f"element type {x.dtype} is not defined for it")
        for result, place in enumerate(results):

            def body(r: Scalar, t: Scalar, *state: Scalar, result: int = result) -> Scalar:
                return step(r.cast(state[0].dtype), t, *state)[result]

            place.append(
                emitter.elementwise(body, [rate, count, *own], own[0 if result == 0 else result + 1].dtype, x.shape)
            )
    return [tensor for place in results for tensor in place]


@onnx_op("Adagrad", domain=DOMAIN, how="linalg.generic")
def convert_adagrad(emitter: Emitter, op: OnnxOp) -> Sequence[Tensor]:
    """Steps divided by the root of the sum of squared gradients."""
    decay, epsilon, norm = op.attr("decay_factor", 0.0), op.attr("epsilon", 1e-6), op.attr("norm_coefficient", 0.0)

    def step(r: Scalar, t: Scalar, x: Scalar, g: Scalar, h: Scalar) -> Sequence[Scalar]:
        pace = r / (t.cast(r.dtype) * decay + 1.0)
        slope = x * norm + g
        total = h + slope * slope
        return x - pace * slope / (total.apply("sqrt") + epsilon), total

    return _apply(emitter, op, 3, step)


@onnx_op("Momentum", domain=DOMAIN, how="linalg.generic")
def convert_momentum(emitter: Emitter, op: OnnxOp) -> Sequence[Tensor]:
    """Steps along a decaying sum of gradients; Nesterov's variant looks one step ahead."""
    alpha, beta, norm = op.attr("alpha"), op.attr("beta"), op.attr("norm_coefficient")
    nesterov = op.attr("mode") == "nesterov"

    def step(r: Scalar, t: Scalar, x: Scalar, g: Scalar, v: Scalar) -> Sequence[Scalar]:
        slope = x * norm + g
        speed = v * alpha + select(t > 0, beta, 1.0, x) * slope
        return x - r * (slope + speed * alpha if nesterov else speed), speed

    return _apply(emitter, op, 3, step)


@onnx_op("Adam", domain=DOMAIN, how="linalg.generic")
def convert_adam(emitter: Emitter, op: OnnxOp) -> Sequence[Tensor]:
    """Steps along a mean of gradients, divided by the root of a mean of their squares."""
    alpha, beta, epsilon = op.attr("alpha", 0.9), op.attr("beta", 0.999), op.attr("epsilon", 0.0)
    norm, norm_post = op.attr("norm_coefficient", 0.0), op.attr("norm_coefficient_post", 0.0)

    def step(r: Scalar, t: Scalar, x: Scalar, g: Scalar, v: Scalar, h: Scalar) -> Sequence[Scalar]:
        slope = x * norm + g
        mean = v * alpha + slope * (1.0 - alpha)
        square = h * beta + slope * slope * (1.0 - beta)
        number = t.cast(r.dtype)
        unbiased = (1.0 - _power(beta, number)).apply("sqrt") / (1.0 - _power(alpha, number))
        pace = where(t > 0, r * unbiased, r)
        return (x - pace * mean / (square.apply("sqrt") + epsilon)) * (1.0 - norm_post), mean, square

    return _apply(emitter, op, 4, step)


def _power(base: float, exponent: Scalar) -> Scalar:
    return Scalar(math.powf(literal(base, exponent.dtype).value, exponent.value), exponent.dtype)
