"""`import_model`: a `ModelProto` becomes a module of the `onnx` dialect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx

from hip_compiler.core.constants import ConstantPool
from hip_compiler.core.frontend.builder import GraphBuilder, Scope
from hip_compiler.core.frontend.compound_types import type_text
from hip_compiler.core.frontend.external import ExternalData
from hip_compiler.core.frontend.inference import InferredGraph, infer_graph
from hip_compiler.core.frontend.load import LoadedModel, ModelSource, load_model
from hip_compiler.core.frontend.opsets import DEFAULT_DOMAIN, imported_opsets, opset_findings
from hip_compiler.core.frontend.schema import refuse_malformed
from hip_compiler.core.mlir import ir
from hip_compiler.errors import ErrorCode, HipCompilerError, Unsupported, UnsupportedError

ENTRY = "main_graph"


def import_model(
    model: ModelSource,
    context: Any,
    constants: ConstantPool,
    *,
    base_dir: Path | None = None,
    name: str | None = None,
    findings: list[Unsupported] | None = None,
) -> Any:
    """Import an ONNX model.

    Args:
        model: path of a file, serialised bytes, or a message (which is not modified); see `load_model`.
        context: MLIR context; it is made to accept the unregistered `onnx` dialect.
        constants: receives the contents of large constants, as views of the model's memory where possible.
        base_dir: folder of external data; for a path, the file's own folder when not given.
        name: name of the model in messages; the file's stem or the graph's name when not given.
        findings: receives an unsupported operator set version, so that one report can list everything;
            without it, such a version is an error.

    Returns:
        A module with one function `main_graph` (see the dialect's conventions in `docs/architecture.md`).

    Raises:
        HipCompilerError: `HIPC0100`, `HIPC0101` or `HIPC0102` for what is no model, has unusable external
            data, or breaks the specification; `HIPC0200` for an operator set version outside of the known ones.
    """
    loaded = load_model(model, base_dir)
    if name is None:
        name = Path(model).stem if isinstance(model, (str, Path)) else ""
    try:
        return _import(loaded, context, constants, name, findings)
    except UnicodeDecodeError as error:
        # ONNX's own C++ checks more texts than the names that matter here.
        raise HipCompilerError(
            ErrorCode.MODEL_INVALID, "a name in the model is no UTF-8 text", where=loaded.source, why=str(error)
        ) from error


def _import(
    loaded: LoadedModel, context: Any, constants: ConstantPool, name: str, findings: list[Unsupported] | None
) -> Any:
    name = name or loaded.proto.graph.name or "model"
    opsets = imported_opsets(loaded.proto, loaded.source)
    unsupported = opset_findings(opsets, name)
    if findings is not None:
        findings += unsupported
    elif unsupported:
        raise UnsupportedError(unsupported, hint="convert the model with onnx.version_converter, or export it again")
    if not loaded.proto.graph.output:
        raise HipCompilerError(ErrorCode.MODEL_INVALID, "the model has no outputs", where=loaded.source)
    inferred = infer_graph(loaded.proto, opsets)
    context.allow_unregistered_dialects = True
    with context, ir.Location.unknown(context):
        module = ir.Module.create()
        i64 = ir.IntegerType.get_signless(64)
        module.operation.attributes["onnx.opset"] = ir.DictAttr.get(
            {domain or DEFAULT_DOMAIN: ir.IntegerAttr.get(i64, version) for domain, version in opsets.items()}
        )
        module.operation.attributes["onnx.model"] = ir.StringAttr.get(name)
        builder = GraphBuilder(constants, ExternalData(loaded.roots, dict(loaded.memory)))
        _build_function(module, loaded.proto.graph, inferred, builder)
        refuse_malformed(module)
    return module


def _build_function(module: Any, original: onnx.GraphProto, inferred: InferredGraph, builder: GraphBuilder) -> None:
    graph = inferred.graph
    builder.declare(graph)
    infos = {info.name: info for info in (*original.input, *original.output)}
    input_types = [builder.type_of(name) for name in inferred.inputs]
    operation = ir.Operation.create(
        "func.func",
        regions=1,
        attributes={
            "sym_name": ir.StringAttr.get(ENTRY),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get(input_types, [])),
            "arg_attrs": ir.ArrayAttr.get([_interface(infos[name]) for name in inferred.inputs]),
        },
        ip=ir.InsertionPoint(module.body),
    )
    block = operation.regions[0].blocks.append(*input_types)
    scope = Scope(block, later=frozenset(name for node in graph.node for name in node.output))
    for name, argument in zip(inferred.inputs, block.arguments, strict=True):
        scope.define(name, argument, "graph input")
    for tensor in original.initializer:
        builder.initializer(tensor, scope)
    for sparse in original.sparse_initializer:
        builder.sparse_initializer(sparse, scope)
    for name, (tensor, node) in inferred.lifted.items():
        builder.lifted_constant(name, tensor, node, scope)
    for node in graph.node:
        builder.node(node, scope)
    results = [scope.lookup(name, "graph output") for name in inferred.outputs]
    ir.Operation.create("func.return", operands=results, ip=ir.InsertionPoint(block))
    operation.attributes["function_type"] = ir.TypeAttr.get(
        ir.FunctionType.get(input_types, [value.type for value in results])
    )
    operation.attributes["res_attrs"] = ir.ArrayAttr.get([_interface(infos[name]) for name in inferred.outputs])


def _interface(info: onnx.ValueInfoProto) -> Any:
    """`onnx.name`, and `onnx.dims` or `onnx.type`, of a graph input or output, as the model's author wrote them."""
    attributes = {"onnx.name": ir.StringAttr.get(info.name)}
    kind = info.type.WhichOneof("value")
    if kind == "tensor_type" and info.type.tensor_type.elem_type == onnx.TensorProto.STRING:
        attributes["onnx.type"] = ir.StringAttr.get(type_text(info.type))
    elif kind == "tensor_type" and info.type.tensor_type.HasField("shape"):
        dims = [ir.StringAttr.get(dim.dim_param) for dim in info.type.tensor_type.shape.dim]
        attributes["onnx.dims"] = ir.ArrayAttr.get(dims)
    elif kind in ("sequence_type", "optional_type"):
        attributes["onnx.type"] = ir.StringAttr.get(type_text(info.type))
    return ir.DictAttr.get(attributes)
