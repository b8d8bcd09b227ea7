"""Tensors and extents as SSA values, and the checks that a run makes of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from hip_compiler.core.constants import INLINE_ELEMENTS
from hip_compiler.core.conversion import scalars
from hip_compiler.core.conversion.extents import ExtentValues, index
from hip_compiler.core.conversion.guesses import Guesses
from hip_compiler.core.conversion.onnx_op import NotSupportedError
from hip_compiler.core.conversion.tensors import Compound, Packed, Tensor, TensorList, constant
from hip_compiler.core.dialects.dense import storage_dense
from hip_compiler.core.mlir import arith, ir, tensor
from hip_compiler.core.passes.base import PassContext
from hip_compiler.dtypes import BY_NAME, DType
from hip_compiler.shapes import Dim, Shape, dim, not_negative, symbol

_DYNAMIC = ir.ShapedType.get_dynamic_size()


class Values:
    """SSA values of what is known when a model is converted, at the current insertion point."""

    def __init__(self, context: PassContext, extents: ExtentValues, guesses: Guesses | None = None) -> None:
        self.context = context
        self.extents = extents
        self.guesses = guesses or Guesses()
        self._fresh = 0
        self._made: list[Tensor] = []
        self._sure: set[Dim] = set()

    @contextmanager
    def scope(self) -> Iterator[None]:
        """For a region: SSA values made inside are not used outside."""
        outer, self._made = self._made, []
        sure, self._sure = self._sure, set(self._sure)
        try:
            with self.extents.scope():
                yield
        finally:
            for source in self._made:
                source.value = None
            self._made, self._sure = outer, sure

    def strings(self, texts: np.ndarray) -> Tensor:
        """A tensor of strings that are known."""
        return constant(self.context.vocabulary.numbers(texts), BY_NAME["string"])

    # ---- values and types ------------------------------------------------------------------------

    def tensor_type(self, shape: Shape, dtype: DType) -> Any:
        """`tensor<...>` of a shape and the storage type of an element type."""
        extents = [_DYNAMIC if extent.value is None else extent.value for extent in shape]
        return ir.RankedTensorType.get(extents, scalars.mlir_type(dtype.storage))

    def index_value(self, extent: Dim | int) -> Any:
        """SSA value of type `index` of an extent."""
        return self.extents.value(dim(extent))

    def value(self, source: Tensor) -> Any:
        """The SSA value of a tensor; contents known at compile time become an operation here.

        Raises:
            NotSupportedError: a sequence or an optional, which has no value of its own.
        """
        if isinstance(source, Compound):
            kind = "a sequence" if isinstance(source, (TensorList, Packed)) else "an optional"
            raise NotSupportedError(f"{kind} where a tensor is needed")
        if source.value is None:
            if source.constant is not None:
                source.value = self._constant_value(source)
            else:
                extents = source.extents()
                assert extents is not None
                integers = scalars.mlir_type(source.dtype.storage)
                elements = [arith.index_cast(integers, self.index_value(extent)) for extent in extents]
                source.value = tensor.from_elements(self.tensor_type(source.shape, source.dtype), elements)
                self._made.append(source)
        return source.value

    def _constant_value(self, source: Tensor) -> Any:
        array = source.constant
        assert array is not None
        kind = self.tensor_type(source.shape, source.dtype)
        if array.size <= INLINE_ELEMENTS:
            attributes = {"value": storage_dense(array, source.dtype)}
        else:
            if source.buffer is None:
                source.buffer = self.context.constants.add("folded", array)
            attributes = {"buffer": ir.StringAttr.get(source.buffer)}
        with self.extents.entry:
            return ir.Operation.create("hip.constant", results=[kind], attributes=attributes).result

    def empty(self, shape: Shape, dtype: DType) -> Any:
        """A destination: `tensor.empty` of the shape."""
        self.check_extents(shape)
        sizes = [self.index_value(extent) for extent in shape if extent.value is None]
        kind = self.tensor_type(shape, dtype)
        return ir.Operation.create("tensor.empty", results=[kind], operands=sizes).result

    def fresh_symbol(self, value: Any, *, signed: bool = False) -> Dim:
        """A new symbol that stands for an SSA value of type `index`, which may be negative if it is signed."""
        self._fresh += 1
        extent = symbol(f"?data{self._fresh}", signed=signed)
        (found,) = extent.symbols()
        self.extents.bind(found, value, at_entry=False)
        return extent

    def check_extents(self, shape: Shape) -> None:
        """A run fails where a number that it reads makes an extent negative."""
        for extent in shape:
            if extent.value is None and extent not in self._sure and any(s.signed for s in extent.symbols()):
                self._sure.add(extent)
                if not not_negative(extent):
                    value = self.index_value(extent)
                    self.check(arith.cmpi(arith.CmpIPredicate.sge, value, index(0)), "an extent is negative")

    def check(self, condition: Any, message: str) -> None:
        """Fail the run with the message when an `i1` is false."""
        ir.Operation.create("hip.check", operands=[condition], attributes={"message": ir.StringAttr.get(message)})

    def check_equal(self, a: Dim, b: Dim, what: str) -> None:
        """Two extents must be equal: an error now when they are known to differ, a run-time check when unknown."""
        if a == b:
            return
        if a.value is not None and b.value is not None:
            raise NotSupportedError(f"{what}: extents {a} and {b} differ")
        equal = arith.cmpi(arith.CmpIPredicate.eq, self.index_value(a), self.index_value(b))
        self.check(equal, f"{what}: extents {a} and {b} differ")

    def run_time_extents(self, source: Tensor) -> tuple[Dim, ...]:
        """Elements of a rank-0 or rank-1 integer tensor as extents; read at run time where they are not known.

        Raises:
            NotSupportedError: the number of elements is not known.
        """
        known = source.extents()
        if known is not None:
            return known
        if source.size is None or source.rank > 1:
            raise NotSupportedError("a shape whose length is not known at compile time")
        value = self.value(source)
        found = []
        for position in range(source.size):
            element = tensor.extract(value, [index(position)] if source.rank else [])
            found.append(self.fresh_symbol(arith.index_cast(ir.IndexType.get(), element), signed=True))
        return tuple(found)
