"""`compile`: an ONNX model becomes an artifact."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata as distributions
from pathlib import Path
from typing import Any

from hip_compiler.core.cache import cache_entry, find_cached, watches
from hip_compiler.core.codegen import translate
from hip_compiler.core.codegen.device import take_device_code
from hip_compiler.core.contributed import claimants, find_target, plugin_bitcode, target_linker, target_runtime
from hip_compiler.core.device import choose_architectures, device_files, used_symbols
from hip_compiler.core.frontend.load import ModelSource
from hip_compiler.core.mlir import ir
from hip_compiler.core.options import CompileOptions
from hip_compiler.core.passes.base import PassContext
from hip_compiler.core.pipeline import PassTime, check_entry_point, plan_compile, run_plan
from hip_compiler.core.prepare import prepare
from hip_compiler.errors import UnsupportedError
from hip_compiler.registry.libraries import find_library
from hip_compiler.registry.registry import Registry, load_registry
from hip_compiler.runtime import Artifact, Metadata, NativeArtifact, link_native, publish
from hip_compiler.runtime.cpu import NATIVE, named
from hip_compiler.runtime.loader import machine_code
from hip_compiler.runtime.metadata import compounds, pairs, strings, tensors

INTERFACE = "hip.interface"
FORMATS = ("bitcode", "native")
"""What a compilation makes: a folder with bitcode, or a shared library."""
_TOOLCHAIN = ("hip-compiler", "torch-mlir", "llvmlite", "onnx", "numpy")


@dataclass
class CompileReport:
    """What a compilation took and found.

    Attributes:
        phases: seconds of import, pipeline, translation and machine code.
        passes: seconds per pass.
        arena: bytes of the planned arena, and the least any plan could have.
        cached: the artifact was in the compile cache, and nothing else was done.
    """

    phases: dict[str, float] = field(default_factory=dict)
    passes: list[PassTime] = field(default_factory=list)
    arena: dict[str, Any] = field(default_factory=dict)
    cached: bool = False


@dataclass(frozen=True)
class Compiled:
    """An artifact and the report of its making."""

    artifact: Artifact
    report: CompileReport


def compile_model(
    model: ModelSource,
    options: CompileOptions,
    *,
    output: Path | None = None,
    progress: Callable[[str], None] = lambda phase: None,
) -> Compiled:
    """Compile an ONNX model.

    Args:
        model: path, serialised bytes, the message itself, or a model that is loaded already.
        output: artifact folder to make; None: a temporary one that lives as long as the artifact.
        progress: called with the name of every phase as it begins.

    Raises:
        HipCompilerError: what is wrong with the model, the options, a plugin, or the pipeline.
        UnsupportedError: one report of every node that cannot be compiled.
    """
    registry = load_registry(options.plugins)
    if not options.cache:
        return _compile(model, options, registry, output, progress)
    entry = cache_entry(model, options, registry)
    found = None if watches(options) else find_cached(entry)
    if found is not None:
        return Compiled(found if output is None else found.save(output), CompileReport(cached=True))
    compiled = _compile(model, options, registry, output, progress)
    # A file may have changed while it was read: what was compiled is then no matter of this entry.
    if cache_entry(model, options, registry) == entry:
        compiled.artifact.save(entry)
    return compiled


def compile_native(
    model: ModelSource,
    options: CompileOptions,
    *,
    output: Path | None = None,
    cpu: str = NATIVE,
    progress: Callable[[str], None] = lambda phase: None,
) -> tuple[NativeArtifact, CompileReport]:
    """Compile an ONNX model to a native artifact; arguments and errors as `compile_model` and `link_native`."""
    named(cpu)  # before the work, as it may be misspelt
    registry = load_registry(options.plugins)
    linker = target_linker(registry, find_target(options.target, registry))
    compiled = compile_model(model, options, progress=progress)
    with _Phases(compiled.report.phases, progress)("link"):
        return link_native(compiled.artifact, output, cpu, linker), compiled.report


def _compile(
    model: ModelSource,
    options: CompileOptions,
    registry: Registry,
    output: Path | None,
    progress: Callable[[str], None],
) -> Compiled:
    report = CompileReport()
    target = find_target(options.target, registry)
    architectures = choose_architectures(target, options.arch)
    clock = _Phases(report.phases, progress)
    with clock("import"):
        prepared = prepare(model, options, target, registry)
    context, module, passes = prepared.context, prepared.module, prepared.passes
    with clock("passes"):
        plan = plan_compile(registry, options, context)
        try:
            report.passes = run_plan(plan, module, passes, registry).times
        except UnsupportedError as error:
            error.hint = "; ".join([*claimants(error, registry), error.hint])
            raise
        check_entry_point(plan, module)
    report.arena = dict(passes.reports.get("arena", {}))
    with clock("translate"), context, ir.Location.unknown():
        kernels = "" if target.device is None else take_device_code(module, target.device.triple)
        used = used_symbols(module, passes)
        bitcode = translate(module)
    with clock("device code"):
        level: Any = passes.options.opt_level
        device = device_files(kernels, registry, target, architectures, level, used)
    with clock("machine code"):
        artifact = publish(
            _metadata(module, passes, registry, architectures),
            bitcode,
            folder=output,
            plugins=plugin_bitcode(registry, target),
            runtime=target_runtime(registry, target),
            write_constants=passes.constants.write if passes.constants.size else None,
            device=device,
        )
        machine_code(artifact)
    return Compiled(artifact, report)


class _Phases:
    def __init__(self, seconds: dict[str, float], progress: Callable[[str], None]) -> None:
        self.seconds = seconds
        self.progress = progress

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        self.progress(name)
        start = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - start


def _metadata(module: Any, passes: PassContext, registry: Registry, architectures: tuple[str, ...]) -> Metadata:
    attributes = module.operation.attributes
    interface = json.loads(attributes[INTERFACE].value) if INTERFACE in attributes else {"inputs": [], "outputs": []}
    return Metadata(
        name=attributes["onnx.model"].value if "onnx.model" in attributes else "model",
        target=passes.target.name,
        inputs=tensors(interface["inputs"]),
        outputs=tensors(interface["outputs"]),
        shared=pairs(interface.get("shared", [])),
        compounds=compounds(interface.get("compounds", [])),
        strings=strings(interface),
        opt_level=passes.options.opt_level,  # type: ignore[arg-type]
        libraries=tuple(str(find_library(library)) for library in registry.libraries(passes.target.name)),
        arena=passes.reports.get("arena", {}),
        toolchain=dict(_versions()),
        plugins_used={
            record.id: f"{record.distribution} {record.version}"
            for record in registry.plugins
            if record.state == "active" and not record.builtin
        },
        ops=dict(passes.reports.get("ops", {})),
        architectures=architectures,
    )


@cache
def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for name in _TOOLCHAIN:
        try:
            versions[name] = distributions.version(name)
        except distributions.PackageNotFoundError:
            versions[name] = "not installed"
    return versions
