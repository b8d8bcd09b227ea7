"""``hip-compiler doctor``: whether this machine has what is needed, and what is missing."""

from __future__ import annotations

import argparse
import platform
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version

from hip_compiler import knobs
from hip_compiler.cli.output import add_json, print_json, table
from hip_compiler.errors import HipCompilerError

HELP = "Check the installation: versions, MLIR bindings, native files, plugins, environment."
PACKAGES = ("torch-mlir", "llvmlite", "onnx", "numpy", "ml-dtypes", "pluggy", "hip-python", "onnxruntime")
NEEDED = ("torch-mlir", "llvmlite", "onnx", "numpy", "ml-dtypes", "pluggy")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_json(parser)


def execute(arguments: argparse.Namespace) -> int:
    findings = [*_packages(), *_parts(), *_plugins(), *_environment()]
    healthy = all(state != "bad" for _, state, _ in findings)
    if arguments.json:
        print_json(
            {
                "healthy": healthy,
                "checks": [{"check": check, "state": state, "detail": text} for check, state, text in findings],
            }
        )
    else:
        print(table(("check", "state", "detail"), findings))
        print(
            "\nEverything needed is here." if healthy else "\nSomething needed is missing: see the lines marked 'bad'."
        )
    return 0 if healthy else 1


Finding = tuple[str, str, str]


def _packages() -> Iterator[Finding]:
    yield "python", "ok", f"{platform.python_version()} on {platform.platform()}"
    for name in PACKAGES:
        try:
            yield name, "ok", version(name)
        except PackageNotFoundError:
            yield name, "bad" if name in NEEDED else "absent", "not installed"


def _parts() -> Iterator[Finding]:
    yield _try("MLIR bindings", _bindings)
    yield _try("LLVM", _llvm)
    yield _try("native files", _native)
    yield _try("execution provider", _provider)
    # Only native artifacts and context models are made with it.
    yield _try("linker", _linker, "absent")
    yield _try("GPUs", _gpus, "absent")


def _try(check: str, action: Callable[[], str], otherwise: str = "bad") -> Finding:
    try:
        return check, "ok", action()
    except HipCompilerError as error:
        return check, otherwise, f"{error.what}; {error.hint}" if error.hint else error.what
    except Exception as error:  # noqa: BLE001  whatever is broken is a finding
        return check, "bad", f"{type(error).__name__}: {error}"


def _bindings() -> str:
    from hip_compiler.core import mlir

    with mlir.ir.Context():
        return f"{mlir.PACKAGE}"


def _llvm() -> str:
    import llvmlite.binding as llvm

    return f"{'.'.join(map(str, llvm.llvm_version_info))}, {llvm.get_process_triple()}, {llvm.get_host_cpu_name()}"


def _native() -> str:
    from hip_compiler.runtime import native

    found = native.find()
    return f"{found.bitcode} ({found.level})"


def _gpus() -> str:
    """What HIP finds. A machine without a GPU lacks nothing that compiling needs."""
    from hip_compiler.runtime import device

    try:
        found = device.devices()
    except HipCompilerError as error:
        reason = f": {error.why.splitlines()[0]}" if error.why else ""
        raise HipCompilerError(error.code, f"{error.what}{reason}") from error
    names = ", ".join(f"{gpu.number}: {gpu.architecture} {gpu.name} ({gpu.memory >> 30} GiB)" for gpu in found)
    return names or "HIP finds none"


def _provider() -> str:
    from hip_compiler.ort import library_path

    return str(library_path())


def _linker() -> str:
    from hip_compiler.toolchain.lld import find_linker

    return " ".join(find_linker())


def _plugins() -> Iterator[Finding]:
    try:
        from hip_compiler.registry.registry import survey

        registry = survey()
    except HipCompilerError as error:
        yield "plugins", "bad", error.what
        return
    except Exception as error:  # noqa: BLE001  whatever is broken is a finding
        yield "plugins", "bad", f"{type(error).__name__}: {error}"
        return
    for record in registry.plugins:
        if not record.builtin:
            state = "bad" if record.state == "refused" else "ok"
            detail = record.reason or record.state
            yield f"plugin {record.id}", state, f"{record.distribution} {record.version}: {detail}"
    for problem in registry.problems:
        yield "plugins", "bad", problem.what


def _environment() -> Iterator[Finding]:
    for knob in knobs.KNOBS:
        if knob.is_set():
            yield _try(knob.name, lambda knob=knob: repr(knob.read()))  # type: ignore[misc]
