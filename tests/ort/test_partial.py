"""Graphs of which the compiler takes a part: groups, the line that says what stays, strict sessions, control flow."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from hip_compiler.core.conversion import ops as _converters  # noqa: F401  (fills the converter table)
from hip_compiler.core.conversion.onnx_op import CONVERTERS
from hip_compiler.core.frontend.load import LoadedModel
from hip_compiler.core.options import CompileOptions
from hip_compiler.ort import PROVIDER, register
from hip_compiler.ort.claim import LEFT, Claim, claim, divide
from hip_compiler.ort.graph import reads
from hip_compiler.registry.registry import load_registry
from tests.ort.models import (
    BY_NAME,
    COLUMNS,
    INNER,
    check,
    islands,
    make,
    needs_outer_values,
    node,
    plain,
    product,
    session,
    source,
    values,
)


@pytest.fixture
def without_erf(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler that does not know Erf."""
    monkeypatch.delitem(CONVERTERS, ("", "Erf"))


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[set[int]], list[bool]]:
    count = draw(st.integers(0, 14))
    feeds = [draw(st.sets(st.integers(0, number - 1), max_size=3)) if number else set() for number in range(count)]
    return feeds, draw(st.lists(st.booleans(), min_size=count, max_size=count))


@settings(deadline=None)
@given(graphs())
def test_groups_can_each_become_one_node(graph: tuple[list[set[int]], list[bool]]) -> None:
    feeds, taken = graph
    groups = divide(feeds, taken)
    assert [group != LEFT for group in groups] == taken
    # Merge each group to one node: what is left must have no cycle.
    unit = [f"group {group}" if group != LEFT else f"node {number}" for number, group in enumerate(groups)]
    after: dict[str, set[str]] = {name: set() for name in unit}
    for number, sources in enumerate(feeds):
        after[unit[number]] |= {unit[i] for i in sources} - {unit[number]}
    while after:
        free = [name for name, sources in after.items() if not sources & after.keys()]
        assert free, "the groups depend on each other in a circle"
        for name in free:
            del after[name]


@settings(deadline=None)
@given(graphs())
def test_neighbours_that_are_taken_share_a_group_where_they_can(graph: tuple[list[set[int]], list[bool]]) -> None:
    feeds, _ = graph
    assert set(divide(feeds, [True] * len(feeds))) <= {0}


def test_a_subgraph_reads_from_around_it() -> None:
    inner = helper.make_graph(
        [node("Add", "outer own", "t"), node("Mul", "t other", "z")],
        "branch",
        [],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(values(1), "own")],
    )
    assert reads(helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)) == {"c", "outer", "other"}


def claimed(model: onnx.ModelProto, **options: Any) -> Claim:
    loaded = LoadedModel(onnx.shape_inference.infer_shapes(model), (), "a test")
    return claim(loaded, CompileOptions(**options), load_registry(()))


def test_everything_is_one_group() -> None:
    assert claimed(product()) == Claim((0, 0, 0), ())


def test_what_stays_is_told_with_its_reason(without_erf: None) -> None:
    found = claimed(islands())
    assert found.groups == (0, LEFT, 1, LEFT, 2, 2)
    assert [line.partition(":")[0] for line in found.left] == [
        "Erf (erf/one)",
        "Erf (unnamed)",
    ]
    assert all("no conversion for this operator" in line for line in found.left)


def test_nodes_of_another_provider_are_no_part_of_a_group() -> None:
    """Nor are they on the CPU; the groups go around them."""
    loaded = LoadedModel(onnx.shape_inference.infer_shapes(product()), (), "a test")
    found = claim(loaded, CompileOptions(), load_registry(()), taken=frozenset({1}))
    assert found == Claim((0, LEFT, 1), ())


def test_a_long_list_is_cut_short() -> None:
    found = Claim((), tuple(f"Op (node{number}): reason" for number in range(20)))
    assert found.sentence.endswith("Op (node11): reason; and 8 more")


@pytest.mark.parametrize("dtype", [TensorProto.STRING, TensorProto.INT4], ids=["string", "int4"])
def test_types_that_cannot_cross_stay(dtype: int) -> None:
    model = make([node("Identity", "x", "a"), node("Identity", "a", "y")], {"x": (dtype, [2])}, {"y": (dtype, [2])})
    found = claimed(model)
    assert set(found.groups) == {LEFT}
    assert "'x'" in found.left[0]


LINE = (
    "assigned 4/6 nodes; on CPU: Erf (erf/one): no conversion for this operator; "
    "Erf (unnamed): no conversion for this operator"
)


def test_a_partial_session_runs_and_says_so(without_erf: None, capfd: pytest.CaptureFixture[str]) -> None:
    model = islands()
    made = session(model)
    printed = capfd.readouterr().err
    lines = [line for line in printed.splitlines() if "assigned" in line and PROVIDER in line]
    assert len(lines) == 1, printed
    assert LINE in lines[0]
    for rows in (1, 6):
        check(made, model, {"x": values(rows, INNER, seed=rows)})


def test_a_whole_session_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    session(product(), {"strict": "1"})
    assert "assigned" not in capfd.readouterr().err


@pytest.mark.parametrize("by_name", [pytest.param(False, id="devices"), BY_NAME])
def test_strict_is_an_error(without_erf: None, by_name: bool) -> None:
    with pytest.raises(Exception) as caught:
        if by_name:
            register()
            providers = [(PROVIDER, {"strict": "1"}), "CPUExecutionProvider"]
            onnxruntime.InferenceSession(source(islands()), providers=providers, enable_fallback=0)
        else:
            session(islands(), {"strict": "1"})
    assert f"HIPC0200: strict=1, but {LINE}" in str(caught.value)


def test_strict_with_nothing_to_take_is_an_error(without_erf: None) -> None:
    model = make([node("Erf", "x", "y")], {"x": [2, 3]}, {"y": [2, 3]})
    with pytest.raises(Exception, match="assigned 0/1 nodes"):
        session(model, {"strict": "1"})


def test_one_node_in_the_middle_stays(without_erf: None, capfd: pytest.CaptureFixture[str]) -> None:
    model = product()
    check(session(model), model, {"x": values(4, INNER)})
    assert "assigned 2/3 nodes; on CPU: Erf (erf): no conversion" in capfd.readouterr().err


def branches(op: str, shared: bool = True) -> onnx.ModelProto:
    """y = x w, then one of two branches that read values from around them; `op` is in one of them.

    Args:
        shared: one of the values is a constant.
    """
    shape = [COLUMNS]

    def branch(name: str, op: str) -> onnx.GraphProto:
        nodes = [
            node(op, "a", f"{name}_t", f"{name}_op"),
            node("Add", f"{name}_t {'c' if shared else 'a'}", f"{name}_y"),
        ]
        output = helper.make_tensor_value_info(f"{name}_y", TensorProto.FLOAT, ["n", *shape])
        return helper.make_graph(nodes, name, [], [output])

    nodes = [
        node("MatMul", "x w", "a"),
        node("If", "flag", "b", "choice", then_branch=branch("then", op), else_branch=branch("else", "Neg")),
        node("Mul", "b c", "y"),
    ]
    inputs: dict[str, Any] = {"x": ["n", INNER], "flag": (TensorProto.BOOL, [])}
    return make(nodes, inputs, {"y": ["n", COLUMNS]}, w=values(INNER, COLUMNS), c=values(1, COLUMNS))


@needs_outer_values
def test_control_flow_is_taken_whole() -> None:
    model = branches("Exp")
    made = session(model, {"strict": "1"})
    for flag in (True, False):
        check(made, model, {"x": values(3, INNER), "flag": np.array(flag)})


@needs_outer_values
def test_or_left_whole(without_erf: None, capfd: pytest.CaptureFixture[str]) -> None:
    model = branches("Erf")
    made = session(model)
    printed = capfd.readouterr().err
    assert "assigned 2/3 nodes; on CPU: If (choice): Erf: no conversion" in printed
    for flag in (True, False):
        check(made, model, {"x": values(3, INNER), "flag": np.array(flag)})


def test_attributes_that_are_not_handed_over_keep_a_node_out(capfd: pytest.CaptureFixture[str]) -> None:
    """The type of an empty optional value, of which ONNX Runtime's interface for providers knows nothing."""
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, ["n", INNER])
    empty = helper.make_node("Optional", [], ["o"], name="empty", type=tensor)
    model = make([empty, node("OptionalHasElement", "o", "has"), node("Exp", "x", "y")], {"x": ["n", INNER]}, {})
    model.graph.output.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", INNER]))
    model.graph.output.append(helper.make_tensor_value_info("has", TensorProto.BOOL, []))
    made = session(model)
    printed = capfd.readouterr().err
    assert "Optional (empty): " in printed
    outputs = made.run(None, {"x": values(2, INNER)})
    np.testing.assert_allclose(outputs[0], np.exp(values(2, INNER)), rtol=1e-5)
    assert not outputs[1]


def test_lists_of_text_are_handed_over(capfd: pytest.CaptureFixture[str]) -> None:
    encoder = helper.make_node(
        "LabelEncoder", ["x"], ["y"], name="labels", domain="ai.onnx.ml", keys_int64s=[1, 2], values_strings=["a", "bc"]
    )
    model = make([encoder], {"x": (TensorProto.INT64, [3])}, {"y": (TensorProto.STRING, [3])})
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 2))
    made = session(model)
    assert "ai.onnx.ml::LabelEncoder (labels): " in capfd.readouterr().err
    assert made.run(None, {"x": np.array([2, 1, 2])})[0].tolist() == ["bc", "a", "bc"]


def test_an_initialiser_that_a_feed_may_replace() -> None:
    model = product()
    model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [INNER, COLUMNS]))
    made = session(model)
    check(made, model, {"x": values(2, INNER)})
    check(made, model, {"x": values(2, INNER), "w": values(INNER, COLUMNS, seed=5)})


def test_external_data(tmp_path: Any) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(product(), path, save_as_external_data=True, location="weights", size_threshold=0)
    check(session(str(path), {"strict": "1"}), str(path), {"x": values(2, INNER)})


def test_without_a_compiler_the_line_says_what_to_do() -> None:
    """A process that registers the library alone, as a program in another language does."""
    code = """
import sys
import numpy as np, onnxruntime
onnxruntime.register_execution_provider_library("hip", sys.argv[1])
devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == "HipExecutionProvider"]
def make(**options):
    settings = onnxruntime.SessionOptions()
    settings.add_provider_for_devices(devices, options)
    return onnxruntime.InferenceSession(sys.stdin.buffer.read() if not options else model, settings)
model = sys.stdin.buffer.read()
settings = onnxruntime.SessionOptions()
settings.add_provider_for_devices(devices, {})
onnxruntime.InferenceSession(model, settings).run(None, {"x": np.ones((1, 64), np.float32)})
try:
    make(strict="1")
except Exception as error:
    print(error)
assert "hip_compiler" not in sys.modules
"""
    from hip_compiler.ort import library_path

    done = subprocess.run(
        [sys.executable, "-c", code, str(library_path())], input=source(product()), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    assert (
        b"assigned 0/3 nodes: this process has no compiler: in Python call hip_compiler.ort.register()" in done.stderr
    )
    assert b"HIPC0200: strict=1, but no node is assigned: this process has no compiler" in done.stdout


def test_plain_sessions_are_what_they_were() -> None:
    register()
    assert plain(product()).get_providers() == ["CPUExecutionProvider"]


def test_the_claim_knows_what_the_target_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operation that the conversion makes and the target's runtime does not have."""
    monkeypatch.setattr(
        "hip_compiler.core.prepare.callable_symbols", lambda registry, target: frozenset({"hipc_matmul"})
    )
    found = claimed(product())
    assert found.groups == (0, 0, LEFT)
    assert found.left == ("Softmax (softmax): hip.softmax: target 'host' does not implement hip.softmax yet",)
