"""An artifact folder -> a native artifact: the same machine code, linked by lld instead of by the JIT."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path

from hip_compiler.runtime import cpu, native, objectfile
from hip_compiler.runtime.abi import ENTRY_POINTS, SERVICES
from hip_compiler.runtime.artifact import Artifact
from hip_compiler.runtime.jit import refuse_thread_local
from hip_compiler.runtime.loader import machine_code
from hip_compiler.runtime.native_file import NativeArtifact, append_files, cpu_flags
from hip_compiler.runtime.publish import publish_file
from hip_compiler.toolchain.lld import link_shared


def link_native(
    artifact: Artifact,
    output: Path | None = None,
    target: str = cpu.NATIVE,
    link: Callable[..., None] = link_shared,
) -> NativeArtifact:
    """Link an artifact, the runtime included, to a shared library.

    For the CPU at hand, results are those of the JIT to the last bit, since the machine code is the same. So are the
    rules for symbols of plugins: `build_object` has checked them when it made that code.

    Args:
        output: the file to make or replace; None: a temporary one that lives as long as the result.
        target: CPU that it is for: ``native``, or a level of the instruction set such as ``x86-64-v3``, which every
            CPU of that level runs.
        link: the linker, called as `link_shared`: that of the artifact's target.

    Raises:
        HipCompilerError: `HIPC0001`, for an unknown CPU; `HIPC0503`, when there is no linker; `HIPC0501`, for a symbol
            that nothing defines; `HIPC0600`, when the file cannot be written; and the errors of `machine_code`.
    """
    metadata = artifact.metadata
    chosen = cpu.named(target)
    code = machine_code(artifact, target=chosen)
    program_symbols = objectfile.symbols([code.image])
    refuse_thread_local(program_symbols)
    runtime = [] if code.runtime is None else [native.find(cpu=chosen).archive]
    members = [member for path in runtime for member in objectfile.archive_members(path.read_bytes())]
    defined = program_symbols.defined | objectfile.symbols(members).defined
    # Services are what an older runtime, or a plugin's, may be without; entry points are what every program has.
    exports = (*ENTRY_POINTS, *(service for service in SERVICES if service in defined))
    files = {entry.file: artifact.folder / entry.file for entry in metadata.data_files}

    def make(private: Path) -> None:
        program = private.with_name(f"{private.name}.o")
        program.write_bytes(code.image)
        link([program, *runtime], private, exports=exports, libraries=metadata.libraries)
        append_files(private, metadata, chosen.name, chosen.flags or cpu_flags(), files)

    if output is not None:
        publish_file(output, make)
        return NativeArtifact.load(output, any_cpu=True)
    folder = Path(tempfile.mkdtemp(prefix="hipc-"))
    try:
        path = folder / "model.so"
        make(path)
        result = NativeArtifact.load(path, any_cpu=True)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(result, shutil.rmtree, folder, ignore_errors=True)
    return result
