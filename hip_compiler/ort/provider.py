"""The provider's library: where it is, and how ONNX Runtime gets to know it."""

from __future__ import annotations

import atexit
import ctypes
from functools import cache
from pathlib import Path
from typing import Any

from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.ort.bridge import COMPILER, VERSION, Compiler
from hip_compiler.runtime import native

PROVIDER = "HipExecutionProvider"
LIBRARY = "libhip_ep.so"


def register(gpu: int | None = None) -> list[Any]:
    """Make the provider known to `onnxruntime`; more calls than one do no harm.

    Args:
        gpu: number of the GPU that sessions shall have their tensors on; None: they have them in memory of the host.

    Returns:
        The device, for `SessionOptions.add_provider_for_devices(devices, options)`. From ONNX Runtime 1.25.1 on
        `providers=["HipExecutionProvider"]` will do.

    Raises:
        HipCompilerError: `HIPC0503`, when the library has not been built, or ONNX Runtime is too old or not installed;
            `HIPC0701`, when there is no such GPU.
    """
    try:
        import onnxruntime
    except ImportError as error:
        raise HipCompilerError(
            ErrorCode.NOT_BUILT, "ONNX Runtime is not installed", why=str(error), hint="pip install onnxruntime"
        ) from error
    path = connect()
    if not hasattr(onnxruntime, "register_execution_provider_library"):
        raise HipCompilerError(
            ErrorCode.NOT_BUILT,
            f"ONNX Runtime {onnxruntime.__version__} takes no providers from libraries",
            hint="install onnxruntime 1.23.1 or later",
        )

    if not _devices(onnxruntime):
        onnxruntime.register_execution_provider_library(PROVIDER, str(path))
    found = {device.ep_metadata.get("device_id"): device for device in _devices(onnxruntime)}
    chosen = found.get(None if gpu is None else str(gpu))
    if chosen is None:
        numbers = ", ".join(sorted(number for number in found if number is not None))
        raise HipCompilerError(
            ErrorCode.RUN_FAILED,
            f"ONNX Runtime was shown no GPU {gpu}",
            why=f"HIP has {numbers}" if numbers else "HIP, or a GPU, was not found when the provider was registered",
            hint="hip-compiler doctor lists what there is",
        )
    return [chosen]


def _devices(onnxruntime: Any) -> list[Any]:
    return [device for device in onnxruntime.get_ep_devices() if device.ep_name == PROVIDER]


def library_path() -> Path:
    """The provider's library, for programs that register it by themselves.

    Raises:
        HipCompilerError: `HIPC0503`, when it has not been built.
    """
    path = native.FOLDER / LIBRARY
    if not path.is_file():
        raise HipCompilerError(
            ErrorCode.NOT_BUILT,
            "the execution provider has not been built",
            where=str(path),
            hint="in a source tree run: python kernels/build.py; else reinstall the package",
        )
    return path


@cache
def connect() -> Path:
    """Let the provider of this process compile, whoever registers its library; `register` does it too.

    Returns:
        The path of the library.

    Raises:
        HipCompilerError: `HIPC0503`, `HIPC0601`, when the library is missing or of another version.
    """
    path = library_path()
    library = ctypes.CDLL(str(path))
    set_compiler = library.hip_ep_set_compiler
    set_compiler.argtypes = [ctypes.POINTER(Compiler)]
    set_compiler.restype = ctypes.c_uint32
    understood = set_compiler(ctypes.byref(COMPILER))
    if understood:
        raise HipCompilerError(
            ErrorCode.ABI_MISMATCH,
            f"the execution provider has interface version {understood}, this package has {VERSION}",
            where=str(path),
            hint="rebuild it: python kernels/build.py",
        )
    # Sessions may outlive the interpreter; they must not call it then.
    atexit.register(set_compiler, None)
    return path
