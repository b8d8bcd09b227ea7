"""Machine code in this process: an object file linked by LLJIT."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import llvmlite.binding as llvm

from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.runtime import cpu, objectfile
from hip_compiler.runtime.linker import CODEGEN_CALLS


class Program:
    """Object files, linked against the process. They have their own JIT, so that dropping them gives everything back.

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
        for library in libraries:
            _load_library(library)
        found = objectfile.symbols(images)
        refuse_thread_local(found)
        self.symbols = frozenset(name for name in found.defined if name.startswith(exported))
        self._runtime = runtime
        imported = found.undefined & runtime.symbols if runtime else frozenset()
        _check_resolvable(found.undefined - imported)
        builder = llvm.JITLibraryBuilder().add_current_process()
        for image in images:
            builder.add_object_img(image)
        for name in sorted(imported):
            builder.import_symbol(name, self.address(name))
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


def _load_library(library: str) -> None:
    try:
        llvm.load_library_permanently(library)
    except RuntimeError as error:
        raise HipCompilerError(
            ErrorCode.LINK,
            f"the library {library} cannot be loaded",
            why=str(error).strip(),
            hint="install it, or put its folder on the loader's search path (LD_LIBRARY_PATH)",
        ) from error


def _check_resolvable(names: frozenset[str]) -> None:
    """LLJIT would name only the first few, on standard error."""
    process = ctypes.CDLL(None)
    # The linker itself provides the table that position-independent code is addressed by.
    missing = sorted(name for name in names if name != "_GLOBAL_OFFSET_TABLE_" and not hasattr(process, name))
    if missing:
        raise HipCompilerError(
            ErrorCode.LINK,
            f"{len(missing)} symbol{'s' if len(missing) != 1 else ''} of the program cannot be resolved",
            details=missing,
            why="neither the runtime bitcode, a plugin, nor a library loaded in this process defines them",
            hint="install the plugin or library that provides them, or rebuild the runtime: python kernels/build.py",
        )
