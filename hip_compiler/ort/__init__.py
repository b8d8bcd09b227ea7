"""The execution provider for ONNX Runtime. `register()` is the one line that a program needs."""

from hip_compiler.ort.context import compile_context
from hip_compiler.ort.options import OPTIONS, Option
from hip_compiler.ort.provider import PROVIDER, connect, library_path, register

__all__ = ["OPTIONS", "PROVIDER", "Option", "compile_context", "connect", "library_path", "register"]
