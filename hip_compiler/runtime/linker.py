"""Generated code + plugin bitcode, and the runtime's where a plugin replaces part of it -> one object file for one CPU.

Generated code is optimised here. Runtime and plugin bitcode was optimised when it was built, so of those
only the functions that are used pass through the code generator. That alone takes half a second for an operator
with many element types, which is why the runtime's machine code is shared wherever nothing overrides it.
"""

from __future__ import annotations

import time
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Self

import llvmlite.binding as llvm

from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.runtime.abi import ENTRY_POINTS, SERVICES
from hip_compiler.runtime.cpu import Cpu, OptLevel

# Functions that the code generator itself may call, whatever the IR says. A runtime that brings them keeps them.
CODEGEN_CALLS = frozenset(
    {
        "__truncsfhf2",
        "__truncdfhf2",
        "__truncsfbf2",
        "__truncdfbf2",
        "__extendhfsf2",
    }
)
_KEEP = frozenset({*ENTRY_POINTS, *SERVICES}) | CODEGEN_CALLS

_LINKAGE = llvm.Linkage
_LOCAL = frozenset({_LINKAGE.internal, _LINKAGE.private, _LINKAGE.appending})
_MERGEABLE = frozenset({_LINKAGE.linkonce_odr, _LINKAGE.weak_odr})


@dataclass(frozen=True)
class Bitcode:
    """Bitcode to link.

    Attributes:
        name: who brings it, for messages.
        data: LLVM bitcode.
        overrides: functions of the runtime that it replaces.
    """

    name: str
    data: bytes
    overrides: tuple[str, ...] = ()


@dataclass(frozen=True)
class LinkedObject:
    """An object file, and how long each step took, in seconds."""

    image: bytes
    seconds: dict[str, float] = field(default_factory=dict)


def build_object(
    model: bytes,
    runtime: Bitcode | None,
    plugins: Sequence[Bitcode],
    cpu: Cpu,
    opt_level: OptLevel = 3,
    reserved: Container[str] = (),
) -> LinkedObject:
    """Link, optimise and generate code.

    Args:
        model: bitcode of the generated code; it defines the entry points.
        runtime: runtime to link in; None: the object will be loaded beside a runtime.
        plugins: bitcode of plugins. To override functions of the runtime, it must be linked in.
        reserved: symbols of the runtime that is loaded beside, which nothing may define.

    Raises:
        HipCompilerError: `HIPC0403`, when a symbol is defined twice; `HIPC0501`, when a file cannot
            be linked; `HIPC0500`, when generated code is not valid.
    """
    clock = _Clock()
    machine = cpu.target_machine(opt_level)
    with _Workspace(machine) as workspace:
        program = workspace.parse(Bitcode("the compiled model", model))
        _internalise(program)
        clock.lap("parse")
        optimise(program, machine, opt_level)
        clock.lap("optimise")
        sources = [*([runtime] if runtime else []), *plugins]
        parts = [(source, workspace.parse(source)) for source in sources]
        _apply_overrides(parts)
        _check_duplicates(parts, reserved)
        for source, part in parts:
            _link(program, source, part)
        _internalise(program)
        _drop_unused(program, machine)
        _check_constructors(program)
        clock.lap("link")
        image = machine.emit_object(program)
        clock.lap("codegen")
    return LinkedObject(image, clock.seconds)


class _Clock:
    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.seconds[name] = now - self._last
        self._last = now


class _Workspace:
    """An LLVM context and its modules, closed in this order: LLVM does not survive a module without its context."""

    def __init__(self, machine: llvm.TargetMachine) -> None:
        self._machine = machine
        self._context = llvm.create_context()
        self._modules: list[llvm.ModuleRef] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for module in self._modules:
            module.close()
        self._context.close()

    def parse(self, source: Bitcode) -> llvm.ModuleRef:
        """The module of bitcode, for the machine."""
        try:
            module = llvm.parse_bitcode(source.data, self._context)
            self._modules.append(module)
            module.verify()
        except RuntimeError as error:
            raise HipCompilerError(
                ErrorCode.LINK,
                f"the bitcode of {source.name} cannot be read",
                why=str(error).strip(),
                hint=f"it must come from LLVM {llvm.llvm_version_info[0]} or older, and be complete",
            ) from error
        module.triple = self._machine.triple
        module.data_layout = str(self._machine.target_data)
        return module


def optimise(module: llvm.ModuleRef, machine: llvm.TargetMachine, opt_level: OptLevel) -> None:
    """Run LLVM's optimisation pipeline of a level over a module."""
    if opt_level == 0:
        return
    tuning = llvm.create_pipeline_tuning_options(speed_level=opt_level)
    tuning.loop_vectorization = True
    tuning.slp_vectorization = True
    tuning.loop_unrolling = True
    tuning.loop_interleaving = True
    builder = llvm.create_pass_builder(machine, tuning)
    # Before all else: repeated layers have equal kernels, and each would cost milliseconds.
    merging = llvm.create_new_module_pass_manager()
    merging.add_merge_functions_pass()
    merging.run(module, builder)
    builder.getModulePassManager().run(module, builder)


def _drop_unused(module: llvm.ModuleRef, machine: llvm.TargetMachine) -> None:
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.add_strip_dead_prototype_pass()
    passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options()))


def _definitions(module: llvm.ModuleRef) -> Iterator[llvm.ValueRef]:
    """Functions and variables that other modules can see."""
    for value in (*module.functions, *module.global_variables):
        if not value.is_declaration and value.linkage not in _LOCAL:
            yield value


def _internalise(module: llvm.ModuleRef) -> None:
    for value in _definitions(module):
        if value.name not in _KEEP:
            value.linkage = _LINKAGE.internal


def _apply_overrides(parts: Sequence[tuple[Bitcode, llvm.ModuleRef]]) -> None:
    """Let declared overrides win: the definition of the first part, which is the runtime, becomes weak."""
    owners: dict[str, str] = {}
    for plugin, part in parts[1:]:
        theirs = {value.name for value in _definitions(part)}
        for symbol in plugin.overrides:
            runtime, base = parts[0]
            own = {value.name: value for value in _definitions(base)}
            if symbol not in own or symbol not in theirs:
                lacking = runtime.name if symbol not in own else plugin.name
                raise HipCompilerError(
                    ErrorCode.LINK,
                    f"{plugin.name} declares that it overrides {symbol}, which {lacking} does not define",
                )
            if symbol in owners:
                raise _conflict(symbol, owners[symbol], plugin.name)
            owners[symbol] = plugin.name
            own[symbol].linkage = _LINKAGE.weak_any


def _check_duplicates(parts: Iterable[tuple[Bitcode, llvm.ModuleRef]], reserved: Container[str]) -> None:
    """LLVM would take one of two definitions silently when either is weak."""
    owners: dict[str, tuple[str, llvm.Linkage]] = {}
    for source, module in parts:
        for value in _definitions(module):
            name, linkage = value.name, value.linkage
            if name in reserved:
                raise _conflict(name, "the runtime", source.name)
            if name in owners and name not in source.overrides:
                first, kind = owners[name]
                if not {linkage, kind} <= _MERGEABLE:
                    raise _conflict(name, first, source.name)
            owners.setdefault(name, (source.name, linkage))


def _conflict(symbol: str, first: str, second: str) -> HipCompilerError:
    return HipCompilerError(
        ErrorCode.PLUGIN_CONFLICT,
        f"{symbol} is defined by {first} and by {second}",
        hint="give it the plugin's own prefix, or declare it in overrides= when it is meant to replace the runtime's",
    )


def _link(program: llvm.ModuleRef, source: Bitcode, part: llvm.ModuleRef) -> None:
    try:
        program.link_in(part)
    except RuntimeError as error:
        raise HipCompilerError(
            ErrorCode.LINK, f"the bitcode of {source.name} cannot be linked", why=str(error).strip()
        ) from error


def _check_constructors(program: llvm.ModuleRef) -> None:
    names = {value.name for value in program.global_variables}
    if "llvm.global_ctors" in names:
        raise HipCompilerError(
            ErrorCode.LINK,
            "bitcode with static constructors cannot be linked",
            why="compiled models are loaded as plain objects, whose constructors nothing would run",
            hint="initialise on first use instead",
        )
