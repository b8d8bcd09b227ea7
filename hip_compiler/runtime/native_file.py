"""A native artifact: one file that is a shared library and carries what belongs to it.

An ELF shared library, then the files of the artifact, each at a multiple of 64 KiB so that it can be mapped, then an
index of lines ``KEY VALUE...``, then 24 bytes that end the file: where the index begins, its length, and a mark. The
loader of the system reads the first part and leaves the rest alone.

    abi 1                            version of the runtime ABI
    version 0.1.0                    hip-compiler that made it
    target host
    architecture x86_64
    cpu znver4                       CPU that the code was generated for
    flags avx2 fma ...               instruction sets it may use, as /proc/cpuinfo names them
    shared 1 0 2 1                   pairs of an input and an output, by number, that may be one buffer
    file constants.bin 327680 65536  where a file of the artifact lies: offset and bytes
"""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.runtime.abi import ABI_VERSION
from hip_compiler.runtime.metadata import Metadata
from hip_compiler.runtime.publish import publish_file
from hip_compiler.version import VERSION

MARK = b"HIPCSO01"
METADATA = "metadata.json"
_TRAILER = struct.Struct("<QQ8s")
_ALIGNMENT = 65536


@dataclass(frozen=True)
class NativeArtifact:
    """A compiled model as a shared library.

    Attributes:
        path: the file.
        metadata: what the artifact says about itself.
        files: offset and bytes of the files in it, by name.
        flags: instruction sets that its code may use, as ``/proc/cpuinfo`` names them.
    """

    path: Path
    metadata: Metadata
    files: Mapping[str, tuple[int, int]]
    flags: tuple[str, ...]

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, any_cpu: bool = False) -> NativeArtifact:
        """Open a native artifact and check that it is whole and made for this package and CPU.

        Args:
            any_cpu: it need not be for this CPU, as it is not to be run.

        Raises:
            HipCompilerError: `HIPC0600`, when it is no native artifact, or damaged; `HIPC0601`, when it was made for
                another version of the runtime ABI, by a newer hip-compiler, or for another CPU.
        """
        file = Path(path)
        index, files = _read_index(file)
        _check_fits(index, file, any_cpu)
        offset, size = files[METADATA]
        with file.open("rb") as content:
            content.seek(offset)
            text = content.read(size)
        metadata = Metadata.from_json(text, where=str(file))
        constants = metadata.constants
        if constants is not None and files.get(constants.file, (0, -1))[1] != constants.bytes:
            raise _damaged(file, f"its {constants.file} is not the one that it describes")
        return cls(file, metadata, files, tuple(index.get("flags", "").split()))

    def save(self, path: str | os.PathLike[str]) -> NativeArtifact:
        """Copy the file; a reader of the path sees the old contents or the new ones.

        Raises:
            HipCompilerError: `HIPC0600`, when the path cannot be written to.
        """
        target = Path(path)
        if not (target.exists() and target.samefile(self.path)):
            publish_file(target, lambda private: shutil.copyfile(self.path, private))
        return NativeArtifact(target, self.metadata, self.files, self.flags)


def append_files(
    library: Path, metadata: Metadata, cpu: str, flags: Sequence[str], files: Mapping[str, Path | bytes]
) -> None:
    """Make a native artifact of a shared library.

    Args:
        library: the shared library; it grows by the files.
        metadata: description of the artifact.
        cpu: name of the CPU that its code was generated for.
        flags: instruction sets of that CPU, as ``/proc/cpuinfo`` names them.
        files: files that the program reads, contents or paths, by name.
    """
    index = [f"abi {metadata.abi_version}", f"version {VERSION}", f"target {metadata.target}"]
    index += [f"architecture {os.uname().machine}", f"cpu {cpu}", f"flags {' '.join(flags)}"]
    index.append(f"shared {' '.join(map(str, shared_numbers(metadata)))}")
    with library.open("ab") as out:
        for name, source in {METADATA: metadata.to_json().encode(), **files}.items():
            out.write(b"\0" * (-out.tell() % _ALIGNMENT))
            start = out.tell()
            if isinstance(source, bytes):
                out.write(source)
            else:
                with source.open("rb") as content:
                    shutil.copyfileobj(content, out, 1 << 20)
            index.append(f"file {name} {start} {out.tell() - start}")
        text = ("\n".join(index) + "\n").encode()
        out.write(text + _TRAILER.pack(out.tell(), len(text), MARK))


def shared_numbers(metadata: Metadata) -> list[int]:
    """Numbers of the inputs and outputs in `metadata.shared`, in its order."""
    inputs = {info.name: number for number, info in enumerate(metadata.inputs)}
    outputs = {info.name: number for number, info in enumerate(metadata.outputs)}
    return [number for first, second in metadata.shared for number in (inputs[first], outputs[second])]


def cpu_flags() -> tuple[str, ...]:
    """Instruction sets of this machine's CPU that code is generated for, as ``/proc/cpuinfo`` names them."""
    return tuple(sorted(_CODE_FLAGS & _machine_flags()))


def _machine_flags() -> set[str]:
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            key, _, value = line.partition(":")
            if key.strip() in ("flags", "Features"):
                return set(value.split())
    return set()


def _read_index(path: Path) -> tuple[dict[str, str], dict[str, tuple[int, int]]]:
    try:
        with path.open("rb") as content:
            size = content.seek(0, os.SEEK_END)
            content.seek(max(0, size - _TRAILER.size))
            end = content.read()
            if len(end) < _TRAILER.size or not end.endswith(MARK):
                raise HipCompilerError(
                    ErrorCode.ARTIFACT,
                    "it is no native artifact of hip-compiler",
                    where=str(path),
                    why="it does not end as one",
                    hint="'hip-compiler compile' makes one of a model, with --format native",
                )
            start, length, _ = _TRAILER.unpack(end)
            if start + length + _TRAILER.size != size:
                raise _damaged(path, "it has another length than its index says")
            content.seek(start)
            lines = content.read(length).decode(errors="replace").splitlines()
    except OSError as error:
        raise _damaged(path, error.strerror or str(error), "the artifact cannot be read") from error
    index: dict[str, str] = {}
    files: dict[str, tuple[int, int]] = {}
    for line in lines:
        key, _, value = line.partition(" ")
        if key == "file":
            name, offset, size_text = value.split(" ")
            files[name] = int(offset), int(size_text)
        else:
            index[key] = value
    if METADATA not in files or not {"abi", "version", "target", "architecture"} <= index.keys():
        raise _damaged(path, "its index is incomplete")
    return index, files


def _check_fits(index: Mapping[str, str], path: Path, any_cpu: bool) -> None:
    """Refuse what this package or this machine cannot run; the execution provider has the same rules."""
    if index["abi"] != str(ABI_VERSION):
        raise _misfit(path, f"has runtime ABI version {index['abi']}, this package has {ABI_VERSION}")
    if _numbers(index["version"]) > _numbers(VERSION):
        raise _misfit(path, f"was made by hip-compiler {index['version']}, this one is {VERSION}")
    if any_cpu:
        return
    machine = os.uname().machine
    if index["architecture"] != machine:
        raise _misfit(path, f"is for {index['architecture']}, this machine is {machine}")
    lacking = sorted(set(index.get("flags", "").split()) - _machine_flags())
    if lacking:
        raise _misfit(path, f"was made for CPU {index.get('cpu', '?')}, this one lacks {', '.join(lacking)}")


_CODE_FLAGS = {
    *("sse4_1", "sse4_2", "popcnt", "avx", "avx2", "fma", "f16c", "bmi1", "bmi2", "abm", "movbe", "adx"),
    *("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx512ifma", "avx512vbmi", "avx512_vbmi2"),
    *("avx512_vnni", "avx512_bitalg", "avx512_vpopcntdq", "avx512_bf16", "avx512_fp16", "avx_vnni", "vaes"),
    *("vpclmulqdq", "gfni", "aes", "pclmulqdq", "sha_ni", "amx_tile", "amx_int8", "amx_bf16"),
    *("asimd", "asimdhp", "asimddp", "fphp", "bf16", "i8mm", "sve", "sve2", "svebf16", "svei8mm", "atomics"),
}
"""The flags of a CPU that are instruction sets which compilers use by themselves."""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdigit() else 0 for part in version.split("."))


def _misfit(path: Path, what: str) -> HipCompilerError:
    return HipCompilerError(
        ErrorCode.ABI_MISMATCH,
        f"the artifact {what}",
        where=str(path),
        hint="compile the model again with this version of hip-compiler, on this machine",
    )


def _damaged(path: Path, why: str, what: str = "the native artifact is damaged") -> HipCompilerError:
    return HipCompilerError(ErrorCode.ARTIFACT, what, where=str(path), why=why, hint="compile the model again")
