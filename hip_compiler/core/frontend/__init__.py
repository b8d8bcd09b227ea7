"""ONNX frontend: a `ModelProto` becomes a module of the `onnx` dialect, and back."""

from __future__ import annotations

from hip_compiler.core.frontend.importer import import_model

__all__ = ["import_model"]
