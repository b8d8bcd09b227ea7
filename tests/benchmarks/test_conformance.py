"""What the conformance run counts, and what it calls a regression."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import conformance
from benchmarks.cases import Cases
from benchmarks.disputed import DISPUTED
from hip_compiler.errors import Unsupported, UnsupportedError


class Backend:
    """Answers `Abs` as it is told to."""

    def __init__(self, how: str) -> None:
        self.how = how

    def supports_device(self, device: str) -> bool:
        return True

    def prepare(self, model: Any, device: str, **kwargs: Any) -> Any:
        if self.how == "refuses":
            raise UnsupportedError([Unsupported("n", "Abs", "", 13, ("float32",), "no reason")])
        return self

    def run(self, inputs: Any) -> list[Any]:
        match self.how:
            case "refuses late":
                from onnx.backend.test.runner import BackendIsNotSupposedToImplementIt

                raise BackendIsNotSupposedToImplementIt("later")
            case "raises":
                raise ValueError("broken")
            case "wrong value":
                return [np.abs(inputs[0]) + 0.01]
            case "wrong dtype":
                return [np.abs(inputs[0]).astype(np.float64)]
        return [np.abs(inputs[0])]


@pytest.mark.parametrize(
    ("how", "status", "detail"),
    [
        ("right", "passed", ""),
        ("refuses", "unsupported", "no reason"),
        ("refuses late", "unsupported", "later"),
        ("raises", "failed", "broken"),
        ("wrong value", "failed", "tolerance"),
        ("wrong dtype", "failed", "float64"),
    ],
)
def test_a_case_has_the_status_it_deserves(how: str, status: str, detail: str) -> None:
    result = Cases(Backend(how)).run("test_abs")
    assert result["status"] == status
    assert detail in result["detail"]


def test_all_cases_are_there() -> None:
    kinds = Cases(Backend("right")).kinds()
    assert len(kinds) >= 2033
    assert set(kinds.values()) == {"Node", "Simple", "PyTorchOperator", "PyTorchConverted", "Real"}
    fast = conformance.choose(list(kinds), fast=True, only=())
    assert 150 < len(fast) < len(kinds) / 5
    assert conformance.choose(list(kinds), fast=False, only=["softmax"])


RESULTS = {
    "test_a": {"kind": "Node", "status": "passed", "detail": ""},
    "test_b": {"kind": "Node", "status": "unsupported", "detail": "no kernel"},
    "test_c": {"kind": "Simple", "status": "failed", "detail": "off by one"},
    "test_d": {"kind": "Simple", "status": "crashed", "detail": "SIGSEGV"},
}


def test_failures_crashes_and_losses_are_regressions() -> None:
    assert conformance.regressions(RESULTS, {"passed": ["test_a", "test_b", "test_e"]}) == [
        "test_b: passed before, now unsupported: no kernel",
        "test_c: failed: off by one",
        "test_d: crashed: SIGSEGV",
    ]
    assert conformance.regressions({name: RESULTS[name] for name in ("test_a", "test_b")}, {}) == []


def test_recording_touches_only_what_ran(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    path.write_text(json.dumps({"passed": ["test_b", "test_z"], "rest": {"test_a": "failed: old", "test_y": "old"}}))
    conformance.record(path, RESULTS)
    written = json.loads(path.read_text())
    assert written["passed"] == ["test_a", "test_z"]
    assert written["rest"] == {
        "test_b": "unsupported: no kernel", "test_c": "failed: off by one", "test_d": "crashed: SIGSEGV",
        "test_y": "old",
    }  # fmt: skip


def test_every_case_that_does_not_pass_is_written_down_with_its_reason() -> None:
    written = json.loads(conformance.BASELINE.read_text())
    assert len(written["passed"]) >= 1900
    assert not set(written["passed"]) & set(written["rest"])
    reasons = {name: reason.partition(": ")[0::2] for name, reason in written["rest"].items()}
    assert {status for status, _ in reasons.values()} == {"unsupported", "disputed"}
    assert all(reason for _, reason in reasons.values())
    assert {name for name, (status, _) in reasons.items() if status == "disputed"} == set(DISPUTED)


def test_table_counts() -> None:
    last = conformance.table(RESULTS).splitlines()[-1]
    assert last.split() == ["all", "1", "1", "0", "1", "1", "4"]
