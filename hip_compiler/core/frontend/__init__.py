"""ONNX frontend: a `ModelProto` becomes a module of the `onnx` dialect, and back."""

from __future__ import annotations

from hip_compiler.core.frontend.export import export_model
from hip_compiler.core.frontend.importer import import_model
from hip_compiler.core.frontend.node import node_proto
from hip_compiler.core.frontend.schema import verify_module, verify_onnx

__all__ = ["export_model", "import_model", "node_proto", "verify_module", "verify_onnx"]
