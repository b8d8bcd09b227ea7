"""`simplify-onnx` on IR text, and on whole models with ONNX Runtime as the judge of the numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from filecheck.matcher import Matcher
from filecheck.options import Options

from hip_compiler.core.constants import ConstantPool
from hip_compiler.core.frontend import export_model, import_model, verify_module
from hip_compiler.core.mlir import ir
from hip_compiler.core.options import CompileOptions
from hip_compiler.core.passes.base import PassContext
from hip_compiler.core.passes.simplify_onnx import SimplifyOnnx
from hip_compiler.registry.contributions import TargetContribution


def run_pass(module: Any, pool: ConstantPool) -> dict[str, int]:
    context = PassContext(CompileOptions(), TargetContribution("none", "no target", Path), {}, constants=pool)
    SimplifyOnnx().apply(module.operation, context)
    assert module.operation.verify()
    report: dict[str, int] = context.reports["simplify-onnx"]
    return report


@pytest.fixture
def mlir_context() -> Any:
    context = ir.Context()
    context.enable_multithreading(False)
    context.allow_unregistered_dialects = True
    return context


@pytest.fixture
def check_text(mlir_context: Any, tmp_path: Path) -> Callable[..., None]:
    """Simplify IR text and check it against the CHECK lines beside it.

    The text is the body of a function; its arguments, its result types and the operator set are given.
    """

    def run(body: str, *, arguments: str, results: str, opset: int = 17) -> None:
        lines = body.splitlines()
        source = "\n".join(line for line in lines if "CHECK" not in line)
        head = f'module attributes {{onnx.model = "t", onnx.opset = {{ai.onnx = {opset} : i64}}}}'
        text = f"{head} {{ func.func @main_graph({arguments}) -> ({results}) {{ {source} }} }}"
        module = ir.Module.parse(text, mlir_context)
        run_pass(module, ConstantPool())
        (tmp_path / "input").write_text(str(module))
        (tmp_path / "checks").write_text(body)
        options = Options(match_filename=str(tmp_path / "checks"), input_file=str(tmp_path / "input"))
        assert Matcher.from_opts(options).run() == 0, str(module)

    return run


@pytest.fixture
def simplified(mlir_context: Any) -> Callable[[onnx.ModelProto], dict[str, int]]:
    """Simplify a model; returns the rewrites by name."""

    def run(model: onnx.ModelProto) -> dict[str, int]:
        pool = ConstantPool()
        return run_pass(import_model(model, mlir_context, pool), pool)

    return run


@pytest.fixture
def check_numbers(mlir_context: Any) -> Callable[..., dict[str, int]]:
    """Simplify a model; it must compute what ONNX Runtime makes of the original. Returns the rewrites by name."""

    def run(model: str | onnx.ModelProto, feeds: Mapping[str, np.ndarray], rtol: float = 1e-5) -> dict[str, int]:
        proto = onnx.parser.parse_model(model) if isinstance(model, str) else model
        pool = ConstantPool()
        module = import_model(proto, mlir_context, pool)
        applied = run_pass(module, pool)
        assert verify_module(module) == []
        expected = _run(proto, feeds)
        actual = _run(export_model(module, pool), feeds)
        for a, b in zip(expected, actual, strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape
            if a.dtype.kind == "f":
                scale = float(np.abs(a).max())
                assert np.isfinite(scale) and scale > 0
                np.testing.assert_allclose(b / scale, a / scale, rtol=0, atol=rtol)
            else:
                np.testing.assert_array_equal(b, a)
        return applied

    return run


def _run(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    # The original must be computed as it is written, not as ONNX Runtime would fuse it.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    results: list[np.ndarray] = session.run(None, dict(feeds))
    return results
