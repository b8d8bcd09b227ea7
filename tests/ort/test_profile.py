"""Times of nodes and operators, in ONNX Runtime's profile and in a file of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import hip_compiler
from hip_compiler.ort import PROVIDER, register
from tests.ort.models import INNER, VERSION, plain, product, session, source, values

OPERATORS = ["matmul (matmul)", "erf (launch)", "softmax (softmax)"]
RUNS = 3


def profiled(tmp_path: Path, **options: str) -> list[dict[str, Any]]:
    """Events of ONNX Runtime's profile of some runs."""
    settings = onnxruntime.SessionOptions()
    settings.enable_profiling = True
    settings.profile_file_prefix = str(tmp_path / "profile")
    settings.add_provider_for_devices(register(), {"num_threads": "1", **options})
    made = onnxruntime.InferenceSession(source(product()), settings, enable_fallback=0)
    for _ in range(RUNS):
        made.run(None, {"x": values(40, INNER)})
    events: list[dict[str, Any]] = json.loads(Path(made.end_profiling()).read_text())
    return events


def inside(inner: dict[str, Any], outer: dict[str, Any], slack: float) -> bool:
    begins = inner["ts"] >= outer["ts"] - slack
    return bool(begins and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"] + slack)


def test_node_times_are_in_onnx_runtimes_profile(tmp_path: Path) -> None:
    nodes = [event for event in profiled(tmp_path) if event["cat"] == "Node"]
    assert [event["args"]["provider"] for event in nodes] == [PROVIDER] * RUNS
    assert all(event["dur"] >= 0 for event in nodes)


@pytest.mark.skipif(VERSION < (1, 25, 0), reason="ONNX Runtime before 1.25 asks providers for no times")
def test_operators_are_in_it_where_they_ran(tmp_path: Path) -> None:
    events = profiled(tmp_path)
    nodes = [event for event in events if event["cat"] == "Node"]
    kernels = [event for event in events if event["cat"] == "Kernel"]
    assert [event["name"] for event in kernels] == OPERATORS * RUNS
    for number, event in enumerate(kernels):
        assert inside(event, nodes[number // len(OPERATORS)], slack=2)
        assert event["args"]["provider"] == PROVIDER


def test_or_not_when_they_are_not_wanted(tmp_path: Path) -> None:
    assert not [event for event in profiled(tmp_path, profile="0") if event["cat"] == "Kernel"]


def test_a_file_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "times.json"
    made = session(product(), {"profile": str(path), "num_threads": "1"})
    assert json.loads(path.read_text()) == []
    expected = plain(product()).run(None, {"x": values(40, INNER)})[0]
    for _ in range(RUNS):
        np.testing.assert_allclose(made.run(None, {"x": values(40, INNER)})[0], expected, rtol=1e-4, atol=1e-6)
    del made
    events = json.loads(path.read_text())
    assert [event["cat"] for event in events] == ["Node", *["Kernel"] * len(OPERATORS)] * RUNS
    for start in range(0, len(events), 1 + len(OPERATORS)):
        node, *inner = events[start : start + 1 + len(OPERATORS)]
        assert [event["name"] for event in inner] == OPERATORS
        assert all(inside(event, node, slack=0.01) and event["args"] == {"node": node["name"]} for event in inner)
        assert sum(event["dur"] for event in inner) > 0
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"HIPC0001: option profile: .*nowhere/times.json cannot be written"):
        session(product(), {"profile": str(tmp_path / "nowhere" / "times.json")})


def test_context_models_have_the_times_of_nodes(tmp_path: Path) -> None:
    onnx.save(product(), tmp_path / "m.onnx")
    context = hip_compiler.ort.compile_context(tmp_path / "m.onnx", tmp_path / "c.onnx")
    path = tmp_path / "times.json"
    made = session(str(context), {"profile": str(path)})
    made.run(None, {"x": values(2, INNER)})
    del made
    assert [event["cat"] for event in json.loads(path.read_text())] == ["Node"]


def test_times_change_no_result() -> None:
    x = values(9, INNER, seed=3)
    with hip_compiler.compile(product()) as usual, hip_compiler.compile(product(), profile=True) as timed:
        assert usual.run({"x": x})["y"].tobytes() == timed.run({"x": x})["y"].tobytes()
