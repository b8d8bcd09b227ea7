"""Run passes on text, compare with CHECK lines, and run what comes out."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import DumpInputKind, Options
from filecheck.parser import Parser, pattern_for_opts

from hip_compiler.core.codegen import translate
from hip_compiler.core.constants import ConstantPool
from hip_compiler.core.dialects.load import make_context
from hip_compiler.core.mlir import ir
from hip_compiler.core.options import CompileOptions
from hip_compiler.core.passes.base import PassContext
from hip_compiler.core.pipeline import plan_text, run_plan
from hip_compiler.registry.registry import load_registry
from hip_compiler.runtime import Metadata, Session, publish
from hip_compiler.runtime.metadata import tensors

MEMORY = "canonicalize,cse,hip-use-output-allocator,cse,hip-pool-allocs"
TO_LLVM = f"{MEMORY},hip-to-llvm-pipeline"


@dataclass
class Lowered:
    """A module after some passes."""

    module: Any
    text: str
    reports: dict[str, Any] = field(default_factory=dict)


def run_passes(text: str, pipeline: str, constants: Sequence[np.ndarray] = ()) -> Lowered:
    """Run pipeline text on a module; it verifies after every pass."""
    return _run(text, pipeline, constants)[0]


def _run(text: str, pipeline: str, constants: Sequence[np.ndarray]) -> tuple[Lowered, ConstantPool]:
    registry = load_registry(())
    context = make_context(registry)
    pool = ConstantPool()
    for number, array in enumerate(constants):
        pool.place(pool.add(str(number), array))
    options = CompileOptions()
    with context, ir.Location.unknown():
        module = ir.Module.parse(text)
        passes = PassContext(options, registry.targets["host"], dict(registry.ops), constants=pool)
        run_plan(plan_text(registry, options, context, pipeline), module, passes, registry)
        return Lowered(module, str(module), passes.reports), pool


def filecheck(text: str, checks: str) -> None:
    """Match CHECK lines against a text."""
    options = Options(match_filename="checks", dump_input=DumpInputKind.FAIL)
    parser = Parser(options, io.StringIO(checks), *pattern_for_opts(options))
    output = io.StringIO()
    matcher = Matcher(options, FInput("text", text), parser)
    matcher.stderr = output
    assert matcher.run() == 0, f"{output.getvalue()}\n{text}"


def interface(inputs: dict[str, tuple[str, Sequence[Any]]], outputs: dict[str, tuple[str, Sequence[Any]]]) -> str:
    """`module attributes {...}` for a graph; element types by NumPy name."""
    numbers = {"f4": 1, "u1": 2, "i1": 3, "i4": 6, "i8": 7, "?": 9, "f2": 10, "f8": 11}

    def rows(specs: dict[str, tuple[str, Sequence[Any]]]) -> list[dict[str, Any]]:
        return [{"name": n, "dtype": numbers[kind], "shape": list(shape)} for n, (kind, shape) in specs.items()]

    text = json.dumps({"inputs": rows(inputs), "outputs": rows(outputs)}).replace('"', '\\"')
    return f'module attributes {{hip.interface = "{text}"}}'


def compile_module(text: str, constants: Sequence[np.ndarray] = ()) -> Session:
    """A session for the text of a bufferized module."""
    lowered, pool = _run(text, TO_LLVM, constants)
    with lowered.module.context, ir.Location.unknown():
        document = json.loads(lowered.module.operation.attributes["hip.interface"].value)
        bitcode = translate(lowered.module)
    metadata = Metadata("test", "host", tensors(document["inputs"]), tensors(document["outputs"]))
    artifact = publish(metadata, bitcode, write_constants=pool.write if pool.size else None)
    return Session(artifact, num_threads=2)


@pytest.fixture
def compile_text() -> Iterator[Callable[..., Session]]:
    """`compile_module`, its sessions closed after the test."""
    with ExitStack() as stack:
        yield lambda text, constants=(): stack.enter_context(compile_module(text, constants))


@pytest.fixture
def run_text(compile_text: Callable[..., Session]) -> Callable[..., dict[str, np.ndarray]]:
    """Compile the text of a bufferized module and run it once: feeds by name to outputs by name."""
    return lambda text, feeds, constants=(): dict(compile_text(text, constants).run(feeds))


@pytest.fixture
def passes() -> Callable[..., Lowered]:
    """`run_passes`."""
    return run_passes


@pytest.fixture
def check() -> Callable[[str, str], None]:
    """`filecheck`."""
    return filecheck


@pytest.fixture
def graph_interface() -> Callable[..., str]:
    """`interface`."""
    return interface
