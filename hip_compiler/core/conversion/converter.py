"""Converts the operators of one function, in order, and collects everything that cannot be converted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hip_compiler.core.conversion import contents
from hip_compiler.core.conversion.early_opsets import restated
from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.functions import Expansion, function_body
from hip_compiler.core.conversion.mixed_types import refuse_mixed_types
from hip_compiler.core.conversion.nearest import nearest
from hip_compiler.core.conversion.onnx_op import (
    EITHER,
    STRINGS,
    NotSupportedError,
    OnnxOp,
    SubgraphError,
    find_converter,
)
from hip_compiler.core.conversion.refused import REFUSED
from hip_compiler.core.conversion.tensors import Compound, ScalarOrVector, Tensor
from hip_compiler.dtypes import BY_NAME
from hip_compiler.errors import Unsupported

MAX_EXPANSION_DEPTH = 8
INT64 = BY_NAME["int64"]

_OF_INT64 = {("", "CenterCropPad"): 1}
"""Inputs that a function body computes with as int64, whichever integers the operator takes."""


class Converter:
    """Converts operators one at a time.

    Attributes:
        findings: what could not be converted. Operators that only depend on such a result are not reported.
    """

    def __init__(self, emitter: Emitter, opsets: dict[str, int]) -> None:
        self.emitter = emitter
        self.opsets = opsets
        self.findings: list[Unsupported] = []

    def convert(self, op: OnnxOp, depth: int = 0) -> Sequence[Tensor | None]:
        """Results of an operator; None per result where it could not be converted (a finding says why)."""
        try:
            return self._results(op, depth)
        except SubgraphError as error:
            self.findings += error.findings
        except NotSupportedError as error:
            self.report(op, str(error))
        return [None] * op.outputs

    def report(self, op: OnnxOp, reason: str) -> None:
        """Add a finding."""
        dtypes = tuple(str(source.dtype) for source in op.inputs if source is not None)
        self.findings.append(Unsupported(op.name, op.op, op.domain, op.version, dtypes, reason))

    def _results(self, op: OnnxOp, depth: int) -> Sequence[Tensor | None]:
        """Results of an operator, all of whose attributes are of effect, or known not to be."""
        if any(isinstance(source, ScalarOrVector) for source in op.inputs):
            return self._broadcast(op, depth)
        op = restated(self.emitter, op)
        results = self._made(op, depth)
        if op.unread():
            raise NotSupportedError(f"{op.unread()} is not handled")
        return results

    def _broadcast(self, op: OnnxOp, depth: int) -> Sequence[Tensor | None]:
        """Results where an input is a scalar or a vector, as the run decides."""
        converter = find_converter(op.domain, op.op, op.version)
        if converter is None or not converter.broadcasts:
            raise NotSupportedError(f"an input is {EITHER}")
        vectors = [Tensor(s.shape, s.dtype, s.value) if isinstance(s, ScalarOrVector) else s for s in op.inputs]
        results = self._results(replace(op, inputs=vectors), depth)
        if any(s is not None and s.rank > 0 and not isinstance(s, ScalarOrVector) for s in op.inputs):
            return results
        return [ScalarOrVector(r.shape, r.dtype, r.value) if r is not None and r.rank else r for r in results]

    def _made(self, op: OnnxOp, depth: int) -> Sequence[Tensor | None]:
        refuse_mixed_types(op)
        known = contents.evaluate(op)
        if known is not None:
            op.ignore_inputs(*range(len(op.inputs)))
            return [known]
        # First: a plugin may take over an operator that the compiler has a conversion for.
        claim = self.emitter.context.claim(op.domain, op.op, op.version)
        if claim is not None:
            return self._claimed(op, claim.lowers_to)
        converter = find_converter(op.domain, op.op, op.version)
        refusal = None if converter is None else converter.refusal(op)
        if refusal is not None:
            raise NotSupportedError(refusal)
        made = None if converter is None else converter.convert(self.emitter, op)
        if made is not None:
            return [made] if isinstance(made, Tensor) else list(made)
        if any(isinstance(source, Compound) for source in op.inputs):
            raise NotSupportedError("an input is a sequence or an optional")
        if any(source is not None and source.dtype.kind == "string" for source in op.inputs):
            raise NotSupportedError(REFUSED.get((op.domain, op.op), STRINGS))
        if (op.domain, op.op) in _OF_INT64:
            at = _OF_INT64[op.domain, op.op]
            op = replace(op, inputs=[*op.inputs[:at], self.emitter.cast(op.input(at), INT64), *op.inputs[at + 1 :]])
        body = function_body(op) if depth < MAX_EXPANSION_DEPTH else None
        if body is None:
            raise NotSupportedError(REFUSED.get((op.domain, op.op)) or _no_conversion(op))
        op.read.update(op.attributes)
        op.ignore_inputs(*range(len(op.inputs)))
        return Expansion(self.convert, self.findings, op, body, depth + 1, self.opsets).run()

    def _claimed(self, op: OnnxOp, name: str) -> Sequence[Tensor]:
        """The operation that a plugin's claim names: inputs by position, attributes by name."""
        definition = self.emitter.context.ops[name]
        inputs = {operand.name: op.optional(i) for i, operand in enumerate(definition.inputs)}
        given = {a.name: op.attr(a.name) for a in definition.attributes if a.name in op.attributes}
        return self.emitter.hip(name, inputs, None, **given)


def _no_conversion(op: OnnxOp) -> str:
    return "; ".join(filter(None, ["no conversion for this operator", nearest(op)]))
