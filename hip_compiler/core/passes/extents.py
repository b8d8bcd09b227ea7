"""Extents and strides of memrefs as polynomials over the SSA values of one function.

An extent is an `int` where it is known at compile time, else a `shapes.Dim` whose symbols stand for SSA
values. Two extents are known to be equal exactly when they compare equal; dynamic extents of function
arguments that carry the same name in `hip.interface` share one symbol, because a run checks that they agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hip_compiler.core.mlir import ir
from hip_compiler.core.passes.interface import ENTRY, read_interface
from hip_compiler.shapes import Dim, Symbol, dim, symbol

Extent = int | Dim
DYNAMIC: int = ir.ShapedType.get_dynamic_size()
DYNAMIC_STRIDE: int = ir.ShapedType.get_dynamic_stride_or_offset()

VIEW_OPS = frozenset(
    {
        "memref.cast",
        "memref.subview",
        "memref.collapse_shape",
        "memref.expand_shape",
        "memref.reinterpret_cast",
        "memref.memory_space_cast",
        "memref.transpose",
        "memref.view",
    }
)
"""Operations whose result is another view of their first operand's memory."""


def times(a: Extent, b: Extent) -> Extent:
    """Product; an `int` whenever it is known."""
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    return _settled(dim(a) * dim(b))


def plus(a: Extent, b: Extent) -> Extent:
    """Sum; an `int` whenever it is known."""
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    return _settled(dim(a) + dim(b))


def product(extents: Sequence[Extent]) -> Extent:
    """Product of extents; 1 for none."""
    result: Extent = 1
    for extent in extents:
        result = times(result, extent)
    return result


def contiguous_strides(sizes: Sequence[Extent]) -> tuple[Extent, ...]:
    """Row-major strides, in elements."""
    strides: list[Extent] = []
    step: Extent = 1
    for size in reversed(sizes):
        strides.append(step)
        step = times(step, size)
    return tuple(reversed(strides))


def size_of_element(element: Any) -> int:
    """Bytes of one element in memory."""
    if isinstance(element, ir.IndexType):
        return 8
    if isinstance(element, ir.ComplexType):
        return 2 * size_of_element(element.element_type)
    return -(-int(element.width) // 8)


def is_identity(memref_type: Any) -> bool:
    """Whether a memref type has the row-major layout with offset 0."""
    layout = memref_type.layout
    if isinstance(layout, ir.AffineMapAttr):
        mapping = layout.value
        return bool(mapping == ir.AffineMap.get_identity(mapping.n_dims))
    strides, offset = memref_type.get_strides_and_offset()
    shape = memref_type.shape
    if offset != 0 or DYNAMIC in shape[1:]:
        return False
    return list(strides) == list(contiguous_strides(shape))


class Extents:
    """Extents of the values of one function.

    Args:
        function: a `func.func` operation.
    """

    def __init__(self, function: Any) -> None:
        self._entry = function.regions[0].blocks[0]
        self._names = _argument_names(function)
        self._sizes: dict[Any, tuple[Extent, ...]] = {}
        self._strides: dict[Any, tuple[Extent, ...]] = {}
        self._indices: dict[Any, Extent] = {}
        self._symbols: dict[Any, Dim] = {}
        self._atoms: dict[Symbol, Any] = {}
        self._entry_dims: dict[Any, Any] = {}

    def sizes(self, value: Any) -> tuple[Extent, ...]:
        """Extents of a memref, one per dimension."""
        if value not in self._sizes:
            self._sizes[value] = self._compute_sizes(value)
        return self._sizes[value]

    def strides(self, value: Any) -> tuple[Extent, ...]:
        """Strides of a memref in elements, one per dimension."""
        if value not in self._strides:
            self._strides[value] = self._compute_strides(value)
        return self._strides[value]

    def index(self, value: Any) -> Extent:
        """What is known about an integer or index value."""
        if value not in self._indices:
            self._indices[value] = self._compute_index(value)
        return self._indices[value]

    def bytes(self, value: Any) -> Extent:
        """Bytes that a memref of identity layout takes."""
        return times(product(self.sizes(value)), size_of_element(value.type.element_type))

    def values(self, extent: Extent) -> list[Any]:
        """SSA values that the extent is computed from; dimensions of memrefs count as the memref."""
        if isinstance(extent, int):
            return []
        return [self._atoms[found][0] for found in extent.symbols()]

    def not_negative(self, extent: Extent) -> bool:
        """Whether an extent is a sum of products of dimensions, so that it cannot be negative."""
        if isinstance(extent, int):
            return extent >= 0
        from_dims = all(self._atoms[found][2] == "dim" for found in extent.symbols())
        return from_dims and all(factor > 0 for _, factor in extent.terms)

    def emit(self, extent: Extent) -> Any:
        """Compute an extent at the current insertion point; an `index` value."""
        if isinstance(extent, int):
            return constant_index(extent)
        total = None
        for atoms, factor in extent.terms:
            term = None if factor != 1 or not atoms else self._emit_atom(atoms[0])
            start = 1
            if term is None:
                term, start = constant_index(factor), 0
            for atom in atoms[start:]:
                term = binary("arith.muli", term, self._emit_atom(atom))
            total = term if total is None else binary("arith.addi", total, term)
        return total

    def _emit_atom(self, atom: Any) -> Any:
        value, position, kind = self._atoms[atom]
        if kind == "dim" and isinstance(value.owner, ir.Block) and value.owner == self._entry:
            return self._entry_dim(atom, value, position)
        if kind == "value":
            index_type = ir.IndexType.get()
            if value.type == index_type:
                return value
            return ir.Operation.create("arith.index_cast", results=[index_type], operands=[value]).result
        if kind == "dim":
            operands = [value, constant_index(position)]
            return ir.Operation.create("memref.dim", results=[ir.IndexType.get()], operands=operands).result
        metadata = strided_metadata(value)
        return metadata.results[2 + value.type.rank + position]

    def _entry_dim(self, atom: Any, value: Any, position: int) -> Any:
        """The extent of an argument, computed once at the very beginning."""
        if atom not in self._entry_dims:
            with ir.InsertionPoint.at_block_begin(self._entry):
                operands = [value, constant_index(position)]
                op = ir.Operation.create("memref.dim", results=[ir.IndexType.get()], operands=operands)
            self._entry_dims[atom] = op.result
        return self._entry_dims[atom]

    def _atom(self, value: Any, position: int = 0, kind: str = "value") -> Dim:
        name = self._names.get((value, position)) if kind == "dim" else None
        key: Any = name or (value, position, kind)
        if key not in self._symbols:
            named = symbol(key if isinstance(key, str) else f"%{len(self._symbols)}")
            self._symbols[key] = named
            self._atoms[named.terms[0][0][0]] = (value, position, kind)  # type: ignore[index]
        return self._symbols[key]

    def _mixed(self, static: Sequence[int], dynamic: Sequence[Any]) -> list[Extent]:
        remaining = iter(dynamic)
        return [self.index(next(remaining)) if entry == DYNAMIC else entry for entry in static]

    def _compute_sizes(self, value: Any) -> tuple[Extent, ...]:
        shape = list(value.type.shape)
        if DYNAMIC not in shape:
            return tuple(shape)
        found = self._defined_sizes(value)
        if found is None or len(found) != len(shape):
            found = [self._atom(value, position, "dim") for position in range(len(shape))]
        return tuple(f if s == DYNAMIC else s for s, f in zip(shape, found, strict=True))

    def _defined_sizes(self, value: Any) -> list[Extent] | None:
        owner = value.owner
        if isinstance(owner, ir.Block):
            return None
        name = owner.name
        shape = value.type.shape
        if name in ("memref.alloc", "memref.alloca", "hip.alloc_output"):
            return self._mixed(shape, owner.operands)
        if name == "memref.view":
            return self._mixed(shape, list(owner.operands)[2:])
        if name in ("memref.cast", "memref.memory_space_cast"):
            return list(self.sizes(owner.operands[0]))
        if name in ("memref.subview", "memref.reinterpret_cast"):
            sizes = self._mixed(*_mixed_segment(owner, 2, "static_sizes"))
            kept = _kept_dimensions(sizes, len(shape))
            return None if kept is None else [sizes[position] for position in kept]
        if name == "memref.expand_shape":
            return self._mixed(list(owner.attributes["static_output_shape"]), list(owner.operands)[1:])
        if name == "memref.collapse_shape":
            source = self.sizes(owner.operands[0])
            return [product([source[i] for i in group]) for group in _reassociation(owner)]
        if name == "arith.select":
            left, right = self.sizes(owner.operands[1]), self.sizes(owner.operands[2])
            return list(left) if left == right else None
        return None

    def _compute_strides(self, value: Any) -> tuple[Extent, ...]:
        memref_type = value.type
        if is_identity(memref_type):
            return contiguous_strides(self.sizes(value))
        static, _ = memref_type.get_strides_and_offset()
        if DYNAMIC_STRIDE not in static:
            return tuple(static)
        found = self._defined_strides(value)
        if found is None or len(found) != len(static):
            found = [self._atom(value, position, "stride") for position in range(len(static))]
        return tuple(f if s == DYNAMIC_STRIDE else s for s, f in zip(static, found, strict=True))

    def _defined_strides(self, value: Any) -> list[Extent] | None:
        owner = value.owner
        if isinstance(owner, ir.Block):
            return None
        name = owner.name
        if name in ("memref.cast", "memref.memory_space_cast"):
            return list(self.strides(owner.operands[0]))
        if name == "memref.reinterpret_cast":
            return self._mixed(*_mixed_segment(owner, 3, "static_strides"))
        if name == "memref.subview":
            steps = self._mixed(*_mixed_segment(owner, 3, "static_strides"))
            strides = [times(a, b) for a, b in zip(self.strides(owner.operands[0]), steps, strict=True)]
            kept = _kept_dimensions(self._mixed(*_mixed_segment(owner, 2, "static_sizes")), value.type.rank)
            return None if kept is None else [strides[position] for position in kept]
        return None

    def _compute_index(self, value: Any) -> Extent:
        owner = value.owner
        if isinstance(owner, ir.Block):
            return self._atom(value)
        name = owner.name
        if name == "arith.constant":
            return int(owner.attributes["value"].value)
        if name in ("arith.index_cast", "arith.extsi"):
            return self.index(owner.operands[0])
        if name in _POLYNOMIAL:
            return _POLYNOMIAL[name](self.index(owner.operands[0]), self.index(owner.operands[1]))
        if name == "memref.dim":
            position = self.index(owner.operands[1])
            if isinstance(position, int):
                return self.sizes(owner.operands[0])[position]
        return self._atom(value)


_POLYNOMIAL = {
    "arith.addi": plus,
    "arith.subi": lambda a, b: plus(a, times(b, -1)),
    "arith.muli": times,
}


def constant_index(value: int) -> Any:
    """An `arith.constant` of type `index` at the current insertion point."""
    index_type = ir.IndexType.get()
    attributes = {"value": ir.IntegerAttr.get(index_type, value)}
    return ir.Operation.create("arith.constant", results=[index_type], attributes=attributes).result


def binary(name: str, left: Any, right: Any) -> Any:
    """An integer operation on two index values that does not overflow."""
    return ir.Operation.create(
        name,
        results=[left.type],
        operands=[left, right],
        attributes={"overflowFlags": ir.Attribute.parse("#arith.overflow<nsw>")},
    ).result


def strided_metadata(value: Any) -> Any:
    """A `memref.extract_strided_metadata` operation of a memref."""
    memref_type = value.type
    index_type = ir.IndexType.get()
    base = ir.MemRefType.get([], memref_type.element_type)
    results = [base] + [index_type] * (1 + 2 * memref_type.rank)
    return ir.Operation.create("memref.extract_strided_metadata", results=results, operands=[value])


def _settled(extent: Dim) -> Extent:
    value = extent.value
    return extent if value is None else value


def _mixed_segment(owner: Any, segment: int, static: str) -> tuple[list[int], list[Any]]:
    lengths = list(owner.attributes["operandSegmentSizes"])
    start = sum(lengths[:segment])
    return list(owner.attributes[static]), list(owner.operands)[start : start + lengths[segment]]


def _kept_dimensions(sizes: Sequence[Extent], rank: int) -> list[int] | None:
    """Which dimensions a rank-reducing view keeps, where the unit extents leave no choice."""
    if len(sizes) == rank:
        return list(range(rank))
    kept = [position for position, size in enumerate(sizes) if size != 1]
    return kept if len(kept) == rank else None


def _reassociation(owner: Any) -> list[list[int]]:
    return [[entry.value for entry in group] for group in owner.attributes["reassociation"]]


def _argument_names(function: Any) -> dict[tuple[Any, int], str]:
    """Name of each dynamic dimension of an argument of the graph, from the module attribute `hip.interface`."""
    module = function.operation.parent
    if function.attributes["sym_name"].value != ENTRY or module is None:
        return {}
    interface = read_interface(module)
    arguments = list(function.regions[0].blocks[0].arguments)[1:]
    if interface is None:
        return {}
    return {
        (argument, position): extent
        for argument, spec in zip(arguments, interface.inputs, strict=True)
        for position, extent in enumerate(spec.shape)
        if isinstance(extent, str)
    }
