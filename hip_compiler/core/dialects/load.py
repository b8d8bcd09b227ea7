"""The MLIR context of a compilation: every registered dialect loaded from its definitions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from hip_compiler.core.dialects.access import segment_sizes
from hip_compiler.core.dialects.check import check_op
from hip_compiler.core.mlir import ext, ir, know_dialect, know_linalg
from hip_compiler.registry.contributions import DialectContribution, OpDef, OperandDef, PlainOpDef


class HasDialects(Protocol):
    """What `make_context` needs of a registry."""

    @property
    def dialects(self) -> Sequence[DialectContribution]: ...


def make_context(registry: HasDialects) -> Any:
    """A fresh context with every dialect of the registry.

    Unregistered dialects are allowed (the `onnx` dialect is one). Threads are off: MLIR's threads and
    verifiers written in Python wait for each other.
    """
    context = ir.Context()
    context.allow_unregistered_dialects = True
    context.enable_multithreading(False)
    know_dialect("onnx")
    know_linalg()
    with context, ir.Location.unknown():
        for dialect in registry.dialects:
            know_dialect(dialect.name)
            _dialect_class(dialect).load()
    return context


_classes: dict[int, tuple[DialectContribution, Any]] = {}


def _dialect_class(dialect: DialectContribution) -> Any:
    # By identity: verifiers and shape functions have no better equality. The tuple keeps the key's object alive.
    if id(dialect) not in _classes:
        _classes[id(dialect)] = (dialect, _make_dialect_class(dialect))
    return _classes[id(dialect)][1]


def _make_dialect_class(dialect: DialectContribution) -> Any:
    made = type(ext.Dialect)(dialect.name, (ext.Dialect,), {"_emit_module": _emit_once()}, name=dialect.name)
    for name in dialect.types:
        _subclass(made.Type, name, {}, name=name)
    for op in dialect.ops:
        fields = _fields("in", op.inputs, ext.Operand) | _fields("out", op.outputs, ext.Operand)
        # Optional results serve both forms: one per destination, or none at all. (Results in one variadic group
        # would have to be of one type.)
        fields |= {f"tensor_{output.name}": ext.Result[Any] | None for output in op.outputs}
        _make_op_class(made, op, fields, [_destination_effects(op)])
    for plain in dialect.plain_ops:
        fields = _fields("in", plain.operands, ext.Operand) | _fields("result", plain.results, ext.Result)
        _make_op_class(made, plain, fields, [ext.Pure] if plain.pure else [])
    return made


def _emit_once() -> Any:
    """How a dialect becomes IRDL: built of its classes once, and parsed from then on, which takes a tenth of it."""
    texts: list[str] = []

    def emit(cls: Any) -> Any:
        if not texts:
            texts.append(str(super(cls, cls)._emit_module()))
        return ir.Module.parse(texts[0])

    return classmethod(emit)


def _make_op_class(dialect: Any, op: OpDef | PlainOpDef, fields: dict[str, Any], traits: list[Any]) -> None:
    def verify_invariants(operation: Any) -> bool:
        try:
            problem = check_op(op, operation.operation)
        except Exception as error:  # noqa: BLE001  a verifier may be a plugin's
            # An exception must not travel through MLIR's verifier.
            problem = f"its verifier failed with {type(error).__name__}: {error}"
        if problem is not None:
            operation.location.emit_error(f"'{op.name}': {problem}")
        return problem is None

    short = op.name.removeprefix(f"{dialect.DIALECT_NAMESPACE}.")
    namespace = {"__annotations__": fields, "verify_invariants": staticmethod(verify_invariants)}
    _subclass(dialect.Operation, short, namespace, name=short, traits=traits)


def _subclass(base: Any, name: str, namespace: dict[str, Any], /, **arguments: Any) -> Any:
    return type(base)(name, (base,), {"__annotations__": {}, **namespace}, **arguments)


def _fields(prefix: str, operands: Iterable[OperandDef], kind: Any) -> dict[str, Any]:
    """Field hints. The prefix keeps an operand called `results` from hiding `Operation.results`."""
    return {f"{prefix}_{operand.name}": _hint(operand, kind[Any]) for operand in operands}


def _hint(operand: OperandDef, kind: Any) -> Any:
    if operand.variadic:
        return Sequence[kind]
    return kind | None if operand.optional else kind


def _destination_effects(op: OpDef) -> Any:
    """Effects of an operation: on memrefs it reads its inputs and writes its destinations; on tensors it has none."""

    class Effects(ir.MemoryEffectsOpInterface):
        @staticmethod
        def get_effects(operation: Any, effects: Any) -> None:
            if len(operation.results) > 0:
                return
            operands = list(operation.operation.op_operands)
            first_output = _destination_start(op, operation.operation)
            for number, operand in enumerate(operands):
                if number < first_output or op.reads_outputs:
                    effects.append(ir.MemoryEffect.Read, operand)
                if number >= first_output:
                    effects.append(ir.MemoryEffect.Write, operand)

    return Effects


def _destination_start(op: OpDef, operation: Any) -> int:
    return sum(segment_sizes(op, operation)[: len(op.inputs)])
