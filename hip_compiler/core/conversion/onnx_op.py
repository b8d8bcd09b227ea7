"""An ONNX operator as converters see it, and the table of converters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from hip_compiler.core.conversion.tensors import Compound, ScalarOrVector, Tensor
from hip_compiler.errors import Unsupported

if TYPE_CHECKING:
    from hip_compiler.core.conversion.emitter import Emitter


class NotSupportedError(Exception):
    """What an operator needs and its converter cannot do; the text is the reason in the report."""


class SubgraphError(NotSupportedError):
    """Operators of a subgraph cannot be converted.

    Attributes:
        findings: a report of each; none where the subgraph depends on an operator that is reported already.
    """

    def __init__(self, findings: Sequence[Unsupported]) -> None:
        super().__init__("; ".join(f"{finding.op}: {finding.reason}" for finding in findings))
        self.findings = findings


class Subgraph(Protocol):
    """The value of a graph attribute.

    Attributes:
        inputs: number of inputs.
        outputs: number of outputs.
    """

    inputs: int
    outputs: int

    def passed(self) -> tuple[int | None, ...]:
        """For each output the number of the input that it is, None where it is computed."""

    def convert(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Convert the subgraph at the current insertion point, as often as it is asked for; its outputs.

        Raises:
            SubgraphError: operators that cannot be converted.
        """


STRINGS = "strings can be moved, compared and looked up; what changes them is to be done before or after the model"
"""Why an operator on strings is refused."""

EITHER = "a scalar in one branch of an If, a vector of one element in the other"
"""What a `ScalarOrVector` is, in reports."""


def refuse_either(inputs: Sequence[Tensor], results: Sequence[Tensor | None]) -> None:
    """Refuse a `ScalarOrVector` as the result of a body that is run more than once: If alone has no inputs."""
    if inputs and any(isinstance(result, ScalarOrVector) for result in results):
        raise NotSupportedError(f"a result of its body is {EITHER}")


@dataclass
class OnnxOp:
    """One operator instance. Attributes and inputs that nobody reads are an error, so every read is remembered.

    Attributes:
        version: opset version of the domain that gives the operator its meaning.
        inputs: operands; None where an optional input is absent.
        outputs: number of results; `used` tells which of them the graph reads.
        attributes: attribute values as Python and NumPy objects; graphs as `Subgraph`.
    """

    name: str
    op: str
    domain: str
    version: int
    inputs: Sequence[Tensor | None]
    outputs: int
    attributes: Mapping[str, Any]
    used: Sequence[bool] = ()
    read: set[str] = field(default_factory=set)
    read_inputs: set[int] = field(default_factory=set)

    def attr(self, name: str, default: Any = None) -> Any:
        """Value of an attribute, or the default."""
        self.read.add(name)
        return self.attributes.get(name, default)

    def ignore(self, *names: str) -> None:
        """Say that attributes have no effect on inference."""
        self.read.update(names)

    def ignore_inputs(self, *indices: int) -> None:
        """Say that inputs have no effect on inference, or are read through others."""
        self.read_inputs.update(indices)

    def unread(self) -> str:
        """What of the operator nobody read, as the start of a sentence; empty where all is read."""
        attributes = sorted(set(self.attributes) - self.read)
        inputs = [str(i) for i, source in enumerate(self.inputs) if source is not None and i not in self.read_inputs]
        return f"attribute {', '.join(attributes)}" if attributes else f"input {', '.join(inputs)}" if inputs else ""

    def require(self, condition: bool, reason: str) -> None:
        """Raise `NotSupportedError` with the reason unless the condition holds."""
        if not condition:
            raise NotSupportedError(reason)

    def input(self, index: int) -> Tensor:
        """A required input."""
        tensor = self.optional(index)
        if tensor is None:
            raise NotSupportedError(f"required input {index} is absent")
        return tensor

    def optional(self, index: int) -> Tensor | None:
        """An optional input; None when it is absent."""
        self.read_inputs.add(index)
        return self.inputs[index] if index < len(self.inputs) else None

    def wants(self, index: int) -> bool:
        """Whether the graph reads a result."""
        return index < self.outputs and (index >= len(self.used) or self.used[index])

    def constant(self, index: int) -> np.ndarray | None:
        """Contents of an input that must be known at compile time; None when the input is absent.

        Raises:
            NotSupportedError: the input is there, and its contents are not known.
        """
        tensor = self.optional(index)
        if tensor is None:
            return None
        if tensor.constant is None:
            if tensor.size == 0 and tensor.dtype.numpy is not None:
                return np.empty(tensor.static_shape or (), tensor.dtype.numpy)
            raise NotSupportedError(f"input {index} must be constant")
        return tensor.constant

    def ints(self, attribute: str, index: int) -> tuple[int, ...] | None:
        """Integers that older opsets give as an attribute and newer ones as a constant input; None when absent."""
        if attribute in self.attributes:
            return tuple(int(value) for value in self.attr(attribute))
        values = self.constant(index)
        return None if values is None else tuple(int(value) for value in values.flat)


Convert = Callable[["Emitter", OnnxOp], "Tensor | Sequence[Tensor | None] | None"]
"""What a converter returns: the results, None for one that nobody reads; or None altogether when it leaves this
instance to the operator's function body."""


@dataclass(frozen=True)
class Converter:
    """How an operator of an opset range becomes `hip`, `linalg` and `tensor` operations.

    Attributes:
        how: the operations it becomes.
        dtypes: element types of its first input, checked before it is converted; None: those that ONNX defines it
            for, without strings and complex numbers.
        limits: what of the operator is refused, as a sentence's end: "at most 5 dimensions".
        sequences: it takes sequences and optionals (`Compound`), too.
        texts: it takes strings, too, whose numbers it moves or compares.
        broadcasts: a scalar and a vector of one element are the same to it (`ScalarOrVector`).
    """

    domain: str
    op: str
    since: int
    until: int | None
    convert: Convert
    how: str
    dtypes: frozenset[str] | None = None
    limits: str = ""
    sequences: bool = False
    texts: bool = False
    broadcasts: bool = False

    def refusal(self, op: OnnxOp) -> str | None:
        """Why an instance is refused for the kinds of its inputs; None where it is not."""
        if not self.sequences and any(isinstance(source, Compound) for source in op.inputs):
            return "an input is a sequence or an optional"
        if any(source is not None and source.dtype.kind == "complex" for source in op.inputs):
            return "complex numbers have no kernels"
        if not self.texts and any(source is not None and source.dtype.kind == "string" for source in op.inputs):
            return STRINGS
        first = op.optional(0)
        if self.dtypes is None or first is None or first.dtype.name in self.dtypes:
            return None
        known = ", ".join(sorted(self.dtypes))
        return f"element type {first.dtype} is not defined for it; it is for {known}"


CONVERTERS: dict[tuple[str, str], list[Converter]] = {}


def onnx_op(
    *ops: str,
    domain: str = "",
    since: int = 1,
    until: int | None = None,
    how: str = "",
    dtypes: frozenset[str] | None = None,
    limits: str = "",
    sequences: bool = False,
    texts: bool = False,
    broadcasts: bool = False,
) -> Callable[[Convert], Convert]:
    """Register a converter for operators of an opset range (`since` to `until`, both included)."""

    def register(convert: Convert) -> Convert:
        for op in ops:
            text = how or (convert.__doc__ or "").split("\n")[0]
            entry = Converter(domain, op, since, until, convert, text, dtypes, limits, sequences, texts, broadcasts)
            CONVERTERS.setdefault((domain, op), []).append(entry)
        return convert

    return register


def find_converter(domain: str, op: str, version: int) -> Converter | None:
    """The converter of an operator at an opset version."""
    for entry in CONVERTERS.get((domain, op), ()):
        if entry.since <= version and (entry.until is None or version <= entry.until):
            return entry
    return None
