"""The linker: LLVM's lld from the machine, that of ROCm, or the one in the `ziglang` package."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from hip_compiler import knobs
from hip_compiler.errors import ErrorCode, HipCompilerError

PROGRAMS = ("ld.lld-22", "ld.lld")
ROCM_PROGRAMS = ("lib/llvm/bin/ld.lld", "llvm/bin/ld.lld")
C_LIBRARIES = ("libm.so.6", "libc.so.6")
OLDER_C_LIBRARIES = ("libpthread.so.0", "libdl.so.2")
"""Parts of the C library that were files of their own until version 2.34."""
_UNDEFINED = re.compile(r"undefined symbol: (\S+)")
_NOT_EXPORTED = re.compile(r"version script assignment of 'global' to symbol '([^']+)' failed")


def find_linker() -> tuple[str, ...]:
    """Start of the linker's command line: the knob `HIPC_LLD`, else lld on the path, else that of
    ROCm, else the `ziglang` package.

    Raises:
        HipCompilerError: `HIPC0503`, when there is none, or when the knob names none.
    """
    chosen = knobs.LLD.read()
    if chosen:
        path = shutil.which(chosen)
        if path is None:
            raise HipCompilerError(
                ErrorCode.NOT_BUILT, f"{knobs.LLD.name} names '{chosen}', which is no program", hint="name an ld.lld"
            )
        return (path, "ld.lld") if Path(path).name.startswith("zig") else (path,)
    rocm = Path(knobs.ROCM_PATH.read())
    for program in (*PROGRAMS, *(str(rocm / program) for program in ROCM_PROGRAMS)):
        path = shutil.which(program)
        if path is not None:
            return (path,)
    if importlib.util.find_spec("ziglang") is not None:
        return (sys.executable, "-m", "ziglang", "ld.lld")
    raise HipCompilerError(
        ErrorCode.NOT_BUILT,
        "there is no linker for shared libraries and code objects",
        why=f"{knobs.LLD.name} is not set, {' and '.join(PROGRAMS)} are not on the path, {rocm} has none, "
        "and the package ziglang is not installed",
        hint="pip install 'hip-compiler[native]', which is ziglang, or install lld-22",
    )


def link(arguments: Sequence[str | Path], what: str) -> None:
    """Run the linker.

    Args:
        arguments: its command line.
        what: what is linked, for the message.

    Raises:
        HipCompilerError: `HIPC0503`, when there is no linker; `HIPC0501`, with what it says.
    """
    command = [*find_linker(), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise HipCompilerError(
            ErrorCode.LINK, f"{what} cannot be linked", details=done.stderr.strip().splitlines()[:20]
        )


def link_code_object(image: bytes, what: str) -> bytes:
    """Link an object file of an AMD GPU to a code object that its driver loads.

    Args:
        image: the object file.
        what: what is linked, for the message.

    Raises:
        HipCompilerError: `HIPC0503`, when there is no linker; `HIPC0501`, with what it says.
    """
    with tempfile.TemporaryDirectory(prefix="hipc-link-") as name:
        source, output = Path(name, "kernels.o"), Path(name, "kernels.co")
        source.write_bytes(image)
        link(["-shared", "--no-undefined", source, "-o", output], what)
        return output.read_bytes()


def link_shared(
    inputs: Sequence[bytes | Path], output: Path, *, exports: Sequence[str], libraries: Sequence[str] = ()
) -> None:
    """Link object files and static libraries to a shared library.

    Args:
        inputs: objects as bytes, objects and static libraries as paths.
        output: the library to write.
        exports: names that other programs see, each of which must be defined; everything else becomes private.
        libraries: shared libraries that it needs besides those of the C language, by path or by the loader's name.

    Raises:
        HipCompilerError: `HIPC0503`, when there is no linker; `HIPC0501`, listing symbols that nothing defines.
    """
    linker = find_linker()
    with tempfile.TemporaryDirectory(prefix="hipc-link-") as name:
        folder = Path(name)
        script = folder / "exports"
        script.write_text("{ global: " + " ".join(f"{export};" for export in exports) + " local: *; };\n")
        files = []
        for number, source in enumerate(inputs):
            path = source if isinstance(source, Path) else folder / f"{number}.o"
            if not isinstance(source, Path):
                path.write_bytes(source)
            files.append(str(path))
        needed = [_library_file(library) for library in libraries]
        folders = sorted({str(Path(path).parent) for path in needed})
        command = [*linker, "-shared", "-o", str(output), f"--version-script={script}", *files, *needed]
        command += [*_language_libraries(), "-z", "defs", "-z", "now", "-z", "noexecstack", "--gc-sections"]
        # An export that nothing defines is an error, and one that a static library defines comes out of it.
        command += ["--no-undefined-version", *(f"--undefined={export}" for export in exports)]
        command += ["--hash-style=gnu", "--eh-frame-hdr", *(f"-rpath={path}" for path in folders)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return
    missing = sorted({*_UNDEFINED.findall(done.stderr), *_NOT_EXPORTED.findall(done.stderr)})
    if missing:
        raise unresolved(missing)
    raise HipCompilerError(
        ErrorCode.LINK, "the shared library cannot be linked", details=done.stderr.strip().splitlines()[:20]
    )


def unresolved(symbols: Sequence[str]) -> HipCompilerError:
    """The error for symbols of a program that nothing defines, whoever links it."""
    return HipCompilerError(
        ErrorCode.LINK,
        f"{len(symbols)} symbol{'s' if len(symbols) != 1 else ''} of the program cannot be resolved",
        details=symbols,
        why="neither the runtime, nor a plugin, nor a library that a plugin declares defines them",
        hint="declare the library that does with a LibraryContribution, or install the plugin that provides them; "
        "what is the runtime's own is missing from an old build of it",
    )


def _library_file(library: str) -> str:
    path = Path(library) if "/" in library else _loaded_from(library)
    if path is None or not path.is_file():
        raise HipCompilerError(
            ErrorCode.LINK,
            f"the library {library} cannot be linked",
            why="a file of that name is not loaded in this process" if path is None else "there is no such file",
            hint="give the library's absolute path",
        )
    return str(path)


@cache
def _language_libraries() -> tuple[str, ...]:
    """Arguments for the C library and its mathematics, as this process uses them: no development files are needed."""
    found = [path for name in C_LIBRARIES if (path := _loaded_from(name)) is not None]
    if len(found) != len(C_LIBRARIES):
        raise HipCompilerError(
            ErrorCode.LINK,
            "shared libraries can be linked against the GNU C library only",
            why="this process does not use libc.so.6 and libm.so.6",
            hint="use --format bitcode",
        )
    older = [path for name in OLDER_C_LIBRARIES if (path := _loaded_from(name)) is not None]
    return (*map(str, found), "--as-needed", *map(str, older), "--no-as-needed")


def _loaded_from(name: str) -> Path | None:
    """File of a library that this process can load by its name."""
    import ctypes

    try:
        ctypes.CDLL(name)
    except OSError:
        return None
    with open("/proc/self/maps", encoding="utf-8") as file:
        paths = {line.split(maxsplit=5)[-1].rstrip("\n") for line in file if f"/{name}" in line}
    return next((Path(path) for path in sorted(paths) if os.path.basename(path) == name), None)
