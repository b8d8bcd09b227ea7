"""Memory and ABI operations of the `hip` dialect: constants, pools, outputs, checks, launches."""

from __future__ import annotations

from typing import Any

from hip_compiler.registry.contributions import OperandDef, PlainOpDef


def _verify_constant(op: Any) -> str | None:
    sources = [name for name in ("value", "buffer") if name in op.attributes]
    if len(sources) != 1:
        return "needs exactly one of 'value' (a dense attribute) and 'buffer' (a key of the constant pool)"
    kind = op.results[0].type
    if sources == ["value"] and op.attributes["value"].type != kind:
        return f"value is of type {op.attributes['value'].type}, the result of type {kind}"
    if not kind.has_static_shape:
        return "the result must have a static shape"
    return None


def _needs(*names: str) -> Any:
    def verify(op: Any) -> str | None:
        missing = [name for name in names if name not in op.attributes]
        return f"needs attribute '{missing[0]}'" if missing else None

    return verify


PLAIN_OPS = (
    PlainOpDef(
        name="hip.constant",
        summary="Contents known at compile time: a dense value, or a key of the constant pool.",
        results=(OperandDef("result"),),
        pure=True,
        verify=_verify_constant,
    ),
    PlainOpDef(
        name="hip.get_constant",
        summary="View into constants.bin at a byte offset.",
        results=(OperandDef("result"),),
        pure=True,
        verify=_needs("offset"),
    ),
    PlainOpDef(
        name="hip.check",
        summary="Fails the run with a message when the condition is false.",
        operands=(OperandDef("condition"),),
        verify=_needs("message"),
    ),
    PlainOpDef(
        name="hip.alloc_output",
        summary="Memory for a graph output, from the caller's allocator.",
        operands=(OperandDef("sizes", variadic=True),),
        results=(OperandDef("result"),),
        verify=_needs("index", "dtype"),
    ),
    PlainOpDef(
        name="hip.get_pool",
        summary="The arena of a pool domain, grown to the given number of bytes.",
        operands=(OperandDef("bytes"),),
        results=(OperandDef("result"),),
        verify=_needs("domain"),
    ),
    PlainOpDef(
        name="hip.alloc",
        summary="Memory of so many bytes that lives until the run ends.",
        operands=(OperandDef("bytes"),),
        results=(OperandDef("result"),),
    ),
    PlainOpDef(
        name="hip.mark",
        summary="What memory the run has taken with hip.alloc so far, for hip.release.",
        results=(OperandDef("mark"),),
    ),
    PlainOpDef(
        name="hip.release",
        summary="Frees memory that the run took with hip.alloc since the mark, except for what the buffers are in.",
        operands=(OperandDef("mark"), OperandDef("kept", variadic=True)),
    ),
    PlainOpDef(
        name="hip.read_scalar",
        summary="The element of a tensor of one element in device memory; the host waits for it.",
        operands=(OperandDef("memory"),),
        results=(OperandDef("value"),),
    ),
    PlainOpDef(
        name="hip.write_scalar",
        summary="Stores a value in a tensor of one element in device memory.",
        operands=(OperandDef("value"), OperandDef("memory")),
    ),
    PlainOpDef(
        name="hip.as_argument",
        summary="A value as an argument of hip.launch, whose arguments are all of one type.",
        operands=(OperandDef("value"),),
        results=(OperandDef("argument"),),
        pure=True,
    ),
    PlainOpDef(
        name="hip.launch",
        summary="Runs a kernel function over chunks of [0, iterations); cost estimates the scalar operations of each.",
        operands=(OperandDef("iterations"), OperandDef("cost"), OperandDef("arguments", variadic=True)),
        verify=_needs("kernel"),
    ),
)
TYPES = ("context", "argument")
