"""Links the parts of device code: objects to a code object, bitcode to PTX."""

from __future__ import annotations

import multiprocessing
import os
import struct
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.toolchain import notes
from hip_compiler.toolchain.lld import find_linker

# Of what `_link` does; part of what its results are known by.
_LINK_VERSION = "3"
_TRIPLE = "amdgcn-amd-amdhsa"
_FLAGS_AT = 48  # of the word in the header of an ELF file that names the machine
# Fewer are linked before the processes for them have started.
_WORTH_PROCESSES = 4


def is_nvidia(architecture: str) -> bool:
    """Whether the architecture is one of NVIDIA's, ``sm_NN``."""
    return architecture.startswith("sm_")


def link_images(parts: Mapping[str, Sequence[Path]], objects: Path, stem: str) -> dict[str, Path]:
    """Link every architecture's parts to `objects / STEM-ARCH.co`, or `.ptx`, unless that is what is there already.

    Args:
        parts: objects for AMD GPUs, bitcode for NVIDIA's, by architecture. The objects may be for another one whose
            machine code is the same.
        objects: folder.
        stem: start of the file names.

    Raises:
        HipCompilerError: `HIPC0501`, when the parts do not link.
    """
    images = {name: objects / f"{stem}-{name}.{'ptx' if is_nvidia(name) else 'co'}" for name in parts}
    missing = [
        name
        for name in sorted(parts, key=lambda name: not is_nvidia(name))
        if not _is_current(images[name], parts[name])
    ]
    # Processes, since in one process llvmlite lets in one caller at a time.
    workers = min(os.cpu_count() or 1, len(missing))
    if workers < 2 or len(missing) < _WORTH_PROCESSES:
        for name in missing:
            _link(name, parts[name], images[name])
        return images
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        for job in [pool.submit(_link, name, parts[name], images[name]) for name in missing]:
            job.result()
    return images


def _stamp(target: Path) -> Path:
    return target.with_suffix(".linked")


def _key(parts: Sequence[Path]) -> str:
    return "\n".join([_LINK_VERSION, *(part.name for part in parts)])


def _is_current(target: Path, parts: Sequence[Path]) -> bool:
    stamp = _stamp(target)
    return target.exists() and stamp.exists() and stamp.read_text() == _key(parts)


def _link(architecture: str, parts: Sequence[Path], target: Path) -> None:
    private = target.with_suffix(f".{os.getpid()}.tmp")
    if is_nvidia(architecture):
        private.write_bytes(_ptx(architecture, parts))
    else:
        with tempfile.TemporaryDirectory(prefix="hipc-device-") as folder:
            objects = _with_one_note(architecture, parts, Path(folder))
            _run_linker(architecture, ["-shared", "--no-undefined", *map(str, objects), "-o", str(private)])
    private.replace(target)
    _stamp(target).write_text(_key(parts))


def _with_one_note(architecture: str, parts: Sequence[Path], folder: Path) -> list[Path]:
    """The objects of the parts, of one architecture and without their notes, and one that holds the note for them."""
    import llvmlite.binding as llvm

    images, metadata = [], []
    for part in parts:
        image, found = notes.take_notes(part.read_bytes())
        images.append(image)
        metadata += found
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    text = notes.module(notes.merge(metadata, architecture), _TRIPLE)
    machine = llvm.Target.from_triple(_TRIPLE).create_target_machine(cpu=architecture, opt=1, reloc="pic")
    note, _ = notes.take_notes(machine.emit_object(llvm.parse_assembly(text)), keep=notes.NOTE_SECTION)
    flags = struct.unpack_from("<I", note, _FLAGS_AT)[0]
    objects = [folder / "note.o"]
    objects[0].write_bytes(note)
    for number, image in enumerate(images):
        edited = bytearray(image)
        struct.pack_into("<I", edited, _FLAGS_AT, flags)
        objects.append(folder / f"{number}.o")
        objects[-1].write_bytes(edited)
    return objects


def _run_linker(architecture: str, arguments: Sequence[str]) -> None:
    result = subprocess.run([*find_linker(), *arguments], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise HipCompilerError(
            ErrorCode.LINK,
            f"device code for {architecture} does not link",
            details=(result.stderr or result.stdout).strip().splitlines()[:20],
        )


def _ptx(architecture: str, parts: Sequence[Path]) -> bytes:
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    module = llvm.parse_bitcode(parts[0].read_bytes())
    for part in parts[1:]:
        module.link_in(llvm.parse_bitcode(part.read_bytes()))
    machine = llvm.Target.from_triple(module.triple).create_target_machine(cpu=architecture, opt=3)
    return str(machine.emit_assembly(module)).encode() + b"\0"
