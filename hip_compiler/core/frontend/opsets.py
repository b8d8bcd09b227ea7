"""Operator set versions: what the model imports, and whether the compiler knows it."""

from __future__ import annotations

from typing import Any

import onnx

from hip_compiler.errors import ErrorCode, HipCompilerError, Unsupported

OLDEST = 1
FIRST = 7
"""The first version with today's broadcasting, which passes before the conversion know."""
NEWEST = onnx.defs.onnx_opset_version()
DEFAULT_DOMAIN = "ai.onnx"


def imported_opsets(model: onnx.ModelProto, source: str) -> dict[str, int]:
    """Versions by domain; the default domain is spelt "".

    Raises:
        HipCompilerError: `HIPC0102` when the default domain is needed and not imported, or imported twice.
    """
    opsets: dict[str, int] = {}
    for entry in model.opset_import:
        domain = "" if entry.domain == DEFAULT_DOMAIN else entry.domain
        if opsets.setdefault(domain, entry.version) != entry.version:
            raise HipCompilerError(
                ErrorCode.MODEL_INVALID, f"the model imports two versions of domain '{domain}'", where=source
            )
    if not opsets and model.ir_version < 3:
        # Models of IR version 1 and 2 have no imports; they mean the first operator set.
        opsets[""] = 1
    if "" not in opsets and any(node.domain in ("", DEFAULT_DOMAIN) for node in model.graph.node):
        raise HipCompilerError(
            ErrorCode.MODEL_INVALID, "the model imports no version of the default operator set", where=source
        )
    return opsets


def opset_findings(opsets: dict[str, int], name: str) -> list[Unsupported]:
    """What is wrong with the imported version of the default domain, as findings about the model."""
    version = opsets.get("", NEWEST)
    if OLDEST <= version <= NEWEST:
        return []
    reason = f"opset {version} is outside of {OLDEST} to {NEWEST}"
    return [Unsupported(name or "<model>", "opset_import", "", version, (), reason)]


def opset_of(op: Any, opsets: dict[str, int]) -> int:
    """Version of its domain that an `onnx` operation is meant in: its own `hip.opset`, else the module's."""
    attributes = op.attributes
    if "hip.opset" in attributes:
        return int(attributes["hip.opset"].value)
    domain = attributes["domain"].value if "domain" in attributes else ""
    return opsets.get(domain, 1)


def module_opsets(module: Any) -> dict[str, int]:
    """Versions by domain that a module of the `onnx` dialect records; the default domain is spelt ""."""
    attributes = module.operation.attributes
    if "onnx.opset" not in attributes:
        return {"": NEWEST}
    recorded = attributes["onnx.opset"]
    return {("" if entry.name == DEFAULT_DOMAIN else entry.name): int(entry.attr.value) for entry in recorded}
