"""What a value is made of: control flow and interfaces carry tensors, so sequences and optionals are taken apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.onnx_op import NotSupportedError
from hip_compiler.core.conversion.packed import Known, common, known_shape, pack
from hip_compiler.core.conversion.tensors import Absent, Maybe, Packed, Tensor, TensorList, constant
from hip_compiler.dtypes import BY_NAME, DType

BOOL = BY_NAME["bool"]


@dataclass(frozen=True)
class TensorForm:
    """A tensor. What is known of its shape is no part of the form."""

    dtype: DType = field(compare=False)
    known: Known = field(compare=False)


@dataclass(frozen=True)
class ListForm:
    """A sequence of known length, of tensors of known ranks; the element type counts where there are none, too."""

    dtype: DType
    ranks: tuple[int, ...]
    known: Known = field(compare=False)


@dataclass(frozen=True)
class PackedForm:
    """A sequence of run time."""

    dtype: DType
    known: Known


@dataclass(frozen=True)
class NothingForm:
    """An optional that holds nothing."""


@dataclass(frozen=True)
class MaybeForm:
    """An optional of run time, of a tensor or of a sequence."""

    held: PackedForm
    of_tensor: bool


Form = TensorForm | ListForm | PackedForm | NothingForm | MaybeForm
NOTHING = NothingForm()


def form_of(source: Tensor) -> Form:
    """The form that a value has."""
    if isinstance(source, Absent):
        return NOTHING
    if isinstance(source, TensorList):
        extents = known_shape(source.elements[0]) if source.elements else None
        for element in source.elements:
            extents = common(extents, known_shape(element))
        return ListForm(source.dtype, tuple(element.rank for element in source.elements), extents)
    if isinstance(source, Packed):
        return PackedForm(source.dtype, source.known)
    if isinstance(source, Maybe):
        return MaybeForm(PackedForm(source.dtype, source.held.known), source.present is None)
    return TensorForm(source.dtype, known_shape(source))


def join(a: Form, b: Form) -> Form:
    """The form that values of both forms can be given.

    Raises:
        NotSupportedError: there is none.
    """
    if a == b:
        return a
    if isinstance(a, (ListForm, PackedForm)) and isinstance(b, (ListForm, PackedForm)):
        return _common(a, b)
    if NOTHING in (a, b) or isinstance(a, MaybeForm) or isinstance(b, MaybeForm):
        left, right = _held(a), _held(b)
        if left is None or right is None:
            held, of_tensor = left or right or (PackedForm(BOOL, None), True)
            return MaybeForm(held, of_tensor)
        if left[1] == right[1]:
            return MaybeForm(_common(left[0], right[0]), left[1])
    raise NotSupportedError("a value is a tensor in one place, and a sequence or another optional elsewhere")


def _held(form: Form) -> tuple[PackedForm, bool] | None:
    """The sequence of an optional of run time, and whether it stands for a tensor; None for nothing."""
    if isinstance(form, NothingForm):
        return None
    if isinstance(form, MaybeForm):
        return form.held, form.of_tensor
    return PackedForm(form.dtype, form.known), isinstance(form, TensorForm)


def _common(a: ListForm | PackedForm, b: ListForm | PackedForm) -> PackedForm:
    if a.dtype is not b.dtype:
        raise NotSupportedError(f"a sequence of {a.dtype} in one place, of {b.dtype} elsewhere")
    for form, other in ((a, b), (b, a)):
        if isinstance(form, ListForm) and not form.ranks:
            return PackedForm(a.dtype, other.known)
    return PackedForm(a.dtype, common(a.known, b.known))


def take_apart(emitter: Emitter, source: Tensor, form: Form) -> list[Tensor]:
    """The tensors of a value, in a form that its own can be joined with."""
    if isinstance(form, TensorForm):
        return [source]
    if isinstance(form, NothingForm):
        return []
    if isinstance(form, ListForm):
        assert isinstance(source, TensorList)
        return list(source.elements)
    if isinstance(form, PackedForm):
        packed = _packed(emitter, source, form)
        return [packed.elements, packed.layout]
    parts = take_apart(emitter, source.held if isinstance(source, Maybe) else source, form.held)
    if form.of_tensor:
        return parts
    if isinstance(source, Maybe) and source.present is not None:
        return [*parts, source.present]
    return [*parts, constant(np.asarray(not isinstance(source, Absent)), BOOL)]


def _packed(emitter: Emitter, source: Tensor, form: PackedForm) -> Packed:
    if isinstance(source, Packed):
        return source
    if isinstance(source, Absent):
        return pack(emitter, [], form.dtype)
    return pack(emitter, source.elements if isinstance(source, TensorList) else [source], form.dtype)


def put_together(parts: Sequence[Tensor], form: Form) -> Tensor:
    """The value of a form that `take_apart` gave the tensors of."""
    if isinstance(form, TensorForm):
        return parts[0]
    if isinstance(form, NothingForm):
        return Absent()
    if isinstance(form, ListForm):
        return TensorList(parts, form.dtype)
    if isinstance(form, PackedForm):
        return Packed(parts[0], parts[1], form.known)
    return Maybe(Packed(parts[0], parts[1], form.held.known), None if form.of_tensor else parts[2])


def count_parts(form: Form) -> int:
    """Number of tensors that `take_apart` gives."""
    if isinstance(form, MaybeForm):
        return 2 if form.of_tensor else 3
    sizes = {TensorForm: 1, PackedForm: 2, NothingForm: 0}
    return len(form.ranks) if isinstance(form, ListForm) else sizes[type(form)]


class _FormsDiffer(Exception):  # noqa: N818 - not an error
    """A place gives values of other forms than those before it."""

    def __init__(self, forms: list[Form]) -> None:
        self.forms = forms


class Agreement:
    """Values that come from several places, and so need forms that all of those can give.

    Attributes:
        forms: a form per value; None until the first place has given its values.
    """

    def __init__(self, forms: list[Form] | None) -> None:
        self.forms = forms

    def parts(self, emitter: Emitter, values: Sequence[Tensor]) -> list[Tensor]:
        """The tensors of all values, for one place, at the current insertion point."""
        own = [form_of(value) for value in values]
        self.forms = self.forms or own
        joined = [join(form, other) for form, other in zip(self.forms, own, strict=True)]
        if joined != self.forms:
            raise _FormsDiffer(joined)
        return [part for value, form in zip(values, joined, strict=True) for part in take_apart(emitter, value, form)]

    def values(self, parts: Sequence[Tensor]) -> list[Tensor]:
        """The values that tensors are of."""
        found, first = [], 0
        for form in self.forms or []:
            last = first + count_parts(form)
            found.append(put_together(parts[first:last], form))
            first = last
        return found


Result = TypeVar("Result")


def agreed(attempt: Callable[[Agreement], Result], forms: list[Form] | None = None) -> Result:
    """What an attempt returns, made again with other forms until they fit everywhere.

    Args:
        forms: what to begin with.
    """
    while True:
        try:
            return attempt(Agreement(forms))
        except _FormsDiffer as other:
            forms = other.forms
