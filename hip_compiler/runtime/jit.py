"""Machine code in this process: an object file linked by LLJIT."""

from __future__ import annotations

import weakref
from collections.abc import Container, Sequence
from functools import cache
from pathlib import Path

import llvmlite.binding as llvm

from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.runtime import cpu, objectfile
from hip_compiler.runtime.linker import CODEGEN_CALLS
from hip_compiler.runtime.loaded import find_symbols
from hip_compiler.toolchain.lld import unresolved


class Program:
    """Object files, linked with the C library and with libraries that are named.

    They have their own JIT, so that dropping them gives everything back.

    Args:
        images: ELF objects.
        libraries: shared libraries that it needs, by path or by name for the loader.
        runtime: a program whose symbols it may use; it must outlive this one.
        exported: starts of the names that other programs may use; everything by default.

    Raises:
        HipCompilerError: `HIPC0501`, when a library cannot be loaded or a symbol is in none of them.
    """

    def __init__(
        self,
        images: Sequence[bytes],
        libraries: Sequence[str] = (),
        runtime: Program | None = None,
        exported: tuple[str, ...] = ("",),
    ) -> None:
        found = objectfile.symbols(images)
        refuse_thread_local(found)
        self.symbols = frozenset(name for name in found.defined if name.startswith(exported))
        self._runtime = runtime
        imported = found.undefined & runtime.symbols if runtime else frozenset()
        # The linker itself provides the table that position-independent code is addressed by.
        wanted = sorted(found.undefined - imported - {"_GLOBAL_OFFSET_TABLE_"})
        outside = find_symbols(wanted, libraries)
        _check_resolved(wanted, outside)
        builder = llvm.JITLibraryBuilder().add_current_process()
        for image in images:
            builder.add_object_img(image)
        for name in sorted(imported):
            builder.import_symbol(name, self.address(name))
        for name, address in outside.items():
            builder.import_symbol(name, address)
        for name in sorted(self.symbols):
            builder.export_symbol(name)
        # JITLink places code and data side by side, within reach of the small code model.
        jit = llvm.create_lljit_compiler(cpu.host().target_machine(), use_jit_link=True, suppress_errors=True)
        try:
            self._library = builder.link(jit, "model")
        except RuntimeError as error:
            jit.close()
            raise HipCompilerError(ErrorCode.LINK, "the program cannot be loaded", why=str(error)) from error
        # It holds both, so that the garbage collector cannot take the JIT before its library.
        self._unload = weakref.finalize(self, _unload, self._library, jit)
        # Not when Python ends: a thread that it does not wait for may be in the middle of a run.
        self._unload.atexit = False

    def address(self, name: str) -> int:
        """Address of an exported symbol of the program, or of its runtime.

        Raises:
            HipCompilerError: `HIPC0501`, when neither defines it.
        """
        address = self.find(name)
        if address is None:
            raise HipCompilerError(
                ErrorCode.LINK,
                f"the program does not define {name}",
                why="a compiled model defines every entry point of the runtime ABI",
            )
        return address

    def find(self, name: str) -> int | None:
        """As `address`; None when there is no such symbol."""
        if name in self.symbols:
            return int(self._library[name])
        return self._runtime.find(name) if self._runtime else None

    def close(self) -> None:
        """Unload the code. No address of it may be used afterwards; a second call does nothing."""
        self._unload()


def refuse_thread_local(found: objectfile.Symbols) -> None:
    """Programs have no thread-local variables, however they are loaded.

    Raises:
        HipCompilerError: `HIPC0501`, naming those that there are.
    """
    if found.thread_local:
        raise HipCompilerError(
            ErrorCode.LINK,
            "the program has thread-local variables, which cannot be loaded",
            details=sorted(found.thread_local),
            hint="keep the state in the context instead",
        )


def _unload(library: llvm.ResourceTracker, jit: llvm.LLJIT) -> None:
    library.close()
    jit.close()


@cache
def shared_runtime(path: Path, digest: str) -> Program:
    """The host runtime's machine code, loaded once per process: its functions keep their state in the context.

    Args:
        path: static library.
        digest: SHA-256 of it; another build of the runtime is another program.
    """
    return Program(objectfile.archive_members(path.read_bytes()), exported=("hipc_", *CODEGEN_CALLS))


def _check_resolved(wanted: Sequence[str], found: Container[str]) -> None:
    """LLJIT would name only the first few, on standard error."""
    missing = [name for name in wanted if name not in found]
    if missing:
        raise unresolved(missing)
