"""The building blocks that converters compose: generic loops, hip operations, views, extents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hip_compiler.core.conversion import scalars
from hip_compiler.core.conversion.extents import index
from hip_compiler.core.conversion.narrow_floats import is_narrow
from hip_compiler.core.conversion.onnx_op import NotSupportedError
from hip_compiler.core.conversion.reductions import REDUCTIONS
from hip_compiler.core.conversion.scalars import Scalar
from hip_compiler.core.conversion.tensors import Tensor, constant
from hip_compiler.core.conversion.values import Values
from hip_compiler.core.dialects.access import DTYPES, create_op
from hip_compiler.core.dialects.check import check_op
from hip_compiler.core.mlir import arith, ir, linalg, tensor
from hip_compiler.dtypes import BY_NAME, DType
from hip_compiler.dtypes import DTYPES as ALL_DTYPES
from hip_compiler.registry.contributions import MAX_OP_VALUES, OpShapes
from hip_compiler.shapes import Dim, Shape, broadcast, dim, limits, product, symbol

Body = Callable[..., "Scalar | Sequence[Scalar]"]
INT64 = BY_NAME["int64"]
_DYNAMIC = ir.ShapedType.get_dynamic_size()
_MOVES = frozenset(
    f"hip.{name}"
    for name in ("gather", "gather_elements", "gather_nd", "scatter_elements", "scatter_nd", "pad", "compress",
                 "reverse_sequence", "one_hot", "tensor_scatter")
)  # fmt: skip
"""Operations that only move elements: floats of 8 and 4 bits, whose storage is that of bytes, may pass."""


class Emitter(Values):
    """Emits IR at the current insertion point and keeps what is known of every value."""

    def check_all(self, flags: Tensor, message: str) -> None:
        """Fail the run with the message unless every element of a bool tensor is true."""
        every = self.reduce(flags, range(flags.rank), "min")
        element = tensor.extract(self.value(every), [])
        self.check(scalars.load(element, every.dtype).value, message)

    # ---- hip operations ---------------------------------------------------------------------------

    def hip(
        self,
        name: str,
        inputs: Mapping[str, Tensor | None],
        dtypes: Sequence[DType] | None,
        shapes: Sequence[Shape] | None = None,
        **attributes: Any,
    ) -> list[Tensor]:
        """A `hip` (or vendor) operation with its destinations.

        Args:
            name: full name of the operation.
            inputs: tensors by operand name.
            dtypes: ONNX element type per result; None: what the shape function says, and the operation then carries
                the ONNX element types of its operands, as its function may not know what its inputs are.
            shapes: shape per result; None: what the operation's shape function says.
            attributes: attribute values; defaults come from the definition.

        Raises:
            NotSupportedError: what the operation's verifier or shape function says.
        """
        definition = self.context.ops[name]
        moves = name in _MOVES and attributes.get("reduction", "none") == "none"
        for source in inputs.values():
            if source is not None and is_narrow(source.dtype) and not moves:
                raise NotSupportedError(f"{name} of {source.dtype}")
        values = [None if inputs.get(o.name) is None else self.value(inputs[o.name]) for o in definition.inputs]  # type: ignore[arg-type]
        carried = None
        if shapes is None:
            view = OpShapes(
                inputs={operand: None if source is None else source.shape for operand, source in inputs.items()},
                dtypes={
                    operand: None if source is None else source.dtype.storage for operand, source in inputs.items()
                },
                attributes={a.name: attributes.get(a.name, a.default) for a in definition.attributes},
                values=_small_contents(inputs),
            )
            try:
                specs = definition.reify(view)
            except ValueError as error:
                raise NotSupportedError(str(error)) from None
            shapes = [spec.shape for spec in specs]
            if dtypes is None:
                found = [_result_dtype(spec.dtype, [s for s in inputs.values() if s is not None]) for spec in specs]
                present = [s.dtype for o in definition.inputs if (s := inputs.get(o.name)) is not None]
                carried = ir.DenseI64ArrayAttr.get([dtype.onnx for dtype in (*present, *found)])
                dtypes = found
        assert dtypes is not None, "where the shapes are given, so are the element types"
        outs = [self.empty(shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
        if any(attribute.name == "unsigned" for attribute in definition.attributes):
            # Storage types are signless, so the operation is told.
            first = inputs[definition.inputs[0].name]
            attributes.setdefault("unsigned", first is not None and first.dtype.kind in ("uint", "bool"))
        op = create_op(definition, values, outs, attributes)
        if carried is not None:
            op.attributes[DTYPES] = carried
        problem = check_op(definition, op)
        if problem:
            raise NotSupportedError(problem)
        return [Tensor(shape, dtype, result) for shape, dtype, result in zip(shapes, dtypes, op.results, strict=True)]

    # ---- generic loops ------------------------------------------------------------------------------

    def elementwise(self, body: Body, inputs: Sequence[Tensor], dtype: DType, shape: Shape | None = None) -> Tensor:
        """Apply a scalar function to broadcast operands.

        Args:
            body: scalars of the operands (in the element types that arithmetic uses) to the scalar result.
            inputs: operands; one-element constants become literals of the body.
            dtype: element type of the result.
            shape: shape of the result; None: the operands' broadcast shape.
        """
        try:
            out = broadcast([source.shape for source in inputs]) if shape is None else shape
        except ValueError as error:
            raise NotSupportedError(str(error)) from None
        rank = len(out)
        literals = {i: source.constant.item() for i, source in enumerate(inputs) if _is_literal(source, rank)}  # type: ignore[union-attr]
        loops: list[tuple[int, Tensor, Any]] = []
        picked: list[tuple[int, Tensor, Any]] = []
        for i, source in enumerate(inputs):
            if i in literals:
                continue
            mapping = self._broadcast_map(source, out)
            (picked if mapping is None else loops).append((i, source, mapping))
        values = {i: self.value(source) for i, source, _ in [*loops, *picked]}
        identity = ir.AffineMap.get_identity(rank)

        def emit(*elements: Any) -> Any:
            arguments: list[Scalar | None] = [None] * len(inputs)
            for (i, source, _), element in zip(loops, elements, strict=False):
                arguments[i] = scalars.load(element, source.dtype)
            for i, source, _ in picked:
                arguments[i] = scalars.load(self._pick(values[i], source, out), source.dtype)
            for i, number in literals.items():
                arguments[i] = scalars.literal(number, inputs[i].dtype)
            return [scalars.store(body(*arguments), dtype)]  # type: ignore[arg-type]

        maps = [*(mapping for _, _, mapping in loops), identity]
        result = self.generic([values[i] for i, _, _ in loops], [self.empty(out, dtype)], maps, "p" * rank, emit)
        return Tensor(out, dtype, result[0])

    def _broadcast_map(self, source: Tensor, out: Shape) -> Any | None:
        """Indexing map of a broadcast operand; None when a run-time extent decides (and is checked here)."""
        offset, expressions, certain = len(out) - source.rank, [], True
        for axis, extent in enumerate(source.shape):
            target = out[offset + axis]
            if extent == target:
                expressions.append(ir.AffineExpr.get_dim(offset + axis))
            elif extent.value == 1:
                expressions.append(ir.AffineExpr.get_constant(0))
            elif limits(extent, target):
                self.check_equal(extent, target, "broadcast operands")
                expressions.append(ir.AffineExpr.get_dim(offset + axis))
            else:
                certain = False
                value = self.index_value(extent)
                fits = arith.ori(
                    arith.cmpi(arith.CmpIPredicate.eq, value, self.index_value(target)),
                    arith.cmpi(arith.CmpIPredicate.eq, value, index(1)),
                )
                self.check(fits, f"extents {extent} and {target} do not broadcast")
        return ir.AffineMap.get(len(out), 0, expressions) if certain else None

    def _pick(self, value: Any, source: Tensor, out: Shape) -> Any:
        """The element of an operand whose broadcasting is decided at run time: index 0 along extents of 1."""
        offset, position = len(out) - source.rank, []
        for axis, extent in enumerate(source.shape):
            if extent.value == 1:
                position.append(index(0))
                continue
            loop = loop_index(offset + axis)
            if extent != out[offset + axis]:
                single = arith.cmpi(arith.CmpIPredicate.eq, self.index_value(extent), index(1))
                loop = arith.select(single, index(0), loop)
            position.append(loop)
        return tensor.extract(value, position)

    def generic(
        self, inputs: Sequence[Any], outs: Sequence[Any], maps: Sequence[Any], iterators: str, body: Callable[..., Any]
    ) -> list[Any]:
        """`linalg.generic`; `iterators` has a letter per loop: p(arallel) or r(eduction). Returns the results."""
        kinds = {"p": "parallel", "r": "reduction"}
        types = [ir.Attribute.parse(f"#linalg.iterator_type<{kinds[letter]}>") for letter in iterators]
        op = linalg.GenericOp(
            [out.type for out in outs],
            list(inputs),
            list(outs),
            ir.ArrayAttr.get([ir.AffineMapAttr.get(each) for each in maps]),
            ir.ArrayAttr.get(types),
        )
        elements = [value.type.element_type for value in [*inputs, *outs]]
        block = op.regions[0].blocks.append(*elements)
        with ir.InsertionPoint(block):
            linalg.YieldOp(list(body(*block.arguments)))
        return list(op.operation.results)

    def fill(self, number: float, shape: Shape, dtype: DType) -> Any:
        """A destination filled with a number."""
        element = scalars.store(scalars.literal(number, dtype), dtype)
        identity = ir.AffineMap.get_identity(len(shape))
        return self.generic([], [self.empty(shape, dtype)], [identity], "p" * len(shape), lambda _: [element])[0]

    def reduce(self, source: Tensor, axes: Sequence[int], kind: str, dtype: DType | None = None) -> Tensor:
        """Combine elements along axes; the reduced axes are dropped.

        Args:
            kind: a key of `REDUCTIONS`.
            dtype: element type of the accumulator and the result; None: the one arithmetic on the source uses.
        """
        accumulator = dtype or scalars.compute_dtype(source.dtype)
        reduction = REDUCTIONS[kind]
        kept = [axis for axis in range(source.rank) if axis not in axes]
        shape = tuple(source.shape[axis] for axis in kept)
        maps = [
            ir.AffineMap.get_identity(source.rank),
            ir.AffineMap.get(source.rank, 0, [ir.AffineExpr.get_dim(axis) for axis in kept]),
        ]
        iterators = "".join("r" if axis in axes else "p" for axis in range(source.rank))

        def body(element: Any, total: Any) -> list[Any]:
            left, right = scalars.load(total, accumulator), scalars.load(element, source.dtype).cast(accumulator)
            return [scalars.store(reduction.combine(left, right), accumulator)]

        start = self.fill(reduction.init(accumulator), shape, accumulator)
        result = self.generic([self.value(source)], [start], maps, iterators, body)
        return Tensor(shape, accumulator, result[0])

    # ---- views and copies ---------------------------------------------------------------------------

    def cast(self, source: Tensor, dtype: DType) -> Tensor:
        """The tensor in another element type."""
        if source.dtype is dtype:
            return source
        return self.elementwise(lambda x: x.cast(dtype), [source], dtype)

    def reshape(self, source: Tensor, shape: Shape) -> Tensor:
        """The same elements, in row-major order, under another shape; the sizes must agree (checked if unknown)."""
        if source.shape == shape:
            return source
        self.check_extents(shape)
        self.check_equal(product(source.shape), product(shape), "Reshape changes the number of elements")
        if source.constant is not None and all(extent.value is not None for extent in shape):
            array = source.constant.reshape([extent.value for extent in shape])  # type: ignore[misc]
            return constant(array, source.dtype, source.buffer)
        if any(extent.value == 0 for extent in (*source.shape, *shape)):
            return Tensor(shape, source.dtype, self.empty(shape, source.dtype))  # nothing to keep
        value = self.value(source)
        if source.rank > 1:
            flat = self.tensor_type((product(source.shape),), source.dtype)
            value = tensor.collapse_shape(flat, value, [list(range(source.rank))])
        target = self.tensor_type(shape, source.dtype)
        if not shape:
            value = tensor.collapse_shape(target, value, [])
        elif len(shape) > 1 or not source.rank:
            sizes = [self.index_value(extent) for extent in shape if extent.value is None]
            static = [_DYNAMIC if extent.value is None else extent.value for extent in shape]
            groups = [list(range(len(shape)))] if source.rank else []
            flat = self.tensor_type((symbol("?") if sizes else product(shape),), source.dtype)
            if source.rank and value.type != flat:
                value = tensor.cast(flat, value)
            value = tensor.expand_shape(target, value, groups, sizes, static)
        elif value.type != target:
            value = tensor.cast(target, value)
        return Tensor(shape, source.dtype, value)

    def transpose(self, source: Tensor, order: Sequence[int]) -> Tensor:
        """Axes in another order, as a copy; a view where only extents of 1 move."""
        shape = tuple(source.shape[axis] for axis in order)
        moved = [axis for axis in order if source.shape[axis].value != 1]
        if moved == sorted(moved):
            return self.reshape(source, shape)
        inverse = [list(order).index(axis) for axis in range(source.rank)]
        maps = [
            ir.AffineMap.get(source.rank, 0, [ir.AffineExpr.get_dim(axis) for axis in inverse]),
            ir.AffineMap.get_identity(source.rank),
        ]
        outs = [self.empty(shape, source.dtype)]
        result = self.generic([self.value(source)], outs, maps, "p" * source.rank, lambda x, _: [x])
        return Tensor(shape, source.dtype, result[0])

    def expand(self, source: Tensor, shape: Shape) -> Tensor:
        """The tensor broadcast to a shape."""
        return source if source.shape == shape else self.elementwise(lambda x: x, [source], source.dtype, shape)

    def index_map(self, source: Tensor, shape: Shape, position: Callable[[Sequence[Any]], Sequence[Any]]) -> Tensor:
        """A tensor whose element at a position is the source's element at another, as a function of it."""

        def body(*_: Any) -> list[Any]:
            loops = [loop_index(axis) for axis in range(len(shape))]
            return [tensor.extract(value, list(position(loops)))]

        value, identity = self.value(source), ir.AffineMap.get_identity(len(shape))
        outs = [self.empty(shape, source.dtype)]
        return Tensor(shape, source.dtype, self.generic([], outs, [identity], "p" * len(shape), body)[0])

    def extent_scalar(self, extent: Dim, dtype: DType) -> Tensor:
        """An extent as a rank-0 tensor of numbers."""
        if extent.value is not None:
            return constant(np.asarray(extent.value, dtype=dtype.numpy), dtype)
        integer = arith.index_cast(scalars.mlir_type("i64"), self.index_value(extent))
        number = scalars.store(Scalar(integer, INT64), dtype)
        return Tensor((), dtype, tensor.from_elements(self.tensor_type((), dtype), [number]))

    def iota(self, shape: Shape, dtype: DType, number: Callable[[Sequence[Any]], Any]) -> Tensor:
        """An integer tensor whose element is an `index` computed from its position."""

        def body(*_: Any) -> list[Any]:
            value = number([loop_index(axis) for axis in range(len(shape))])
            return [arith.index_cast(scalars.mlir_type(dtype.storage), value)]

        outs, identity = [self.empty(shape, dtype)], ir.AffineMap.get_identity(len(shape))
        return Tensor(shape, dtype, self.generic([], outs, [identity], "p" * len(shape), body)[0])

    def band(self, source: Tensor, offset: Dim, *, keep_above: bool) -> Tensor:
        """Elements of the last two axes on one side of a diagonal (inclusive); zeros elsewhere."""
        shift = self.index_value(offset)
        rank = source.rank

        def body(element: Any, _: Any) -> list[Any]:
            difference = arith.subi(loop_index(rank - 1), loop_index(rank - 2))
            predicate = arith.CmpIPredicate.sge if keep_above else arith.CmpIPredicate.sle
            zero = scalars.store(scalars.literal(0, source.dtype), source.dtype)
            return [arith.select(arith.cmpi(predicate, difference, shift), element, zero)]

        identity = ir.AffineMap.get_identity(rank)
        outs = [self.empty(source.shape, source.dtype)]
        result = self.generic([self.value(source)], outs, [identity, identity], "p" * rank, body)
        return Tensor(source.shape, source.dtype, result[0])

    def slice(self, source: Tensor, starts: Sequence[Dim], sizes: Sequence[Dim], steps: Sequence[int]) -> Tensor:
        """Elements `start + i * step` of every axis, `step > 0`."""
        self.check_extents(tuple(sizes))
        if any(size.value == 0 for size in (*sizes, *source.shape)):
            # A view of nothing may start past the end, which no slice operation allows.
            return Tensor(tuple(sizes), source.dtype, self.empty(tuple(sizes), source.dtype))
        static, dynamic = _split_all(self, [starts, sizes])
        op = tensor.ExtractSliceOp(
            self.tensor_type(tuple(sizes), source.dtype), self.value(source), dynamic[0], dynamic[1], [],
            static[0], static[1], list(steps),
        )  # fmt: skip
        return Tensor(tuple(sizes), source.dtype, op.result)

    def concat(self, parts: Sequence[Tensor], axis: int, shape: Shape) -> Tensor:
        """Parts side by side along an axis, in a tensor of the given shape."""
        value, start = self.empty(shape, parts[0].dtype), dim(0)
        for part in parts:
            value = self.insert(part, value, axis, start)
            start = start + part.shape[axis]
        return Tensor(shape, parts[0].dtype, value)

    def insert(self, part: Tensor, into: Any, axis: int, start: Dim) -> Any:
        """The SSA value `into` with a part that covers all other axes, from `start` on along one axis."""
        whole = into.type.shape[axis]
        if any(extent.value == 0 for extent in part.shape) or 0 in into.type.shape or start.value == whole:
            return into  # there is no element to insert, and no position that the verifier would take
        starts = [start if i == axis else dim(0) for i in range(part.rank)]
        static, dynamic = _split_all(self, [starts, part.shape])
        return tensor.InsertSliceOp(
            self.value(part), into, dynamic[0], dynamic[1], [], static[0], static[1], [1] * part.rank
        ).result


def _small_contents(inputs: Mapping[str, Tensor | None]) -> dict[str, tuple[Dim, ...]]:
    """Contents of integer inputs that may be extents: quantised weights are integers too, and there are many."""
    found = {}
    for name, source in inputs.items():
        if source is None or source.contents is None or source.contents.size > MAX_OP_VALUES:
            continue
        extents = source.extents()
        if extents is not None:
            found[name] = extents
    return found


def _result_dtype(text: str, inputs: Sequence[Tensor]) -> DType:
    """ONNX element type of a result that a shape function gives as MLIR text.

    The text is signless where an operand's is; that operand then tells.
    """
    known = [source.dtype for source in inputs if source.dtype.storage == text]
    known += [dtype for dtype in ALL_DTYPES if dtype.mlir == text]
    if not known:
        raise NotSupportedError(f"its shape function gives the element type '{text}', which ONNX does not have")
    return known[0]


def loop_index(axis: int) -> Any:
    """Position of the enclosing `linalg.generic` along a loop."""
    number = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), axis)
    return ir.Operation.create("linalg.index", results=[ir.IndexType.get()], attributes={"dim": number}).result


def _is_literal(source: Tensor, rank: int) -> bool:
    return source.constant is not None and source.constant.size == 1 and source.rank <= rank and source.dtype.kind in (
        "float", "int", "uint", "bool",
    )  # fmt: skip


def _split_all(emitter: Emitter, lists: Sequence[Sequence[Dim]]) -> tuple[list[list[int]], list[list[Any]]]:
    static = [[_DYNAMIC if extent.value is None else extent.value for extent in extents] for extents in lists]
    dynamic = [[emitter.index_value(extent) for extent in extents if extent.value is None] for extents in lists]
    return static, dynamic
