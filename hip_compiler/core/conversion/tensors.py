"""A tensor while it is converted: its SSA value, symbolic shape, element type, and what is known of its contents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hip_compiler.dtypes import BY_NAME, DType
from hip_compiler.shapes import Dim, Shape, dim


@dataclass
class Tensor:
    """One ONNX value during conversion.

    Attributes:
        shape: extents, known or symbolic.
        dtype: ONNX element type; the SSA value has its storage type.
        value: SSA value of type ``tensor<...>``; None until something needs it (contents alone may be enough).
        contents: elements known at compile time: an array of the dtype, or of dtype ``object`` holding `Dim`.
    """

    shape: Shape
    dtype: DType
    value: Any = None
    contents: np.ndarray | None = None
    buffer: str | None = None

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def static_shape(self) -> tuple[int, ...] | None:
        """The shape as numbers, when every extent is known."""
        extents = [extent.value for extent in self.shape]
        return None if None in extents else tuple(extents)  # type: ignore[arg-type]

    @property
    def constant(self) -> np.ndarray | None:
        """The contents, when they are numbers."""
        return None if self.contents is None or self.contents.dtype == object else self.contents

    @property
    def size(self) -> int | None:
        """Number of elements, when known."""
        extents = self.static_shape
        return None if extents is None else int(np.prod(extents, dtype=np.int64))

    def extents(self) -> tuple[Dim, ...] | None:
        """The contents of an integer tensor as extents, in row-major order; None where they are not known."""
        if self.contents is None or self.dtype.kind not in ("int", "uint", "bool"):
            return None
        return tuple(element if isinstance(element, Dim) else dim(int(element)) for element in self.contents.flat)


class Compound(Tensor):
    """A sequence or an optional; it has no SSA value of its own."""


class TensorList(Compound):
    """A sequence of tensors whose length is known at compile time; the program knows nothing of it.

    Attributes:
        elements: the tensors, in order.
    """

    def __init__(self, elements: Sequence[Tensor], dtype: DType | None = None) -> None:
        super().__init__((), elements[0].dtype if elements else dtype or BY_NAME["float"])
        self.elements = tuple(elements)


class Absent(Compound):
    """An optional that holds nothing, as the result of an operator."""

    def __init__(self) -> None:
        super().__init__((), BY_NAME["float"])


class Packed(Compound):
    """A sequence whose length only run time knows, as two tensors.

    Attributes:
        elements: elements of all tensors, one tensor after the other, each in row-major order; [number of elements].
        layout: int64 [length, 1 + MAX_RANK]: where a tensor begins in `elements`, its extents, and -1 in the columns
            that are left.
        known: what is known of every tensor's shape, None where an extent is not; None: not even the rank.
    """

    def __init__(self, elements: Tensor, layout: Tensor, known: tuple[int | None, ...] | None) -> None:
        super().__init__((), elements.dtype)
        self.elements = elements
        self.layout = layout
        self.known = known

    @property
    def length(self) -> Dim:
        return self.layout.shape[0]


class Maybe(Compound):
    """An optional of which only run time knows whether it holds something.

    Attributes:
        held: the sequence; for an optional of a tensor, a sequence of at most one.
        present: one truth value, rank 0; None for an optional of a tensor.
    """

    def __init__(self, held: Packed, present: Tensor | None = None) -> None:
        super().__init__((), held.dtype)
        self.held = held
        self.present = present


class ScalarOrVector(Tensor):
    """A vector of one element that stands for a scalar, too: one branch of an If gives this, and the other that.

    Operators that broadcast read both alike. What tells them apart, as the shape does, cannot be compiled.
    """


def constant(array: np.ndarray, dtype: DType, buffer: str | None = None) -> Tensor:
    """A tensor with known contents; ``buffer`` is its key in the constant pool, if it has one."""
    return Tensor(tuple(dim(extent) for extent in array.shape), dtype, contents=array, buffer=buffer)


def symbolic(elements: np.ndarray, dtype: DType) -> Tensor:
    """An integer tensor of extents; becomes numbers when every extent is known."""
    flat = [element if isinstance(element, Dim) else dim(int(element)) for element in elements.flat]
    values = [element.value for element in flat]
    if all(value is not None for value in values):
        return constant(np.array(values, dtype=dtype.numpy).reshape(elements.shape), dtype)
    held = np.empty(len(flat), dtype=object)
    held[:] = flat
    return Tensor(tuple(dim(extent) for extent in elements.shape), dtype, contents=held.reshape(elements.shape))
