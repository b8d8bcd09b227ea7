"""A module in the LLVM dialect -> LLVM bitcode."""

from __future__ import annotations

from collections.abc import Sequence

import llvmlite.binding as llvmlite

from hip_compiler.core.codegen.irtext import downgrade
from hip_compiler.core.mlir import ir, llvm
from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.registry.contributions import Operation

_LISTED = 20


def translate(module: Operation, dialects: Sequence[str] = ("llvm",)) -> bytes:
    """Bitcode of generated code; it carries no triple, no data layout and no CPU features.

    Args:
        module: a `builtin.module` whose operations all have a translation.
        dialects: dialects that have one, besides `builtin.module` itself.

    Raises:
        HipCompilerError: `HIPC0500`, listing every operation that has no translation, or saying why LLVM refuses.
    """
    text = to_text(module, dialects)
    context = llvmlite.create_context()
    parsed = None
    try:
        parsed = llvmlite.parse_assembly(text, context)
        parsed.verify()
        return bytes(parsed.as_bitcode())
    except RuntimeError as error:
        raise HipCompilerError(
            ErrorCode.CODEGEN,
            "LLVM does not accept the generated code",
            why=str(error).strip(),
            hint="this is a defect of a lowering; report it with the repro bundle",
        ) from error
    finally:
        # In this order: LLVM does not survive a module that outlives its context.
        if parsed is not None:
            parsed.close()
        context.close()


def to_text(module: Operation, dialects: Sequence[str] = ("llvm",)) -> str:
    """LLVM IR of a module, in the syntax of llvmlite's LLVM; see `translate`."""
    check_translatable(module, dialects)
    _allow_merging(module)
    return downgrade(llvm.translate_module_to_llvmir(module.operation))


def _allow_merging(module: Operation) -> None:
    """Say that nobody compares addresses of functions: equal kernels of repeated layers may then become one."""
    unnamed_global = ir.IntegerAttr.get(ir.IntegerType.get_signless(64, module.operation.context), 2)
    for op in module.operation.regions[0].blocks[0].operations:
        if op.operation.name == "llvm.func" and op.operation.regions[0].blocks:
            op.operation.attributes["unnamed_addr"] = unnamed_global


def check_translatable(module: Operation, dialects: Sequence[str] = ("llvm",)) -> None:
    """Refuse what has no translation. MLIR's own translation would take the process down with it.

    Raises:
        HipCompilerError: `HIPC0500`, listing the operations with their locations.
    """
    root = module.operation
    try:
        root.verify()
    except ir.MLIRError as error:
        raise HipCompilerError(ErrorCode.CODEGEN, "the generated code does not verify", why=str(error)) from error
    findings: list[str] = []

    def visit(op: Operation) -> object:
        name = op.name
        if op != root and name.partition(".")[0] not in dialects:
            findings.append(f"{name} at {op.location}")
        return ir.WalkResult.ADVANCE

    root.walk(visit)
    if root.name != "builtin.module":
        findings.insert(0, f"{root.name} at {root.location} is not a module")
    if not findings:
        return
    shown = findings[:_LISTED]
    if len(findings) > _LISTED:
        shown.append(f"and {len(findings) - _LISTED} more")
    raise HipCompilerError(
        ErrorCode.CODEGEN,
        f"{len(findings)} operation{'s' if len(findings) != 1 else ''} cannot be translated to LLVM IR",
        details=shown,
        why=f"only operations of {', '.join(dialects)} have a translation; a pass left these behind",
        hint="run the pipeline with --print-ir-after='*' to see which pass should have lowered them",
    )
