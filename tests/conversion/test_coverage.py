"""The table of operators says what is so: every row's operator compiles, in the element types of the row only."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
from onnx import TensorProto, helper

import hip_compiler
from hip_compiler.core.constants import ConstantPool
from hip_compiler.core.coverage import Coverage, coverage, known_operators, refused, words
from hip_compiler.core.dialects.load import make_context
from hip_compiler.core.frontend import import_model
from hip_compiler.core.options import CompileOptions
from hip_compiler.core.passes.add_context_arg import AddContextArg
from hip_compiler.core.passes.base import PassContext
from hip_compiler.core.passes.convert_onnx_to_hip import ConvertOnnxToHip
from hip_compiler.dtypes import BY_NAME, BY_NUMPY
from hip_compiler.errors import UnsupportedError
from hip_compiler.registry.registry import load_registry
from tests.conversion.examples import EXAMPLES, SEQUENCES, instance
from tests.node_cases import node_cases

BASELINE = Path(__file__).parents[2] / "benchmarks" / "conformance_baseline.json"
ROWS = {f"{row.domain}::{row.operator}-{row.since}": row for row in coverage()}


@cache
def cases() -> dict[tuple[str, str], list[onnx.ModelProto]]:
    """Models of ONNX's node cases that pass, by domain and operator."""
    passed = set(json.loads(BASELINE.read_text())["passed"])
    found: dict[tuple[str, str], list[onnx.ModelProto]] = {}
    for case in node_cases():
        if case.name in passed and case.model is not None:
            for node in case.model.graph.node:
                found.setdefault((node.domain, node.op_type), []).append(case.model)
    return found


def refusals(model: onnx.ModelProto) -> dict[str, str]:
    """Reasons of the nodes that cannot be converted, by node name."""
    registry = load_registry(())
    context, pool = make_context(registry), ConstantPool()
    options = CompileOptions(plugins=())
    passes = PassContext(options, registry.targets["host"], dict(registry.ops), registry.onnx_ops, pool, [])
    module = import_model(model, context, pool)
    with context:
        AddContextArg().apply(module.operation, passes)
        try:
            ConvertOnnxToHip().apply(module.operation, passes)
        except UnsupportedError as error:
            return {finding.node: finding.reason for finding in error.findings}
    return {}


def schema_of(row: Coverage) -> Any:
    """ONNX's schema of the newest version that a row covers; None where ONNX defines no such operator."""
    version = row.until or (onnx.defs.onnx_opset_version() if not row.domain else 1 << 30)
    try:
        return onnx.defs.get_schema(row.operator, min(version, 1 << 30), row.domain)
    except onnx.defs.SchemaError:
        return None


def retyped(model: onnx.ModelProto, schema: Any, dtypes: Sequence[str]) -> onnx.ModelProto:
    """A model with the node of another once for every element type of its first input.

    Inputs of the first one's type, or that may be of it, change with it.
    """
    node, infos = model.graph.node[0], {info.name: info for info in model.graph.input}
    formals = list(schema.inputs)
    before = infos[node.input[0]].type.tensor_type.elem_type
    nodes, inputs, outputs = [], {}, []
    for dtype in dtypes:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.name = dtype
        copy.output[:] = [f"{name}_{dtype}" if name else "" for name in node.output]
        if node.op_type == "BitCast":
            copy.attribute[0].i = BY_NAME[dtype].onnx  # of the same width
        for position, name in enumerate(node.input):
            if not name:
                continue
            copy.input[position] = f"{name}_{dtype}"
            info = onnx.ValueInfoProto()
            info.CopyFrom(infos[name])
            info.name = copy.input[position]
            formal = formals[min(position, len(formals) - 1)]
            alike = info.type.tensor_type.elem_type == before and f"tensor({dtype})" in formal.types
            if formal.type_str == formals[0].type_str or alike:
                info.type.tensor_type.elem_type = BY_NAME[dtype].onnx
            inputs[info.name] = info
        nodes.append(copy)
        outputs += [helper.make_empty_tensor_value_info(name) for name in copy.output if name]
    graph = helper.make_graph(nodes, "retyped", list(inputs.values()), outputs)
    return helper.make_model(graph, opset_imports=list(model.opset_import), ir_version=model.ir_version)


def of_versions(row: Coverage, models: Sequence[onnx.ModelProto]) -> onnx.ModelProto | None:
    """The first model of a version that a row covers, or one made so; None where an older form takes other inputs."""
    for model in models:
        if row.since <= version_of(model, row.domain).version <= (row.until or 1 << 30):
            return model
    model = onnx.ModelProto()
    model.CopyFrom(models[0])
    imported, version = version_of(model, row.domain), row.until or row.since
    forms = [onnx.defs.get_schema(row.operator, v, row.domain).inputs for v in (imported.version, version)]
    imported.version = version
    return model if len(forms[0]) == len(forms[1]) else None


def version_of(model: onnx.ModelProto, domain: str) -> Any:
    """The model's import of a domain."""
    return next(entry for entry in model.opset_import if entry.domain == domain)


def misstated(row: Coverage, schema: Any, model: onnx.ModelProto) -> str:
    """What a row says of element types and is not so; empty where all is."""
    allowed = {text[7:-1] for text in schema.inputs[0].types if text.startswith("tensor(")}
    tried = [name for name in TYPES if name in row.dtypes or name in allowed]
    if row.operator in OF_THEIR_ATTRIBUTES:
        tried.remove("string")
    reasons = refusals(retyped(model, schema, tried))
    wrong = [f"{name} is refused: {reasons[name]}" for name in tried if name in row.dtypes and name in reasons]
    wrong += [f"{name} compiles" for name in tried if name not in reasons and name not in row.dtypes]
    return "; ".join(wrong)


OF_THEIR_ATTRIBUTES = ("TfIdfVectorizer",)
"""Operators that take strings where an attribute has strings; test_strings.py has them."""

TYPES = [dtype.name for dtype in BY_NAME.values() if dtype.kind != "complex"]


def test_every_operator_of_onnx_is_compiled_or_refused_with_a_reason() -> None:
    compiled = {(row.domain, row.operator) for row in coverage()}
    declined = {(domain, op) for domain, op, _ in refused()}
    assert compiled | declined >= known_operators()
    assert not compiled & declined
    assert all(reason for _, _, reason in refused())


def test_rows_of_other_domains_declare_their_element_types() -> None:
    """QLinearConcat's first input is the result's scale."""
    bare = [name for name, row in ROWS.items() if row.domain.startswith("com.") and not row.dtypes]
    assert bare == ["com.microsoft::QLinearConcat-1"]


def test_every_row_is_true_of_element_types_or_has_an_example() -> None:
    """One test, as making ONNX's cases takes longer than all that follows."""
    wrong = {}
    for name, row in ROWS.items():
        schema, models = schema_of(row), cases().get((row.domain, row.operator), [])
        if not models and (row.domain, row.operator) not in EXAMPLES and row.operator not in SEQUENCES:
            wrong[name] = "no case of ONNX passes, and there is no example"
        plain = [model for model in models if len(model.graph.node) == 1 and _of_tensors(model)]
        model = of_versions(row, plain) if plain and schema is not None else None
        if model is not None and len(model.graph.node[0].input) > 0:
            wrong[name] = misstated(row, schema, model)
    assert not {name: text for name, text in wrong.items() if text}


def _of_tensors(model: onnx.ModelProto) -> bool:
    """Whether a first input is there, and all values are tensors of numbers."""
    infos = [*model.graph.input, *model.graph.output]
    return all(model.graph.node[0].input[:1]) and all(
        i.type.HasField("tensor_type") and i.type.tensor_type.elem_type != TensorProto.STRING for i in infos
    )


def test_examples_compile_and_run() -> None:
    nodes, feeds = [], dict[str, np.ndarray]()
    for (domain, op), example in EXAMPLES.items():
        node, arrays = instance(domain, op, example, f"{domain.replace('.', '_')}_{op}")
        nodes.append(node)
        feeds |= arrays
    feeds["sequence_x"] = np.arange(6, dtype=np.float32).reshape(2, 3)
    together = onnx.parser.parse_graph(f"g (float[2, 3] sequence_x) => (whole, got, there, count) {{{SEQUENCES}}}")
    nodes += together.node
    # Weights of experts must be constants.
    weights = [name for name in feeds if "MoE_" in name and not name.endswith(("_0", "_1"))]
    constants = [onnx.numpy_helper.from_array(feeds.pop(name), name) for name in weights]
    inputs = [helper.make_tensor_value_info(n, BY_NUMPY[a.dtype].onnx, a.shape) for n, a in feeds.items()]
    names = [node.output[0] for node in nodes[: len(EXAMPLES)]] + [info.name for info in together.output]
    outputs = [helper.make_empty_tensor_value_info(name) for name in names]
    imports = [helper.make_opsetid(*pair) for pair in (("", 24), ("com.microsoft", 1), ("ai.onnx.ml", 3))]
    graph = helper.make_graph(nodes, "examples", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    with hip_compiler.compile(model) as session:
        results = session.run(feeds)
    for name in names:
        assert results[name].size > 0, name
        assert results[name].dtype == object or np.isfinite(results[name].astype(np.float64)).all(), name
        assert results[name].any(), f"{name}: zeros show nothing"


LATER = {("", "GRU"), ("", "LSTM"), ("", "MaxRoiPool"), ("", "RNN"), ("", "Upsample"), ("ai.onnx.ml", "LabelEncoder")}
"""Operators whose first form is not compiled: those of ONNX begin with opset 7, and LabelEncoder with version 2."""


def test_rows_are_as_wide_as_onnx_defines_them() -> None:
    """Element types of first inputs, complex numbers aside, and opsets: of every version that has not been removed."""
    versions: dict[tuple[str, str], list[Any]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if not schema.deprecated:
            versions.setdefault((schema.domain, schema.name), []).append(schema)
    narrow, late = {}, set()
    for row in ROWS.values():
        known = sorted(versions.get((row.domain, row.operator), []), key=lambda schema: schema.since_version)
        ends = [*(schema.since_version for schema in known[1:]), 1 << 30]
        last = row.until or 1 << 30
        covered = [s for s, end in zip(known, ends, strict=False) if s.since_version <= last and end > row.since]
        allowed = {text[7:-1] for schema in covered for formal in list(schema.inputs)[:1] for text in formal.types}
        missing = (allowed & set(TYPES)) - set(row.dtypes or allowed)
        if missing:
            narrow[row.operator] = sorted(missing)
        rows = [other.since for other in ROWS.values() if (other.domain, other.operator) == (row.domain, row.operator)]
        if known and min(rows) > min(schema.since_version for schema in known):
            late.add((row.domain, row.operator))
    assert late == LATER
    assert narrow == {operator: ["string"] for operator in NOT_OF_STRINGS}


NOT_OF_STRINGS = {
    "Cast", "CastLike", "CenterCropPad", "Col2Im", "DepthToSpace", "GridSample", "NonZero", "Pad", "RandomNormalLike",
    "RandomUniformLike", "Resize", "SpaceToDepth", "TensorScatter", "Trilu", "Unique", "Upsample",
}  # fmt: skip
"""Operators that ONNX has for strings, too, and that are compiled for numbers alone."""


def test_words_name_sets_of_element_types() -> None:
    floats = ("float16", "bfloat16", "float", "double")
    assert words(floats) == "floats"
    assert words((*floats, "int32", "bool")) == "floats, int32, bool"
    assert words(()) == ""
