"""What a plugin can contribute. Built-ins are made of the same types.

The module imports no MLIR: callables receive the objects of the MLIR Python bindings.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from hip_compiler.registry.slot import PipelineSlot
from hip_compiler.shapes import Dim, Shape

Operation = Any
"""An `mlir.ir.Operation`."""


class PassProtocol(Protocol):
    """A pass: a dataclass whose fields are its options, with one method."""

    def apply(self, op: Operation, context: Any) -> None: ...


@dataclass(frozen=True)
class Lazy:
    """A name in a module, imported when it is first used: ``Lazy("vendor.passes.fuse:FuseBias")``.

    It keeps registration quick, and free of the MLIR bindings.
    """

    reference: str

    def load(self) -> Any:
        module, _, name = self.reference.partition(":")
        return getattr(importlib.import_module(module), name)


@dataclass(frozen=True)
class PassContribution:
    """A pass that pipelines can name.

    Attributes:
        name: textual name, for example ``hip-pool-allocs``.
        factory: a dataclass type, or a `Lazy` name of one; its fields are the options of the pass, spelt with ``-``
            for ``_`` in pipeline text.
        summary: one sentence.
        anchor: operation that the pass runs on: ``builtin.module`` or ``func.func``.
    """

    name: str
    factory: Callable[..., PassProtocol] | Lazy
    summary: str
    anchor: Literal["builtin.module", "func.func"] = "builtin.module"


@dataclass(frozen=True)
class SlotRequest:
    """Pipeline text to run at a slot, anchored at ``builtin.module``; nest with ``func.func(name)``."""

    slot: PipelineSlot
    pipeline: str


@dataclass(frozen=True)
class PipelineContribution:
    """A named pipeline, composed from the compile options when it is used."""

    name: str
    build: Callable[[Any], str]
    summary: str


AttributeKind = Literal["int", "float", "bool", "string", "ints", "floats"]


@dataclass(frozen=True)
class AttributeDef:
    """An attribute of an operation.

    Attributes:
        kind: ``int`` and ``bool`` are ``i64`` and ``i1`` attributes, ``ints`` a dense ``i64`` array, and so on.
        default: value that builders use when none is given; ``None``: must be given.
        choices: for ``string``: the allowed words. Their index crosses the runtime ABI.
    """

    name: str
    kind: AttributeKind
    default: Any = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class OperandDef:
    """An input or output of an operation: a tensor before bufferization, a memref after it.

    Attributes:
        optional: may be absent.
        variadic: stands for any number of values, all of one type (a rule of MLIR's operation definitions).
    """

    name: str
    optional: bool = False
    variadic: bool = False


MAX_OP_VALUES = 1024
"""Elements of an input up to which a shape function sees the contents: shapes, pads, axes, not weights."""


@dataclass(frozen=True)
class OpShapes:
    """What a shape function sees.

    Attributes:
        inputs: shape of every input, by operand name; ``None`` where an optional input is absent.
        dtypes: storage element type of every input, as MLIR text, by operand name.
        attributes: attributes as Python values, defaults filled in.
        values: contents of integer inputs known at compile time, as (possibly symbolic) extents, by operand name;
            of inputs of at most `MAX_OP_VALUES` elements.
    """

    inputs: Mapping[str, Shape | None]
    dtypes: Mapping[str, str | None]
    attributes: Mapping[str, Any]
    values: Mapping[str, tuple[Dim, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class TensorSpec:
    """Shape and storage element type (MLIR text) of one result."""

    shape: Shape
    dtype: str


ShapeFunction = Callable[[OpShapes], Sequence[TensorSpec]]
OpVerifier = Callable[[Operation], str | None]
"""Returns the sentence that says what is wrong, or None."""


@dataclass(frozen=True)
class CallLowering:
    """Lower to a call of a runtime function.

    ``int32_t SYMBOL(hipc_context*, const hipc_tensor* per input (NULL where absent; a pointer array and
    an int64_t count for a variadic one), hipc_tensor* per output, attributes in order)``. Attributes cross
    as ``int64_t`` (int, bool, string by its choice index), ``double``, or pointer and ``int64_t`` count.
    A status other than 0 ends the run with the operation's location as the place of the error.
    """

    symbol: str


@dataclass(frozen=True)
class LaunchLowering:
    """Lower to a launch of a kernel that a `KernelContribution` brings, over the elements of the first output.

    The kernel is ``void KERNEL(const void *const *arguments, int64_t begin, int64_t end)``. It runs on ranges of
    [0, number of elements), on several threads at once, and cannot fail: what can go wrong is a matter for the
    verifier or for a `CallLowering`. Arguments are addresses, as GPU launches take them: one ``hipc_tensor`` per
    input (NULL where absent) and per output (for a variadic one the address of a pointer array, then of its
    ``int64_t`` count), then per attribute, in order, an ``int64_t`` (int, bool, string by its choice index), a
    ``double``, or the first element of a list, followed by the address of its ``int64_t`` count.

    On a target with a device the kernel takes the same by value, and then the number of elements, an ``int64_t``:
    ``KERNEL(256) NAME(hipc_tensor x, hipc_tensor y, double factor, int64_t elements)``. Its threads share the elements
    with the stride of the grid. An absent input has all fields 0; variadic operands and lists cannot be passed.

    Attributes:
        kernel: name of the kernel.
        cost: estimate of the scalar operations per element, which decides how work is shared.
    """

    kernel: str
    cost: int = 1


@dataclass(frozen=True)
class OpDef:
    """One operation of a dialect, declared in one place.

    The operation is destination-passing: operands are the inputs, then one destination per output. In
    tensor form it has one result per output; in memref form it has none and writes the destinations.

    Attributes:
        name: full name, for example ``hip.softmax``.
        inputs: input operands, in order. Absent optional inputs take no operand (``operandSegmentSizes`` tells).
        outputs: destinations, in order.
        attributes: attributes, in order.
        reify: shape function.
        verify: verifier beyond operand counts, attribute kinds and choices, which follow from the definition.
        lowering: how the memref form becomes LLVM dialect.
        reads_outputs: the destinations' old contents matter (an in-place update).
        summary: one sentence.
    """

    name: str
    summary: str
    inputs: tuple[OperandDef, ...]
    outputs: tuple[OperandDef, ...]
    reify: ShapeFunction
    lowering: CallLowering | LaunchLowering
    attributes: tuple[AttributeDef, ...] = ()
    verify: OpVerifier | None = None
    reads_outputs: bool = False


@dataclass(frozen=True)
class PlainOpDef:
    """A memory or ABI operation: operands and results are of any type, and it has no destinations.

    Passes make and lower such operations by themselves.

    Attributes:
        name: full name, for example ``hip.get_pool``.
        operands: operands, in order.
        results: results, in order.
        pure: has no effect and cannot fail, so that unused or repeated ones may go.
        verify: verifier beyond counts.
        summary: one sentence.
    """

    name: str
    summary: str
    operands: tuple[OperandDef, ...] = ()
    results: tuple[OperandDef, ...] = ()
    pure: bool = False
    verify: OpVerifier | None = None


@dataclass(frozen=True)
class DialectContribution:
    """A dialect: its operations, and the names of its parameterless types (``context`` is ``!hip.context``)."""

    name: str
    ops: tuple[OpDef, ...]
    plain_ops: tuple[PlainOpDef, ...] = ()
    types: tuple[str, ...] = ()

    @property
    def op_names(self) -> tuple[str, ...]:
        return (*(op.name for op in self.ops), *(op.name for op in self.plain_ops))


@dataclass(frozen=True)
class BitcodeContribution:
    """LLVM bitcode of runtime functions.

    Attributes:
        name: name in messages.
        target: target that links it.
        source: path of the file, or its bytes.
        prefix: prefix that every externally visible definition carries.
        overrides: symbols of the runtime that it replaces.
    """

    name: str
    target: str
    source: Path | bytes
    prefix: str
    overrides: tuple[str, ...] = ()


@dataclass(frozen=True)
class LibraryContribution:
    """A shared library: loaded by the JIT, linked by the native path.

    Attributes:
        name: bare name (``foo`` for ``libfoo.so``) or absolute path. It must exist when the plugin registers.
        target: target that needs it.
        search_paths: folders to look in for a bare name; empty: where the system's loader looks.
    """

    name: str
    target: str
    search_paths: tuple[Path, ...] = ()


@dataclass(frozen=True)
class KernelContribution:
    """Kernels built ahead for one architecture, which operations launch by name through a `LaunchLowering`.

    Attributes:
        name: name in messages.
        target: target whose runtime can launch the kernels.
        architecture: for example ``gfx942``; for a target that runs on the CPU the first word of the LLVM triple,
            for example ``x86_64``. What is for another machine is left aside.
        source: path, or bytes, of a code object; of LLVM bitcode for a target that runs on the CPU.
        symbols: names of the kernels in it. Nothing else in it may be visible outside.
    """

    name: str
    target: str
    architecture: str
    source: Path | bytes
    symbols: tuple[str, ...]


def contents(contribution: BitcodeContribution | KernelContribution) -> bytes:
    """Contents of what a plugin brings."""
    source = contribution.source
    return source if isinstance(source, bytes) else source.read_bytes()


@dataclass(frozen=True)
class Device:
    """The kind of device of a target whose tensors do not live in the memory of the host.

    Attributes:
        triple: LLVM triple of its code.
        architectures: what ``--arch`` accepts, each a CPU name of LLVM for the triple.
        default: architectures compiled for when none is asked for.
        library: gives the code object of the target's own kernels for an architecture.
        functions: gives the path of bitcode with the functions of the C library that generated kernels may call.
    """

    triple: str
    architectures: tuple[str, ...]
    default: tuple[str, ...]
    library: Callable[[str], bytes]
    functions: Callable[[], Path]


class Linker(Protocol):
    """Makes a shared library of a program; `hip_compiler.toolchain.link_shared` is one.

    It is called with object files and static libraries, with the path to write to, with the names that other programs
    see (everything else is private to the library), and with the shared libraries that plugins declare for the target,
    by path or by the loader's name. A symbol that nothing defines is an error, as it is for the JIT.
    """

    def __call__(
        self, inputs: Sequence[Path], output: Path, *, exports: Sequence[str], libraries: Sequence[str]
    ) -> None: ...


@dataclass(frozen=True)
class TargetContribution:
    """A compilation target.

    Attributes:
        name: name given to ``compile(target=...)``.
        summary: one sentence.
        runtime_bitcode: gives the path of the runtime bitcode to link, which travels with the artifact; None: the
            host runtime of this package.
        features: words that passes can ask for, for example ``packed-weights``.
        architecture: first word of the LLVM triple of its bitcode; empty: it runs on this machine's CPU.
        overridable: runtime functions that a plugin's bitcode may replace.
        device: the device that tensors live on and kernels run on; None: the host's memory and CPU. With a device,
            the runtime bitcode holds the operations that can be compiled.
        linker: links native artifacts for it; None: lld, as for `host`.
    """

    name: str
    summary: str
    runtime_bitcode: Callable[[], Path] | None = None
    features: frozenset[str] = frozenset()
    architecture: str = ""
    overridable: frozenset[str] = frozenset()
    device: Device | None = None
    linker: Linker | None = None


@dataclass(frozen=True)
class OnnxOpClaim:
    """An ONNX operator that a plugin makes known before conversion.

    A claim goes before hip-compiler's own conversion: on an operator of the standard it takes over every one of them.

    Attributes:
        domain: ONNX domain; ``ai.onnx`` is the default domain.
        since: first opset version it covers.
        until: last opset version it covers; None: every later one.
        lowers_to: full name of the operation it becomes: inputs by position, attributes by name, results by the
            operation's shape function.
        verify: check of a node right after import, before anything is folded or converted; returns the sentence that
            says what is wrong, or None.
    """

    domain: str
    op: str
    lowers_to: str
    since: int = 1
    until: int | None = None
    verify: OpVerifier | None = None


Contribution = (
    PassContribution
    | SlotRequest
    | PipelineContribution
    | DialectContribution
    | OnnxOpClaim
    | BitcodeContribution
    | LibraryContribution
    | KernelContribution
    | TargetContribution
)
