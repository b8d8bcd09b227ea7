"""Every version of an operator means what it meant: nodes of opset 7 to the newest against ONNX Runtime."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import hip_compiler
from hip_compiler.core.coverage import refused
from tests.conversion.versions import ROWS, Constant, Row

# ONNX Runtime 1.32 runs models up to this opset.
OPSETS = range(7, 27)
# Versions that ONNX Runtime has no kernel for; the one before is the same for these rows.
NO_KERNEL = {("GlobalLpPool", 22): 7, ("MaxRoiPool", 22): 7, ("RoiAlign", 22): 16}
# Element types that NumPy lacks are read through a cast that is exact.
NARROW = {TensorProto.BFLOAT16, TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E4M3FNUZ, TensorProto.FLOAT8E5M2,
          TensorProto.FLOAT8E5M2FNUZ}  # fmt: skip


def versions(row: Row) -> list[int]:
    """Opsets of a row at which the operator is another version of itself."""
    found = {
        onnx.defs.get_schema(row.op, opset, "").since_version for opset in OPSETS if row.first <= opset <= row.last
    }
    return sorted({max(version, row.first) for version in found})


def cases() -> dict[int, list[int]]:
    """Numbers of rows by opset."""
    found: dict[int, list[int]] = defaultdict(list)
    for number, row in enumerate(ROWS):
        for version in versions(row):
            found[version].append(number)
    return found


CASES = cases()


def model(numbers: list[int], opset: int) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """The rows as one model of an opset, and what it is fed."""
    nodes, feeds, held, outputs = [], dict[str, np.ndarray](), [], []
    for number in numbers:
        row = ROWS[number]
        inputs = ["" if source is None else f"i{number}_{i}" for i, source in enumerate(row.inputs)]
        for name, source in zip(inputs, row.inputs, strict=True):
            if isinstance(source, Constant):
                held.append(onnx.numpy_helper.from_array(source.array, name))
            elif source is not None:
                feeds[name] = source
        results = [f"o{number}_{i}" for i in range(row.outputs)]
        outputs += results
        narrow = _type_of_result(row) in NARROW
        made = [f"narrow{number}"] if narrow else results
        nodes.append(helper.make_node(row.op, inputs, made, f"n{number}", **row.attributes))
        if narrow:
            nodes.append(helper.make_node("Cast", made, results, to=TensorProto.FLOAT))
    infos = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
             for name, array in feeds.items()]  # fmt: skip
    results_ = [helper.make_empty_tensor_value_info(name) for name in outputs]
    graph = helper.make_graph(nodes, "versions", infos, results_, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10), feeds


def _type_of_result(row: Row) -> int:
    """Element type that a cast or a quantisation gives; 0: of an input."""
    if row.op == "QuantizeLinear" and isinstance(row.inputs[2], Constant):
        return int(helper.np_dtype_to_tensor_dtype(row.inputs[2].array.dtype))
    return int(row.attributes["to"]) if row.op == "Cast" else 0


def expected(number: int, opset: int) -> list[np.ndarray]:
    """What ONNX Runtime makes of a row."""
    proto, feeds = model([number], NO_KERNEL.get((ROWS[number].op, opset), opset))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [np.asarray(value) for value in session.run(None, feeds)]


@pytest.mark.parametrize("opset", sorted(CASES))
def test_nodes_mean_what_they_meant(opset: int) -> None:
    """One model with all rows of an opset, compiled once."""
    numbers = CASES[opset]
    proto, feeds = model(numbers, opset)
    found = hip_compiler.compile(proto).run(feeds)
    for number in numbers:
        row = ROWS[number]
        for i, wanted in enumerate(expected(number, opset)):
            got, name = found[f"o{number}_{i}"], f"{row.op}-{opset} {row.attributes} result {i}"
            assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape), name
            np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=1e-5, err_msg=name)


def test_the_mask_of_dropout_says_that_all_stayed() -> None:
    """Opset 10 gives it as bool; ONNX Runtime's says there that nothing stayed."""
    for opset in (10, 12):
        node = helper.make_node("Dropout", ["x"], ["y", "m"])
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])
        outputs = [helper.make_empty_tensor_value_info(name) for name in "ym"]
        graph = helper.make_graph([node], "g", [x], outputs)
        proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        found = hip_compiler.compile(proto).run({"x": np.zeros(3, np.float32)})
        np.testing.assert_array_equal(found["m"], [True] * 3)


# Control flow, sequences, random numbers and attention are compared elsewhere, by version where that matters.
ELSEWHERE = {
    "Attention", "Bernoulli", "Constant", "If", "Loop", "Multinomial", "Optional", "OptionalGetElement",
    "OptionalHasElement", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Scan",
    "SplitToSequence",
}  # fmt: skip


def test_the_table_has_every_operator_that_changed() -> None:
    since = defaultdict(set)
    for schema in onnx.defs.get_all_schemas_with_history():
        if not schema.domain:
            since[schema.name].add(schema.since_version)
    changed = {op for op, found in since.items() if len(found) > 1 and max(found) > OPSETS.start}
    declined = {op for domain, op, _ in refused() if not domain}
    assert changed - declined - {row.op for row in ROWS} == ELSEWHERE
