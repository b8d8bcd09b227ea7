"""hip-compiler: ONNX models through MLIR and LLVM to AMD GPUs, and to machines without one."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hip_compiler.errors import ErrorCode, HipCompilerError, Unsupported, UnsupportedError

if TYPE_CHECKING:
    from hip_compiler.runtime import Session

__version__ = "0.1.0"

__all__ = ["ErrorCode", "HipCompilerError", "Unsupported", "UnsupportedError", "__version__", "compile", "load"]


def compile(
    model: Any,
    target: str = "host",
    *,
    output: str | PathLike[str] | None = None,
    num_threads: int = 0,
    **options: Any,
) -> Session:
    """Compile an ONNX model and load it.

    Args:
        model: path of an ONNX file, its bytes, or an `onnx.ModelProto`.
        target: name of a registered target.
        output: artifact folder to make; None: none is kept.
        num_threads: threads of the session; 0: HIPC_NUM_THREADS, else one per available core.
        options: further fields of `hip_compiler.core.options.CompileOptions`.

    Returns:
        A session. One serves every extent of the model's dynamic dimensions.

    Raises:
        HipCompilerError: what is wrong with the model, the options, or a plugin.
        UnsupportedError: one report of every node that cannot be compiled.
    """
    from hip_compiler.core.driver import compile_model
    from hip_compiler.core.options import CompileOptions
    from hip_compiler.runtime import Session

    known = CompileOptions.__dataclass_fields__
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise HipCompilerError(
            ErrorCode.USAGE, f"unknown option '{unknown[0]}'", hint=f"options: {', '.join(sorted(known))}"
        )
    folder = None if output is None else Path(output)
    compiled = compile_model(model, CompileOptions(target=target, **options), output=folder)
    return Session(compiled.artifact, num_threads)


def load(path: str | PathLike[str], *, num_threads: int = 0) -> Session:
    """Load an artifact folder; needs neither the compiler nor the MLIR bindings.

    Raises:
        HipCompilerError: `HIPC0600`, `HIPC0601`: the folder is damaged, or of another version.
    """
    from hip_compiler.runtime import Session

    return Session(path, num_threads)
