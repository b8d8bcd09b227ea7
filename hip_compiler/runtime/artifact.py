"""The folder `model.hipc/`: generated code, constants, and what describes them.

model.bc          generated code, for no CPU in particular
constants.bin     contents of constants, memory-mapped; absent when there are none
metadata.json     interface, versions, digests
model.<key>.o     machine code for one CPU and one build of the runtime; a cache, made again when it does not fit
plugin-<n>.bc     bitcode of plugins
runtime.bc        runtime of a target that brings its own
device/           code for every architecture of a device: <arch>.library, <arch>.generated, <arch>.plugin<n>, index
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.runtime.abi import ABI_VERSION
from hip_compiler.runtime.linker import Bitcode
from hip_compiler.runtime.metadata import DEVICE_FOLDER, HOST_RUNTIME, BitcodeFile, DataFile, Metadata
from hip_compiler.runtime.publish import publish_folder, write_file

METADATA = "metadata.json"
MODEL = "model.bc"
RUNTIME = "runtime.bc"
CONSTANTS = "constants.bin"
_DIGEST_BYTES = 32


@dataclass(frozen=True)
class Artifact:
    """A compiled model on disk.

    Attributes:
        folder: the artifact folder.
        metadata: contents of its `metadata.json`.
    """

    folder: Path
    metadata: Metadata

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Artifact:
        """Open an artifact folder and check that it is whole.

        Raises:
            HipCompilerError: `HIPC0600`, when a file is missing or damaged; `HIPC0601`, when it was made for
                another version of the runtime ABI.
        """
        folder = Path(path)
        if not folder.is_dir():
            raise _damaged(f"there is no artifact folder {folder}", folder, "compile the model first")
        try:
            text = (folder / METADATA).read_bytes()
        except OSError as error:
            raise _damaged(f"{METADATA} cannot be read ({error.strerror})", folder) from error
        metadata = Metadata.from_json(text, where=str(folder / METADATA))
        if metadata.abi_version != ABI_VERSION:
            raise HipCompilerError(
                ErrorCode.ABI_MISMATCH,
                f"the artifact has runtime ABI version {metadata.abi_version}, this package has {ABI_VERSION}",
                where=str(folder),
                hint="compile the model again with this version of hip-compiler",
            )
        artifact = cls(folder, metadata)
        artifact._check_data_files()
        return artifact

    def model_bitcode(self) -> bytes:
        """Bitcode of the generated code.

        Raises:
            HipCompilerError: `HIPC0600`, when it is missing or is not what the metadata describes.
        """
        return self._read(self.metadata.model)

    def plugin_bitcode(self) -> list[Bitcode]:
        """Bitcode of plugins, in link order; errors as `model_bitcode`."""
        return [Bitcode(entry.owner, self._read(entry), entry.overrides) for entry in self.metadata.plugins]

    def runtime_bitcode(self) -> Bitcode | None:
        """Bitcode of the runtime that the target brought; None: it uses this package's host runtime.

        Raises:
            HipCompilerError: `HIPC0502`, when it needs another runtime; and as `model_bitcode`.
        """
        entry = self.metadata.runtime
        if isinstance(entry, BitcodeFile):
            return Bitcode(entry.owner, self._read(entry))
        if entry != HOST_RUNTIME:
            raise HipCompilerError(
                ErrorCode.TARGET_UNKNOWN,
                f"the artifact is for target '{self.metadata.target}', whose runtime '{entry}' is not at hand",
                where=str(self.folder),
                hint="compile the model again for a target that this version of hip-compiler has",
            )
        return None

    def cached_object(self, key: str) -> bytes | None:
        """Machine code kept under a key; None when there is none, or it is damaged."""
        try:
            content = self._object_path(key).read_bytes()
        except OSError:
            return None
        image, digest = content[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
        return image if hashlib.sha256(image).digest() == digest else None

    def keep_object(self, key: str, image: bytes) -> bool:
        """Keep machine code under a key; False when the folder cannot be written to."""
        try:
            # The digest behind the object tells a torn or damaged file; tools that read objects ignore it.
            write_file(self._object_path(key), image + hashlib.sha256(image).digest())
        except OSError:
            return False
        return True

    def save(self, path: str | os.PathLike[str]) -> Artifact:
        """Copy the artifact; a reader of the path sees the old contents or the new ones, never a mixture.

        Raises:
            HipCompilerError: `HIPC0600`, when the path cannot be written to.
        """
        target = Path(path)
        if target.exists() and target.samefile(self.folder):
            return self

        def copy(folder: Path) -> None:
            for name in (METADATA, *self._files()):
                (folder / name).parent.mkdir(exist_ok=True)
                shutil.copyfile(self.folder / name, folder / name)
            for machine_code in self.folder.glob("model.*.o"):
                shutil.copyfile(machine_code, folder / machine_code.name)

        publish_folder(target, copy)
        return Artifact(target, self.metadata)

    def _files(self) -> list[str]:
        names = [self.metadata.model.file, *(entry.file for entry in self.metadata.plugins)]
        if isinstance(self.metadata.runtime, BitcodeFile):
            names.append(self.metadata.runtime.file)
        return names + [entry.file for entry in self.metadata.data_files]

    def _object_path(self, key: str) -> Path:
        return self.folder / f"model.{key}.o"

    def _read(self, entry: BitcodeFile) -> bytes:
        try:
            data = (self.folder / entry.file).read_bytes()
        except OSError as error:
            raise _damaged(f"{entry.file} cannot be read ({error.strerror})", self.folder) from error
        if hashlib.sha256(data).hexdigest() != entry.sha256:
            raise _damaged(f"{entry.file} is not the file that {METADATA} describes", self.folder)
        return data

    def _check_data_files(self) -> None:
        for entry in self.metadata.data_files:
            try:
                size = (self.folder / entry.file).stat().st_size
            except OSError as error:
                raise _damaged(f"{entry.file} cannot be read ({error.strerror})", self.folder) from error
            if size != entry.bytes:
                raise _damaged(f"{entry.file} has {size} bytes instead of {entry.bytes}", self.folder)


def publish(
    metadata: Metadata,
    model: bytes,
    *,
    folder: str | os.PathLike[str] | None = None,
    plugins: Sequence[Bitcode] = (),
    runtime: Bitcode | None = None,
    write_constants: Callable[[Path], object] | None = None,
    device: Mapping[str, bytes] = MappingProxyType({}),
) -> Artifact:
    """Make an artifact folder.

    Args:
        metadata: description; digests, sizes and file names are filled in here.
        model: bitcode of the generated code.
        folder: the folder to make or replace; None: a temporary one that lives as long as the artifact.
        plugins: bitcode to link, in order.
        runtime: runtime to link; None: the host runtime of this package.
        write_constants: writes constants.bin to the path given; None: the model has no constants.
        device: files of device code, by name.

    Raises:
        HipCompilerError: `HIPC0600`, when the folder cannot be written.
    """
    complete: list[Metadata] = []

    def fill(private: Path) -> None:
        (private / MODEL).write_bytes(model)
        entries = []
        for index, plugin in enumerate(plugins):
            entry = BitcodeFile(f"plugin-{index}.bc", _digest(plugin.data), plugin.name, plugin.overrides)
            (private / entry.file).write_bytes(plugin.data)
            entries.append(entry)
        if runtime is not None:
            (private / RUNTIME).write_bytes(runtime.data)
        constants = None
        if write_constants is not None:
            write_constants(private / CONSTANTS)
            constants = DataFile(CONSTANTS, (private / CONSTANTS).stat().st_size)
        device_files = []
        for name, content in device.items():
            device_files.append(DataFile(DEVICE_FOLDER + name, len(content)))
            (private / DEVICE_FOLDER).mkdir(exist_ok=True)
            (private / DEVICE_FOLDER / name).write_bytes(content)
        complete.append(
            replace(
                metadata,
                model=BitcodeFile(MODEL, _digest(model)),
                runtime=metadata.runtime
                if runtime is None
                else BitcodeFile(RUNTIME, _digest(runtime.data), runtime.name),
                plugins=tuple(entries),
                constants=constants,
                device=tuple(device_files),
            )
        )
        (private / METADATA).write_text(complete[0].to_json(), encoding="utf-8")

    if folder is not None:
        publish_folder(Path(folder), fill)
        return Artifact(Path(folder), complete[0])
    temporary = Path(tempfile.mkdtemp(prefix="hipc-"))
    try:
        fill(temporary)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    artifact = Artifact(temporary, complete[0])
    weakref.finalize(artifact, shutil.rmtree, temporary, ignore_errors=True)
    return artifact


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _damaged(what: str, where: Path, hint: str = "compile the model again") -> HipCompilerError:
    return HipCompilerError(ErrorCode.ARTIFACT, what, where=str(where), hint=hint)
