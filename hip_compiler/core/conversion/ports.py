"""Inputs and outputs of the model: tensors of the runtime ABI, of which a sequence or an optional takes several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.forms import (
    Form,
    MaybeForm,
    NothingForm,
    PackedForm,
    form_of,
    join,
    put_together,
    take_apart,
)
from hip_compiler.core.conversion.onnx_op import NotSupportedError
from hip_compiler.core.conversion.packed import COLUMNS, Known, required
from hip_compiler.core.conversion.tensors import Maybe, Tensor
from hip_compiler.core.frontend.compound_types import CompoundType
from hip_compiler.dtypes import BY_NAME
from hip_compiler.shapes import dim, shape, symbol

Part: TypeAlias = tuple[str, Tensor]
"""A tensor of the ABI and its name there."""

Entry: TypeAlias = dict[str, Any]
"""What the interface says of a sequence or an optional; `CompoundInfo` of the runtime reads it."""

SUFFIXES = ("elements", "layout", "present")


@dataclass(frozen=True)
class Port:
    """An input or output.

    Attributes:
        parts: its tensors.
        value: what operators take or gave.
        entry: None for a tensor.
    """

    parts: list[Part]
    value: Tensor
    entry: Entry | None = None


def tensor_port(name: str, source: Tensor) -> Port:
    """A tensor of the same name."""
    return Port([(name, source)], source)


def compound_input(name: str, position: int, kind: CompoundType) -> Port:
    """A sequence or an optional, whose tensors become arguments; or a tensor of strings.

    Raises:
        NotSupportedError: a tensor of strings of unknown rank, and complex numbers.
    """
    if kind.dtype.kind == "complex":
        raise NotSupportedError("complex numbers have no kernels")
    if not (kind.sequence or kind.optional):
        if kind.shape is None:
            raise NotSupportedError("a tensor of strings without a known rank")
        names = [f"?{position}_{axis}" if extent == "?" else extent for axis, extent in enumerate(kind.shape)]
        return tensor_port(name, Tensor(shape(names), kind.dtype))
    layout = (symbol(f"?{position}_length"), dim(COLUMNS))
    tensors = [
        Tensor((symbol(f"?{position}_elements"),), kind.dtype),
        Tensor(layout, BY_NAME["int64"]),
        Tensor((), BY_NAME["bool"]),
    ]
    form = _form(kind)
    tensors = tensors[: 3 if isinstance(form, MaybeForm) and not form.of_tensor else 2]
    parts = _named(name, tensors)
    return Port(parts, put_together(tensors, form), _entry(name, kind, parts))


def compound_output(emitter: Emitter, name: str, result: Tensor, kind: CompoundType | None) -> Port:
    """A sequence or an optional that the model returns.

    Args:
        kind: what the model says that it is; None where it does not.

    Raises:
        NotSupportedError: the value is not what the model says.
    """
    if isinstance(result, Maybe) and kind is not None and not kind.optional:
        result = required(emitter, result)
    if kind is None:
        kind = _kind(form_of(result))
    form, wanted = join(form_of(result), _form(kind)), _form(kind)
    if type(form) is not type(wanted):
        raise NotSupportedError("the model says that it is a sequence, and it is an optional that holds nothing")
    parts = _named(name, take_apart(emitter, result, form))
    return Port(parts, result, _entry(name, kind, parts))


def _form(kind: CompoundType) -> PackedForm | MaybeForm:
    known: Known = None
    if kind.shape is not None:
        known = tuple(extent if isinstance(extent, int) else None for extent in kind.shape)
    held = PackedForm(kind.dtype, known)
    return MaybeForm(held, not kind.sequence) if kind.optional else held


def _kind(form: Form) -> CompoundType:
    """The type of a value that the model gives none for."""
    if isinstance(form, NothingForm):
        raise NotSupportedError("an optional that holds nothing, of a type that the model does not give")
    optional = isinstance(form, MaybeForm)
    held = form.held if isinstance(form, MaybeForm) else form
    extents = None if held.known is None else tuple("?" if e is None else e for e in held.known)
    sequence = not (isinstance(form, MaybeForm) and form.of_tensor)
    return CompoundType(sequence, optional, held.dtype, extents)


def _named(name: str, tensors: list[Tensor]) -> list[Part]:
    return [(f"{name}.{suffix}", source) for suffix, source in zip(SUFFIXES, tensors, strict=False)]


def _entry(name: str, kind: CompoundType, parts: list[Part]) -> Entry:
    return {
        "name": name,
        "sequence": kind.sequence,
        "optional": kind.optional,
        "dtype": kind.dtype.onnx,
        "shape": None if kind.shape is None else list(kind.shape),
        "parts": [part for part, _ in parts],
    }
