"""How memrefs and attributes cross the runtime ABI: pointers, tensor descriptors, constants."""

from __future__ import annotations

from math import prod
from typing import Any

from hip_compiler.core.passes.extents import DYNAMIC, DYNAMIC_STRIDE, contiguous_strides, is_identity
from hip_compiler.core.passes.llvm_build import LLVMBuilder
from hip_compiler.dtypes import DTYPES

MAX_RANK = 8
DESCRIPTOR_WORDS = 2 + 2 * MAX_RANK
"""`hipc_tensor` in 64-bit words: pointer, dtype and rank, shape, strides."""
SHAPE_WORD, STRIDE_WORD = 2, 2 + MAX_RANK
SIGNED_BY_STORAGE = {"index": 7, "i1": 9} | {
    dtype.storage: dtype.onnx for dtype in reversed(DTYPES) if dtype.kind in ("int", "float", "complex") and dtype.size
}
"""ONNX element type of an MLIR storage type where no `dtypes` attribute says otherwise: integers are signed."""


class OperandLowering:
    """Lowers operands of one function.

    Args:
        build: LLVM builder of the module.
        entry: insertion point for stack slots: before everything else of the entry block.
    """

    def __init__(self, build: LLVMBuilder, entry: Any) -> None:
        self._build = build
        self._entry = entry
        self._slots: list[Any] = []
        self._dtypes: dict[Any, int] = {}
        self._layouts: dict[Any, tuple[list[int], list[int], int]] = {}

    def pointer(self, memref: Any) -> Any:
        """Address of the first element of a memref."""
        build = self._build
        struct = build.cast(memref, build.descriptor_type(memref.type.rank))
        return self._first_element(struct, memref.type)

    def dynamics(self, memref: Any) -> list[Any]:
        """Dynamic sizes, then dynamic strides of a memref; `i64` values."""
        build = self._build
        shape, strides, _ = self._layout(memref.type)
        struct = build.cast(memref, build.descriptor_type(memref.type.rank))
        sizes = [build.extract(struct, (3, i), build.i64) for i, size in enumerate(shape) if size == DYNAMIC]
        steps = [build.extract(struct, (4, i), build.i64) for i, step in enumerate(strides) if step == DYNAMIC_STRIDE]
        return sizes + steps

    def descriptor(self, memref: Any, position: int, dtype: int | None) -> Any:
        """Fill the `hipc_tensor` slot of an operand position; its address.

        Slots are shared by all calls of a function: a callee keeps no descriptor.
        """
        build = self._build
        memref_type = memref.type
        shape, strides, _ = self._layout(memref_type)
        slot = self._slot(position)
        words = [0] * DESCRIPTOR_WORDS
        words[1] = (dtype or self.dtype(memref_type.element_type)) | len(shape) << 32
        words[SHAPE_WORD : SHAPE_WORD + len(shape)] = [0 if size == DYNAMIC else size for size in shape]
        words[STRIDE_WORD : STRIDE_WORD + len(shape)] = [0 if step == DYNAMIC_STRIDE else step for step in strides]
        build.copy(slot, build.table(words), 8 * DESCRIPTOR_WORDS)
        struct = build.cast(memref, build.descriptor_type(len(shape)))
        build.store(self._first_element(struct, memref_type), slot)
        for i, size in enumerate(shape):
            if size == DYNAMIC:
                build.store(build.extract(struct, (3, i), build.i64), build.element(slot, SHAPE_WORD + i, build.i64))
        for i, step in enumerate(strides):
            if step == DYNAMIC_STRIDE:
                build.store(build.extract(struct, (4, i), build.i64), build.element(slot, STRIDE_WORD + i, build.i64))
        return slot

    def dtype(self, element: Any) -> int:
        """ONNX element type of an MLIR element type, integers taken as signed."""
        if element not in self._dtypes:
            self._dtypes[element] = SIGNED_BY_STORAGE[str(element)]
        return self._dtypes[element]

    def attribute(self, value: Any, kind: str, choices: tuple[str, ...]) -> list[Any]:
        """Arguments that an attribute crosses the ABI as."""
        build = self._build
        if kind == "float":
            return [build.float_constant(float(value))]
        if kind == "string":
            return [build.constant(choices.index(value))]
        if kind in ("ints", "floats"):
            if not len(value):
                return [build.null(), build.constant(0)]
            return [build.table(value, float if kind == "floats" else int), build.constant(len(value))]
        return [build.constant(int(value))]

    def address(self, value: Any, kind: str, choices: tuple[str, ...]) -> list[Any]:
        """Addresses that an attribute crosses a launch as: of the value; for a list, of its elements and its count."""
        build = self._build
        if kind in ("ints", "floats"):
            elements = build.table(value, float if kind == "floats" else int) if len(value) else build.null()
            return [elements, build.table([len(value)])]
        if kind == "float":
            return [build.table([float(value)], float)]
        return [build.table([choices.index(value) if kind == "string" else int(value)])]

    def elements(self, memref: Any) -> Any:
        """Number of elements of a memref; `i64`."""
        build = self._build
        shape, _, _ = self._layout(memref.type)
        count = build.constant(prod(size for size in shape if size != DYNAMIC))
        struct = build.cast(memref, build.descriptor_type(len(shape)))
        for i, size in enumerate(shape):
            if size == DYNAMIC:
                count = build.multiply(count, build.extract(struct, (3, i), build.i64))
        return count

    def _first_element(self, struct: Any, memref_type: Any) -> Any:
        build = self._build
        pointer = build.extract(struct, (1,), build.pointer)
        offset = self._layout(memref_type)[2]
        if offset == 0:
            return pointer
        element = memref_type.element_type
        if offset == DYNAMIC_STRIDE:
            return build.element_at(pointer, build.extract(struct, (2,), build.i64), element)
        return build.element(pointer, offset, element)

    def _layout(self, memref_type: Any) -> tuple[list[int], list[int], int]:
        if memref_type not in self._layouts:
            shape = list(memref_type.shape)
            if is_identity(memref_type) and DYNAMIC not in shape:
                self._layouts[memref_type] = (shape, [int(s) for s in contiguous_strides(shape)], 0)  # type: ignore[arg-type]
            else:
                strides, offset = memref_type.get_strides_and_offset()
                self._layouts[memref_type] = (shape, list(strides), offset)
        return self._layouts[memref_type]

    def _slot(self, position: int) -> Any:
        while len(self._slots) <= position:
            with self._entry:
                self._slots.append(self._build.alloca(DESCRIPTOR_WORDS, self._build.i64))
        return self._slots[position]


def dynamic_count(memref_type: Any) -> int:
    """Number of sizes and strides of a memref type that are known at run time only."""
    shape = list(memref_type.shape)
    strides, _ = memref_type.get_strides_and_offset()
    return shape.count(DYNAMIC) + list(strides).count(DYNAMIC_STRIDE)
