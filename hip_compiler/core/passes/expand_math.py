"""`hip-expand-math`: elementary functions become arithmetic that vectorises, the rest calls of the C library."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hip_compiler.core.mlir import func, ir
from hip_compiler.core.passes.base import PassContext
from hip_compiler.core.passes.build import all_operations, functions
from hip_compiler.core.passes.float_math import UNARY, FloatMath
from hip_compiler.core.passes.integer_power import integer_power
from hip_compiler.core.passes.trigonometry import EXPONENTS, TABLE, Trigonometry, two_over_pi

TRIGONOMETRY = ("math.sin", "math.cos")
LIBRARY = {
    "math.acos": "acos",
    "math.acosh": "acosh",
    "math.asin": "asin",
    "math.asinh": "asinh",
    "math.atan": "atan",
    "math.atan2": "atan2",
    "math.atanh": "atanh",
    "math.cbrt": "cbrt",
    "math.cos": "cos",
    "math.cosh": "cosh",
    "math.erf": "erf",
    "math.erfc": "erfc",
    "math.exp": "exp",
    "math.exp2": "exp2",
    "math.expm1": "expm1",
    "math.log": "log",
    "math.log10": "log10",
    "math.log1p": "log1p",
    "math.log2": "log2",
    "math.powf": "pow",
    "math.sin": "sin",
    "math.sinh": "sinh",
    "math.tan": "tan",
    "math.tanh": "tanh",
}
"""Functions of the C library (`f` is appended for `f32`) for operations that are not expanded."""


@dataclass
class ExpandMath:
    """Expand elementary functions.

    In: any functions. Out: in kernels, exponentials, logarithms, tanh, erf, sin and cos on `f32` are arithmetic
    (at most 4 ulp); other operations of the table `LIBRARY` are calls of the C library, here and elsewhere. `f16`
    and `bf16` are computed in `f32`. Integer powers are loops over the bits of the
    exponent. What has an instruction (sqrt, floor, abs, ...) stays. Kernels of a device compute tan on `f32` too.
    """

    name = "hip-expand-math"

    def apply(self, op: Any, context: PassContext) -> None:
        with op.location:
            expander = Expander(op, context.on_device)
            for function in functions(op, kernels=True):
                expander.expand(function, inline=True)
            for function in functions(op):
                expander.expand(function, inline=False)


class Expander:
    """Expands the operations of one module."""

    def __init__(self, module: Any, on_device: bool) -> None:
        self._on_device = on_device
        body = module.regions[0].blocks[0]
        self._top = ir.InsertionPoint.at_block_begin(body)
        self._symbols = {op.attributes["sym_name"].value for op in body.operations if "sym_name" in op.attributes}
        self._math = FloatMath()

    def expand(self, function: Any, *, inline: bool) -> None:
        """Replace the operations of a function; `inline`: by arithmetic where there is an expansion."""
        for op in all_operations(function):
            name = op.operation.name
            if name not in LIBRARY and name != "math.ipowi":
                continue
            with op.location, ir.InsertionPoint(op):
                made = integer_power(*op.operands) if name == "math.ipowi" else self._replacement(function, op, inline)
                op.results[0].replace_all_uses_with(made)
            op.operation.erase()

    def _replacement(self, function: Any, op: Any, inline: bool) -> Any:
        math, kind = self._math, op.results[0].type
        operands = list(op.operands)
        narrow = isinstance(kind, ir.F16Type | ir.BF16Type)
        if narrow:
            operands = [math.op("arith.extf", math.f32, operand) for operand in operands]
        single = narrow or kind == math.f32
        name = op.operation.name
        if inline and single and name in UNARY:
            result = UNARY[name](math, operands[0])
        elif inline and single and name in TRIGONOMETRY:
            writer = Trigonometry(math, self._table(function))
            result = writer.sine(operands[0]) if name == "math.sin" else writer.cosine(operands[0])
        elif inline and single and name == "math.tan" and self._on_device:
            writer = Trigonometry(math, self._table(function))
            result = math.op("arith.divf", math.f32, writer.sine(operands[0]), writer.cosine(operands[0]))
        else:
            result = self._call(LIBRARY[name] + ("f" if single else ""), operands)
        return math.op("arith.truncf", kind, result) if narrow else result

    def _call(self, symbol: str, operands: list[Any]) -> Any:
        kind = operands[0].type
        if symbol not in self._symbols:
            self._symbols.add(symbol)
            with self._top:
                signature = ir.FunctionType.get([operand.type for operand in operands], [kind])
                func.FuncOp(symbol, signature, visibility="private")
        attributes = {"callee": ir.FlatSymbolRefAttr.get(symbol)}
        return ir.Operation.create("func.call", results=[kind], operands=operands, attributes=attributes).result

    def _table(self, function: Any) -> Any:
        i64 = ir.IntegerType.get_signless(64)
        kind = ir.MemRefType.get([2 * EXPONENTS], i64)
        if TABLE not in self._symbols:
            self._symbols.add(TABLE)
            contents = ir.DenseElementsAttr.get(np.asarray(two_over_pi()), type=i64)
            with self._top:
                ir.Operation.create(
                    "memref.global",
                    attributes={
                        "sym_name": ir.StringAttr.get(TABLE),
                        "sym_visibility": ir.StringAttr.get("private"),
                        "type": ir.TypeAttr.get(kind),
                        "initial_value": contents,
                        "constant": ir.UnitAttr.get(),
                    },
                )
        with ir.InsertionPoint.at_block_begin(function.regions[0].blocks[0]):
            attributes = {"name": ir.FlatSymbolRefAttr.get(TABLE)}
            return ir.Operation.create("memref.get_global", results=[kind], attributes=attributes).result
