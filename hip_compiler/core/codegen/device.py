"""Generated kernels of a device: taken out of the module, and compiled for every architecture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import llvmlite.binding as llvmlite

from hip_compiler.core.codegen.translate import to_text
from hip_compiler.core.mlir import ir
from hip_compiler.core.passes.build import all_operations
from hip_compiler.core.passes.llvm_device_kernels import DEVICE, THREAD
from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.registry.contributions import Device
from hip_compiler.runtime.cpu import OptLevel
from hip_compiler.runtime.linker import optimise
from hip_compiler.toolchain.lld import link_code_object

BLOCK = 256
"""Threads of a workgroup of a generated kernel; the runtime launches so many."""
GLOBAL = 1
"""LLVM's address space of a GPU's global memory."""

_CONVENTIONS = {"amdgcn": "#llvm.cconv<amdgpu_kernelcc>", "nvptx64": "#llvm.cconv<ptx_kernelcc>"}
_ATTRIBUTES = {
    "amdgcn": {"amdgpu-flat-work-group-size": f"{BLOCK},{BLOCK}", "uniform-work-group-size": "true"},
    "nvptx64": {"nvvm.maxntid": str(BLOCK)},
}
_THREADS = {
    "amdgcn": ("llvm.amdgcn.workitem.id.x", "llvm.amdgcn.workgroup.id.x"),
    "nvptx64": ("llvm.nvvm.read.ptx.sreg.tid.x", "llvm.nvvm.read.ptx.sreg.ctaid.x"),
}


def take_device_code(module: Any, triple: str) -> str:
    """LLVM IR of the kernels of a module in the LLVM dialect, which are erased from it; empty where it has none.

    Args:
        module: the module after the last pass.
        triple: LLVM triple of the device.
    """
    body = module.operation.regions[0].blocks[0]
    symbols = {op.attributes["sym_name"].value: op.operation for op in body.operations if "sym_name" in op.attributes}
    marked = [op.operation for op in body.operations if DEVICE in op.attributes]
    if not marked:
        return ""
    machine = triple.partition("-")[0]
    names = _reachable(marked, symbols)
    taken = ir.Module.create(module.operation.location)
    with ir.InsertionPoint(taken.body):
        for name, op in symbols.items():
            if name in names:
                op.clone()
    for op in marked:
        op.erase()
    for op in list(taken.body.operations):
        _fit(op.operation, machine)
    return _with_thread_number(to_text(taken), machine)


def _reachable(roots: Sequence[Any], symbols: dict[str, Any]) -> set[str]:
    """Names of the symbols that operations use, and theirs, the roots included."""
    found: set[str] = set()
    waiting = list(roots)
    while waiting:
        op = waiting.pop()
        found.add(op.attributes["sym_name"].value)
        for inner in all_operations(op):
            for word in ("callee", "global_name"):
                name = inner.attributes[word].value if word in inner.attributes else ""
                if name in symbols and name not in found:
                    found.add(name)
                    waiting.append(symbols[name])
    return found


def _fit(op: Any, machine: str) -> None:
    """Say about a function or a global what the device's code generator wants to know."""
    if op.name == "llvm.mlir.global":
        op.attributes["addr_space"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), GLOBAL)
        return
    if DEVICE in op.attributes:
        if op.attributes[DEVICE].value == "entry":
            op.attributes["CConv"] = ir.Attribute.parse(_CONVENTIONS[machine])
            pairs = [
                ir.ArrayAttr.get([ir.StringAttr.get(a), ir.StringAttr.get(b)]) for a, b in _ATTRIBUTES[machine].items()
            ]
            op.attributes["passthrough"] = ir.ArrayAttr.get(pairs)
        del op.attributes[DEVICE]
    for inner in all_operations(op):
        if inner.operation.name == "llvm.mlir.addressof":
            _cast_address(inner.operation)


def _cast_address(op: Any) -> None:
    generic = op.results[0].type
    with ir.InsertionPoint(op), op.location:
        address = ir.Operation.create(
            "llvm.mlir.addressof",
            results=[ir.Type.parse(f"!llvm.ptr<{GLOBAL}>")],
            attributes={"global_name": op.attributes["global_name"]},
        ).result
        cast = ir.Operation.create("llvm.addrspacecast", results=[generic], operands=[address]).result
    op.results[0].replace_all_uses_with(cast)
    op.erase()


def _with_thread_number(text: str, machine: str) -> str:
    """Define the function that gives a thread its number."""
    thread, group = _THREADS[machine]
    lines = [line for line in text.splitlines() if not line.startswith(f"declare i64 @{THREAD}(")]
    return "\n".join(
        [
            *lines,
            f"declare i32 @{thread}()",
            f"declare i32 @{group}()",
            f"define internal i64 @{THREAD}() alwaysinline {{",
            f"  %thread = call i32 @{thread}()",
            f"  %group = call i32 @{group}()",
            "  %low = zext i32 %thread to i64",
            "  %high = zext i32 %group to i64",
            f"  %first = mul nuw nsw i64 %high, {BLOCK}",
            "  %number = add nuw nsw i64 %first, %low",
            "  ret i64 %number",
            "}",
        ]
    )


def device_code(text: str, device: Device, architecture: str, opt_level: OptLevel) -> bytes:
    """What the driver of a device loads: a code object for AMD, PTX (with its final zero) for NVIDIA.

    Args:
        text: from `take_device_code`.
        device: the kind of device.
        architecture: LLVM's name of the processor.
        opt_level: LLVM optimisation level.

    Raises:
        HipCompilerError: `HIPC0500`, with the reason of LLVM, or the functions that no device has; `HIPC0501` and
            `HIPC0503` from the linker.
    """
    llvmlite.initialize_all_targets()
    llvmlite.initialize_all_asmprinters()
    triple = device.triple
    machine = llvmlite.Target.from_triple(triple).create_target_machine(cpu=architecture, opt=opt_level, reloc="pic")
    context = llvmlite.create_context()
    module = None
    try:
        module = llvmlite.parse_assembly(text, context)
        module.triple, module.data_layout = triple, str(machine.target_data)
        module.verify()
        if _missing(module):
            _link_functions(module, device.functions().read_bytes(), context)
        optimise(module, machine, opt_level)
        if triple.startswith("nvptx"):
            return machine.emit_assembly(module).encode() + b"\0"
        return link_code_object(machine.emit_object(module), f"the code object for {architecture}")
    except RuntimeError as error:
        raise HipCompilerError(
            ErrorCode.CODEGEN, f"LLVM cannot make code for {architecture}", why=str(error).strip()
        ) from error
    finally:
        # In this order: LLVM does not survive a module that outlives its context.
        if module is not None:
            module.close()
        context.close()


def _link_functions(module: llvmlite.ModuleRef, bitcode: bytes, context: llvmlite.ContextRef) -> None:
    """Add the functions that kernels call, and check that nothing is missing afterwards."""
    entries = {function.name for function in module.functions if not function.is_declaration}
    functions = llvmlite.parse_bitcode(bitcode, context)
    functions.data_layout = module.data_layout
    module.link_in(functions)
    for function in module.functions:
        if not function.is_declaration and function.name not in entries:
            function.linkage = llvmlite.Linkage.internal
    missing = _missing(module)
    if missing:
        raise HipCompilerError(
            ErrorCode.CODEGEN,
            f"generated kernels call functions that a GPU does not have: {', '.join(missing)}",
            why="they are functions of the C library, of which only some exist for devices",
            hint="compile the model for the host target",
        )


def _missing(module: llvmlite.ModuleRef) -> list[str]:
    """Functions that kernels call and that nobody defines."""
    return sorted(f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm."))
