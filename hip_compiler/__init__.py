"""hip-compiler: ONNX models through MLIR and LLVM to AMD GPUs, and to machines without one."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hip_compiler.errors import ErrorCode, HipCompilerError, Unsupported, UnsupportedError
from hip_compiler.version import VERSION

if TYPE_CHECKING:
    from hip_compiler.runtime import Session

__version__ = VERSION

__all__ = ["ErrorCode", "HipCompilerError", "Unsupported", "UnsupportedError", "__version__", "compile", "load"]


def compile(
    model: Any,
    target: str = "host",
    *,
    output: str | PathLike[str] | None = None,
    format: str = "bitcode",
    cpu: str = "native",
    num_threads: int = 0,
    device: int = 0,
    graph_capture: bool = False,
    **options: Any,
) -> Session:
    """Compile an ONNX model and load it.

    Args:
        model: path of an ONNX file, its bytes, or an `onnx.ModelProto`.
        target: name of a registered target.
        output: artifact to make; None: none is kept.
        format: ``bitcode``, a folder that any CPU can load; or ``native``, a shared library.
        cpu: CPU of a native artifact: ``native``, the one at hand, or a level such as ``x86-64-v3``.
        num_threads: threads of the session; 0: HIPC_NUM_THREADS, else one per available core.
        device: number of the GPU to load it on, for a target that has devices.
        graph_capture: GPUs: from the second run on, runs that repeat are replayed as one graph.
        options: further fields of `hip_compiler.core.options.CompileOptions`.

    Returns:
        A session. One serves every extent of the model's dynamic dimensions.

    Raises:
        HipCompilerError: what is wrong with the model, the options, or a plugin.
        UnsupportedError: one report of every node that cannot be compiled.
    """
    from hip_compiler.core.driver import FORMATS, compile_model, compile_native
    from hip_compiler.core.options import CompileOptions
    from hip_compiler.runtime import Session

    known = CompileOptions.__dataclass_fields__
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise HipCompilerError(
            ErrorCode.USAGE, f"unknown option '{unknown[0]}'", hint=f"options: {', '.join(sorted(known))}"
        )
    if format not in FORMATS:
        raise HipCompilerError(ErrorCode.USAGE, f"there is no format '{format}'", hint=f"formats: {', '.join(FORMATS)}")
    if cpu != "native" and format != "native":
        raise HipCompilerError(ErrorCode.USAGE, f"cpu='{cpu}' is for native artifacts", hint="add format='native'")
    path = None if output is None else Path(output)
    settings = CompileOptions(target=target, **options)
    if format == "native":
        native = compile_native(model, settings, output=path, cpu=cpu)[0]
        return Session(native, num_threads, device=device, graph_capture=graph_capture)
    artifact = compile_model(model, settings, output=path).artifact
    return Session(artifact, num_threads, device=device, graph_capture=graph_capture)


def load(path: str | PathLike[str], *, num_threads: int = 0, device: int = 0, graph_capture: bool = False) -> Session:
    """Load an artifact, folder or native; needs neither the compiler nor the MLIR bindings.

    Raises:
        HipCompilerError: `HIPC0600`, `HIPC0601`: the artifact is damaged, or of another version.
    """
    from hip_compiler.runtime import Session

    return Session(path, num_threads, device=device, graph_capture=graph_capture)
