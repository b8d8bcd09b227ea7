"""Models in ONNX's text form, imported into a fresh context."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import onnx.parser
import pytest
from filecheck.matcher import Matcher
from filecheck.options import Options

from hip_compiler.core.constants import ConstantPool
from hip_compiler.core.frontend import import_model
from hip_compiler.core.mlir import ir


@pytest.fixture
def context() -> Any:
    context = ir.Context()
    context.enable_multithreading(False)
    return context


@pytest.fixture
def pool() -> ConstantPool:
    return ConstantPool()


@pytest.fixture
def imported(context: Any, pool: ConstantPool) -> Callable[..., str]:
    """Import a model (ONNX text or message), verify the module and return its text."""

    def run(model: str | onnx.ModelProto, **options: Any) -> str:
        proto = onnx.parser.parse_model(model) if isinstance(model, str) else model
        module = import_model(proto, context, pool, **options)
        assert module.operation.verify()
        return str(module)

    return run


@pytest.fixture
def filecheck(tmp_path: Path) -> Callable[[str, str], None]:
    """Check a text against CHECK lines."""

    def run(text: str, checks: str) -> None:
        (tmp_path / "input").write_text(text)
        (tmp_path / "checks").write_text(checks)
        options = Options(match_filename=str(tmp_path / "checks"), input_file=str(tmp_path / "input"))
        assert Matcher.from_opts(options).run() == 0

    return run
