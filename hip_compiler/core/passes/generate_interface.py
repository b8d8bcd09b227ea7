"""`generate-interface`: the entry points of `hipc.h` around the compiled graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hip_compiler.core.mlir import func, ir, llvm
from hip_compiler.core.passes.base import PassContext
from hip_compiler.core.passes.interface import ATTRIBUTE, ENTRY, Interface, TensorSpecification, read_interface
from hip_compiler.core.passes.llvm_build import LLVMBuilder
from hip_compiler.core.passes.llvm_operands import DESCRIPTOR_WORDS, SHAPE_WORD
from hip_compiler.errors import ErrorCode, HipCompilerError


@dataclass
class GenerateInterface:
    """Write the entry points.

    In: `@main_graph(%context: !llvm.ptr, memrefs of identity layout...) -> i32`, and the module attribute
    `hip.interface`. Out: the functions `inference_init`, `_compute`, `_cleanup`, `_last_error` and
    `_get_metadata_json`; `@main_graph` is private. `inference_compute` lets the runtime check the inputs, equal
    symbols included, before anything runs.

    Raises:
        HipCompilerError: `HIPC0305`, when the graph or its interface is missing or they do not fit each other.
    """

    name = "generate-interface"

    def apply(self, op: Any, context: PassContext) -> None:
        module = op.operation
        interface = read_interface(module)
        graph = _find_graph(module)
        if interface is None or graph is None:
            raise HipCompilerError(
                ErrorCode.NO_ENTRY_POINT,
                "the module has no graph to make entry points for",
                why=f"it has no {'function @' + ENTRY if graph is None else 'attribute ' + ATTRIBUTE}",
                hint="convert-onnx-to-hip makes both",
            )
        graph.attributes["sym_visibility"] = ir.StringAttr.get("private", module.context)
        with module.location:
            EntryPoints(module, interface, graph, context.constants.size).write()


def _find_graph(module: Any) -> Any:
    for op in module.regions[0].blocks[0].operations:
        if isinstance(op, func.FuncOp) and op.attributes["sym_name"].value == ENTRY:
            return op
    return None


class EntryPoints:
    """Writes the entry points of one module."""

    def __init__(self, module: Any, interface: Interface, graph: Any, constants_bytes: int) -> None:
        self._build = LLVMBuilder(module)
        self._end = ir.InsertionPoint(module.regions[0].blocks[0])
        self._interface = interface
        self._graph = graph
        self._constants_bytes = constants_bytes
        self._symbols = {name: number for number, name in enumerate(interface.symbols())}

    def write(self) -> None:
        self._check()
        build = self._build
        pointer, status = build.pointer, build.i32
        self._function("inference_init", [pointer, pointer], status, self._init)
        self._function("inference_compute", [pointer, pointer], status, self._compute)
        self._function("inference_cleanup", [pointer], None, self._cleanup)
        self._function("inference_last_error", [pointer], pointer, self._last_error)
        self._function("inference_get_metadata_json", [], pointer, lambda: build.string(self._interface.text))

    def _check(self) -> None:
        inputs = [argument.type for argument in self._graph.regions[0].blocks[0].arguments][1:]
        if len(inputs) != len(self._interface.inputs):
            raise HipCompilerError(
                ErrorCode.NO_ENTRY_POINT,
                f"@{ENTRY} takes {len(inputs)} inputs, {ATTRIBUTE} names {len(self._interface.inputs)}",
            )
        for kind, spec in zip(inputs, self._interface.inputs, strict=True):
            shape = [-1 if isinstance(extent, str) else extent for extent in spec.shape]
            found = [-1 if size == ir.ShapedType.get_dynamic_size() else size for size in kind.shape]
            if shape != found:
                raise HipCompilerError(
                    ErrorCode.NO_ENTRY_POINT,
                    f"input '{spec.name}' is {kind} in @{ENTRY}, but its shape in {ATTRIBUTE} is {list(spec.shape)}",
                )

    def _function(self, name: str, arguments: list[Any], result: Any, body: Any) -> None:
        signature = ir.FunctionType.get(arguments, [] if result is None else [result])
        with self._end:
            function = func.FuncOp(name, signature)
        block = function.add_entry_block()
        with ir.InsertionPoint(block):
            value = body(*block.arguments)
            if value is not None or result is None:
                ir.Operation.create("func.return", operands=[] if value is None else [value])

    # Bodies return the function's result, or None once they have ended their blocks themselves.

    def _init(self, state: Any, files: Any) -> Any:
        build = self._build
        status = build.call("hipc_init", [state, files, build.constant(self._constants_bytes)], build.i32)
        if not self._symbols:
            return status
        # A context exists even where hipc_init failed for another reason than memory, but names are of no use then.
        entry = ir.InsertionPoint.current.block
        named = entry.create_after()
        ended = named.create_after(build.i32)
        build.branch_if(build.is_zero(status), named, ended, [status])
        with ir.InsertionPoint(named):
            count = build.constant(len(self._symbols))
            arguments = [build.load(state, build.pointer), self._symbol_names(), count]
            branch = [build.call("hipc_name_symbols", arguments, build.i32)]
            ir.Operation.create("llvm.br", operands=branch, successors=[ended])
        with ir.InsertionPoint(ended):
            ir.Operation.create("func.return", operands=[ended.arguments[0]])
        return None

    def _compute(self, state: Any, io: Any) -> Any:
        build = self._build
        specs = self._specifications()
        counts = [build.constant(len(self._interface.inputs)), build.constant(len(self._symbols))]
        begun = build.call("hipc_begin", [state, io, specs, *counts], build.i32)
        checked = build.is_zero(begun)
        entry = ir.InsertionPoint.current.block
        run = entry.create_after()
        refused = run.create_after(build.i32)
        build.branch_if(checked, run, refused, [begun])
        with ir.InsertionPoint(refused):
            ir.Operation.create("func.return", operands=[refused.arguments[0]])
        with ir.InsertionPoint(run):
            inputs = build.load(io, build.pointer)
            kinds = [argument.type for argument in self._graph.regions[0].blocks[0].arguments][1:]
            arguments = [self._input(inputs, number, kind) for number, kind in enumerate(kinds)]
            status = ir.Operation.create(
                "func.call",
                results=[build.i32],
                operands=[state, *arguments],
                attributes={"callee": ir.FlatSymbolRefAttr.get(ENTRY)},
            ).result
            ended = build.call("hipc_end", [state, status], build.i32)
            ir.Operation.create("func.return", operands=[ended])
        return None

    def _input(self, inputs: Any, number: int, kind: Any) -> Any:
        """Input `number` of the run as a memref of identity layout."""
        build = self._build
        tensor = build.element(inputs, number * DESCRIPTOR_WORDS, build.i64)
        memory = build.bytes_at(build.load(tensor, build.pointer), build.constant(2**62))
        index = ir.IndexType.get()
        sizes = [
            build.cast(build.load(build.element(tensor, SHAPE_WORD + position, build.i64), build.i64), index)
            for position, size in enumerate(kind.shape)
            if size == ir.ShapedType.get_dynamic_size()
        ]
        zero = build.cast(build.constant(0), index)
        return ir.Operation.create("memref.view", results=[kind], operands=[memory, zero, *sizes]).result

    def _cleanup(self, state: Any) -> None:
        self._build.call("hipc_cleanup", [state])

    def _last_error(self, state: Any) -> Any:
        return self._build.call("hipc_last_error", [state], self._build.pointer)

    def _symbol_names(self) -> Any:
        """Address of the table of symbol names; NULL for those that the model does not name."""
        build = self._build

        def fill(table: Any) -> Any:
            for number, name in enumerate(self._symbols):
                table = build.insert(table, build.null() if name.startswith("?") else build.string(name), (number,))
            return table

        return build.filled_table("symbol_names", build.pointer, len(self._symbols), fill)

    def _specifications(self) -> Any:
        """Address of the `hipc_input_spec` table."""
        build = self._build
        row = llvm.StructType.get_literal([build.pointer, build.i32, build.i32, build.pointer])

        def fill(table: Any) -> Any:
            for number, spec in enumerate(self._interface.inputs):
                dims = build.table(self._dims(spec)) if spec.shape else build.null()
                fields = [
                    build.string(spec.name),
                    build.constant(spec.dtype, build.i32),
                    build.constant(len(spec.shape), build.i32),
                    dims,
                ]
                for position, field in enumerate(fields):
                    table = build.insert(table, field, (number, position))
            return table

        return build.filled_table("input_specs", row, len(self._interface.inputs), fill)

    def _dims(self, spec: TensorSpecification) -> list[int]:
        return [-self._symbols[extent] - 1 if isinstance(extent, str) else extent for extent in spec.shape]
