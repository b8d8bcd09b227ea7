"""Elementwise operators: a row each. A row is a scalar function; loops, broadcasting and fusion come from elsewhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.onnx_op import OnnxOp, onnx_op
from hip_compiler.core.conversion.scalars import BOOL, Scalar, literal, where
from hip_compiler.core.conversion.tensors import Tensor
from hip_compiler.dtypes import BY_NAME

Attributes = Mapping[str, Any]
Function = Callable[..., Scalar]
"""Operand scalars first, then the row's attributes by keyword."""

FLOATS = frozenset({"float", "float16", "bfloat16", "double"})
SIGNED = FLOATS | {"int8", "int16", "int32", "int64"}
UNSIGNED = frozenset({"uint8", "uint16", "uint32", "uint64"})
NUMBERS = SIGNED | UNSIGNED
INTEGERS = NUMBERS - FLOATS
SMALL = frozenset({"float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz"})
BOOLS = frozenset({"bool"})
STRINGS = frozenset({"string"})
FLOAT, DOUBLE = BY_NAME["float"], BY_NAME["double"]
_FLOAT_MAX = 3.4028234663852886e38
"""What bounds default to where they are attributes."""


@dataclass(frozen=True)
class Row:
    """An elementwise operator.

    Attributes:
        operands: number of operands; None: one or more, folded from the left.
        dtypes: element types of the operands.
        boolean: the result is bool; otherwise it has the first operand's element type.
        attributes: attribute names and their defaults.
        since: the first opset version with these element types.
    """

    function: Function
    operands: int | None
    dtypes: frozenset[str]
    boolean: bool = False
    attributes: Attributes | None = None
    domain: str = ""
    since: int = 1


def sigmoid(x: Scalar) -> Scalar:
    """1 / (1 + exp(-x)), without overflow for large negative x."""
    e = (-abs(x)).apply("exp")
    return where(x < 0, e, literal(1, x.dtype)) / (e + 1.0)


def softplus(x: Scalar) -> Scalar:
    """log(1 + exp(x)), without overflow for large x."""
    return x.maximum(0.0) + ((-abs(x)).apply("exp") + 1.0).apply("log")


def erf_gelu(x: Scalar) -> Scalar:
    return x * 0.5 * ((x * math.sqrt(0.5)).apply("erf") + 1.0)


def tanh_gelu(x: Scalar) -> Scalar:
    inner = (x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)
    return x * 0.5 * (inner.apply("tanh") + 1.0)


def gelu(x: Scalar, approximate: str) -> Scalar:
    return tanh_gelu(x) if approximate == "tanh" else erf_gelu(x)


def at_least(x: Scalar, low: Scalar | float) -> Scalar:
    """The larger of x and a bound; NaN stays NaN. One instruction, where a NaN-symmetric maximum takes several."""
    return select(x < low, low, x, x)


def at_most(x: Scalar, high: Scalar | float) -> Scalar:
    return select(x > high, high, x, x)


def clamp(x: Scalar, low: Scalar | float, high: Scalar | float) -> Scalar:
    return at_most(at_least(x, low), high)


def select(condition: Scalar, then: Scalar | float, otherwise: Scalar | float, like: Scalar) -> Scalar:
    """`where` that takes numbers, in the element type of `like`."""
    lift = [side if isinstance(side, Scalar) else literal(side, like.dtype) for side in (then, otherwise)]
    return where(condition, *lift)


def sign(x: Scalar) -> Scalar:
    if x.dtype.kind == "uint":
        return select(x == 0, 0, 1, x)
    rest = select(x < 0, -1, x, x)  # 0, -0 and NaN are their own sign
    return select(x > 0, 1, rest, x)


def elu(x: Scalar, alpha: float) -> Scalar:
    return where(x < 0, (x.apply("expm1")) * alpha, x)


def selu(x: Scalar, alpha: float, gamma: float) -> Scalar:
    return where(x > 0, x, x.apply("expm1") * alpha) * gamma


def celu(x: Scalar, alpha: float) -> Scalar:
    return x.maximum(0.0) + ((x / alpha).apply("expm1") * alpha).minimum(0.0)


def is_inf(x: Scalar, detect_negative: int, detect_positive: int) -> Scalar:
    infinity = float("inf")
    negative, positive = x == -infinity, x == infinity
    if detect_negative and detect_positive:
        return negative | positive
    return negative if detect_negative else positive if detect_positive else literal(0, BOOL)


def shrink(x: Scalar, bias: float, lambd: float) -> Scalar:
    """Integers in double, as bias and bound may lie between them; the result is cut."""
    if not x.is_float:
        return shrink(x.cast(DOUBLE), bias, lambd).cast(x.dtype)
    return select(x < -lambd, x + bias, select(x > lambd, x - bias, 0, x), x)


def power(x: Scalar, y: Scalar) -> Scalar:
    if x.is_float:
        return x.apply("powf", y.cast(x.dtype))
    # Integer bases: exact for integer exponents, which is what loops of multiplications would give.
    if y.is_float:
        wide = x.cast(y.dtype)
        return wide.apply("powf", y).cast(x.dtype)
    exponent = y.cast(x.dtype)
    return x.apply("ipowi", exponent)


def shift(x: Scalar, y: Scalar, direction: str) -> Scalar:
    return x.shift_left(y) if direction == "LEFT" else x.shift_right(y)


def modulo(x: Scalar, y: Scalar, fmod: int) -> Scalar:
    return x.remainder(y) if fmod else x % y


def hard_sigmoid(x: Scalar, alpha: float, beta: float) -> Scalar:
    return clamp(x * alpha + beta, 0.0, 1.0)


def error_function(x: Scalar) -> Scalar:
    """erf; of integers it is cut to one."""
    return x.apply("erf") if x.is_float else x.cast(DOUBLE).apply("erf").cast(x.dtype)


def math_row(name: str, domain: str = "", since: int = 1) -> Row:
    """A unary function of the `math` dialect."""
    return Row(lambda x: x.apply(name), 1, FLOATS, domain=domain, since=since)


ROWS: dict[str, Row] = {
    "Add": Row(lambda x, y: x + y, 2, NUMBERS),
    "Sub": Row(lambda x, y: x - y, 2, NUMBERS),
    "Mul": Row(lambda x, y: x * y, 2, NUMBERS),
    "Div": Row(lambda x, y: x / y, 2, NUMBERS),
    "Mod": Row(modulo, 2, NUMBERS, attributes={"fmod": 0}),
    "Pow": Row(power, 2, NUMBERS),
    "Max": Row(lambda x, y: x.maximum(y), None, NUMBERS),
    "Min": Row(lambda x, y: x.minimum(y), None, NUMBERS),
    "Sum": Row(lambda x, y: x + y, None, FLOATS),
    "Neg": Row(lambda x: -x, 1, SIGNED),
    "Abs": Row(abs, 1, NUMBERS),
    "Sign": Row(sign, 1, NUMBERS),
    "Reciprocal": Row(lambda x: 1.0 / x, 1, FLOATS),
    "Floor": math_row("floor"),
    "Ceil": math_row("ceil"),
    "Round": math_row("roundeven"),
    "Sqrt": math_row("sqrt"),
    "Exp": math_row("exp"),
    "Log": math_row("log"),
    "Erf": math_row("erf", since=13),
    "Sin": math_row("sin"),
    "Cos": math_row("cos"),
    "Tan": math_row("tan"),
    "Asin": math_row("asin"),
    "Acos": math_row("acos"),
    "Atan": math_row("atan"),
    "Sinh": math_row("sinh"),
    "Cosh": math_row("cosh"),
    "Tanh": math_row("tanh"),
    "Asinh": math_row("asinh"),
    "Acosh": math_row("acosh"),
    "Atanh": math_row("atanh"),
    "Relu": Row(lambda x: at_least(x, 0), 1, SIGNED),
    "LeakyRelu": Row(lambda x, alpha: where(x < 0, x * alpha, x), 1, FLOATS, attributes={"alpha": 0.01}),
    "PRelu": Row(lambda x, slope: where(x < 0, x * slope, x), 2, NUMBERS),
    "ThresholdedRelu": Row(lambda x, alpha: select(x > alpha, x, 0.0, x), 1, FLOATS, attributes={"alpha": 1.0}),
    "Elu": Row(elu, 1, FLOATS, attributes={"alpha": 1.0}),
    "Selu": Row(selu, 1, FLOATS, attributes={"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875}),
    "Celu": Row(celu, 1, FLOATS, attributes={"alpha": 1.0}),
    "Sigmoid": Row(sigmoid, 1, FLOATS),
    "HardSigmoid": Row(hard_sigmoid, 1, FLOATS, attributes={"alpha": 0.2, "beta": 0.5}),
    "HardSwish": Row(lambda x: x * hard_sigmoid(x, 1 / 6, 0.5), 1, FLOATS),
    "Softplus": Row(softplus, 1, FLOATS),
    "Softsign": Row(lambda x: x / (abs(x) + 1.0), 1, FLOATS),
    "Mish": Row(lambda x: x * softplus(x).apply("tanh"), 1, FLOATS),
    "Swish": Row(lambda x, alpha: x * sigmoid(x * alpha), 1, FLOATS, attributes={"alpha": 1.0}),
    "Gelu": Row(gelu, 1, FLOATS, attributes={"approximate": "none"}),
    "Shrink": Row(shrink, 1, NUMBERS, attributes={"bias": 0.0, "lambd": 0.5}),
    "Equal": Row(lambda x, y: x == y, 2, NUMBERS | BOOLS | STRINGS, boolean=True),
    "Less": Row(lambda x, y: x < y, 2, NUMBERS, boolean=True),
    "LessOrEqual": Row(lambda x, y: x <= y, 2, NUMBERS, boolean=True),
    "Greater": Row(lambda x, y: x > y, 2, NUMBERS, boolean=True),
    "GreaterOrEqual": Row(lambda x, y: x >= y, 2, NUMBERS, boolean=True),
    "And": Row(lambda x, y: x & y, 2, BOOLS, boolean=True),
    "Or": Row(lambda x, y: x | y, 2, BOOLS, boolean=True),
    "Xor": Row(lambda x, y: x ^ y, 2, BOOLS, boolean=True),
    "Not": Row(lambda x: ~x, 1, BOOLS, boolean=True),
    "BitwiseAnd": Row(lambda x, y: x & y, 2, INTEGERS),
    "BitwiseOr": Row(lambda x, y: x | y, 2, INTEGERS),
    "BitwiseXor": Row(lambda x, y: x ^ y, 2, INTEGERS),
    "BitwiseNot": Row(lambda x: ~x, 1, INTEGERS),
    "BitShift": Row(shift, 2, INTEGERS, attributes={"direction": None}),
    "IsNaN": Row(lambda x: x != x, 1, FLOATS | SMALL, boolean=True),
    "IsInf": Row(is_inf, 1, FLOATS | SMALL, boolean=True, attributes={"detect_negative": 1, "detect_positive": 1}),
    "QuickGelu": Row(
        lambda x, alpha: x * sigmoid(x * alpha), 1, FLOATS, attributes={"alpha": 1.702}, domain="com.microsoft"
    ),
}  # fmt: skip


def _convert_row(row: Row, emitter: Emitter, op: OnnxOp) -> Tensor:
    inputs = [op.input(i) for i in range(len(op.inputs))]
    op.require(row.operands is None or len(inputs) == row.operands, f"{len(inputs)} operands")
    for tensor in inputs:
        op.require(tensor.dtype.name in row.dtypes, f"element type {tensor.dtype} is not defined for it")
    # There is no arithmetic on floats of 8 bits; all of them are floats of 32.
    inputs = [emitter.cast(tensor, FLOAT) if tensor.dtype.name in SMALL else tensor for tensor in inputs]
    attributes: dict[str, Any] = {name: op.attr(name, default) for name, default in (row.attributes or {}).items()}

    def body(*arguments: Scalar) -> Scalar:
        result = arguments[0] if row.operands is None else row.function(*arguments, **attributes)
        for argument in arguments[1:] if row.operands is None else ():
            result = row.function(result, argument)
        return result

    return emitter.elementwise(body, inputs, BOOL if row.boolean else inputs[0].dtype)


def _register(name: str, row: Row) -> None:
    @onnx_op(name, domain=row.domain, since=row.since, how="linalg.generic", dtypes=row.dtypes, broadcasts=True,
             texts="string" in row.dtypes)  # fmt: skip
    def convert(emitter: Emitter, op: OnnxOp) -> Tensor:
        return _convert_row(row, emitter, op)


for _name, _row in ROWS.items():
    _register(_name, _row)


@onnx_op("Erf", until=12, how="linalg.generic", dtypes=NUMBERS)
def convert_erf(emitter: Emitter, op: OnnxOp) -> Tensor:
    """The error function when it was one of integers, too."""
    return _convert_row(Row(error_function, 1, NUMBERS), emitter, op)


@onnx_op("Clip", how="linalg.generic", dtypes=NUMBERS)
def convert_clip(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Bounds are attributes before opset 11, inputs from then on."""
    x = op.input(0)
    if op.version < 11:
        low, high = op.attr("min", -_FLOAT_MAX), op.attr("max", _FLOAT_MAX)
        return emitter.elementwise(lambda v: clamp(v, low, high), [x], x.dtype)
    bounds = [op.optional(1), op.optional(2)]
    given = [bound for bound in bounds if bound is not None]

    def body(v: Scalar, *limits: Scalar) -> Scalar:
        rest = list(limits)
        if bounds[0] is not None:
            v = at_least(v, rest.pop(0))
        return at_most(v, rest.pop(0)) if bounds[1] is not None else v

    return emitter.elementwise(body, [x, *given], x.dtype)


@onnx_op("Where", how="linalg.generic", broadcasts=True, texts=True)
def convert_where(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Elements of the second or the third input, as the first says."""
    condition, x, y = (op.input(i) for i in range(3))
    op.require(x.dtype.kind != "complex", f"element type {x.dtype}")
    return emitter.elementwise(where, [condition, x, y], x.dtype)


@onnx_op("Mean", how="linalg.generic", dtypes=FLOATS)
def convert_mean(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Arithmetic mean of broadcast operands."""
    inputs: Sequence[Tensor] = [op.input(i) for i in range(len(op.inputs))]
    op.require(inputs[0].dtype.name in FLOATS, f"element type {inputs[0].dtype} is not defined for it")

    def body(*arguments: Scalar) -> Scalar:
        total = arguments[0]
        for argument in arguments[1:]:
            total = total + argument
        return total / float(len(arguments))

    return emitter.elementwise(body, inputs, inputs[0].dtype)
