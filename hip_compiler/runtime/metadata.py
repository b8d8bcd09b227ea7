"""What `metadata.json` of an artifact says."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from hip_compiler.dtypes import BY_NAME, BY_ONNX, DType
from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.runtime.abi import ABI_VERSION, MAX_RANK
from hip_compiler.runtime.cpu import OPT_LEVELS, OptLevel

FORMAT = 1
_STRING = BY_NAME["string"]
DEVICE_FOLDER = "device/"
HOST_RUNTIME = "host"
"""The runtime of this package that programs for the CPU need."""


@dataclass(frozen=True)
class TensorInfo:
    """One input or output.

    Attributes:
        name: name in the model.
        dtype: element type.
        shape: extents; a string is a symbol: one extent, known at run time, wherever the symbol stands.
    """

    name: str
    dtype: DType
    shape: tuple[int | str, ...]

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(str(extent) for extent in self.shape)}]"


@dataclass(frozen=True)
class CompoundInfo:
    """An input or output that is a sequence of tensors, an optional tensor, or an optional sequence.

    The program knows its parts: all elements in one vector; int64 [tensors, 9], where each tensor begins in it, its
    extents, and -1 in the columns that are left; for an optional sequence, whether it is there. An optional tensor is
    a sequence of at most one.

    Attributes:
        name: name in the model.
        sequence: it is a sequence, or an optional one.
        optional: it may be absent.
        dtype: element type of the tensors.
        shape: extents of the tensors; a string is an extent that every tensor may have differently. None: not known.
        parts: names of its tensors among the inputs or outputs of the program.
    """

    name: str
    sequence: bool
    optional: bool
    dtype: DType
    shape: tuple[int | str, ...] | None
    parts: tuple[str, ...]

    def __str__(self) -> str:
        kind = f"{self.dtype}[{'...' if self.shape is None else ', '.join(map(str, self.shape))}]"
        kind = f"seq({kind})" if self.sequence else kind
        return f"{self.name}: {f'optional({kind})' if self.optional else kind}"


@dataclass(frozen=True)
class Strings:
    """Strings of a model, which are int64 numbers in its program.

    Attributes:
        names: inputs and outputs of the program that hold such numbers.
        vocabulary: texts that the model names; the number of each is its position. Any other text of a run has a number
            from here on, the same wherever it stands.
    """

    names: tuple[str, ...] = ()
    vocabulary: tuple[str, ...] = ()


ValueInfo: TypeAlias = TensorInfo | CompoundInfo
"""What the user gives to a model, or gets from it."""


@dataclass(frozen=True)
class BitcodeFile:
    """A bitcode file of the artifact: its name, its SHA-256, who brought it, and what it overrides."""

    file: str
    sha256: str
    owner: str = "the compiled model"
    overrides: tuple[str, ...] = ()


@dataclass(frozen=True)
class DataFile:
    """A file that the runtime maps, and its size."""

    file: str
    bytes: int


@dataclass(frozen=True)
class Metadata:
    """Contents of `metadata.json`.

    Attributes:
        name: name of the model.
        target: target that it was compiled for.
        inputs: interface, in the order of the ABI.
        outputs: interface, in the order of the ABI.
        opt_level: optimisation level of machine code.
        libraries: shared libraries that the program needs.
        arena: what the memory planner reports.
        toolchain: versions of what made the artifact, by name.
        plugins_used: plugins that took part in the compilation: distribution and version, by plugin id.
        ops: how many operations of each kind the program has.
        shared: pairs of an input and an output that may be one buffer: the run appends to it in place.
        compounds: sequences and optionals, whose parts are among the inputs and outputs.
        strings: which inputs and outputs are strings.
        model: the generated code; filled in when the artifact is published.
        runtime: the runtime that the target brings, or the name of the one of this package that it needs.
        plugins: bitcode of plugins, in link order; filled in when the artifact is published.
        constants: the constants; filled in when the artifact is published.
        architectures: architectures of the device that there is code for.
        device: files of device code; filled in when the artifact is published.
    """

    name: str
    target: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    opt_level: OptLevel = 3
    libraries: tuple[str, ...] = ()
    arena: Mapping[str, Any] = field(default_factory=dict)
    toolchain: Mapping[str, str] = field(default_factory=dict)
    plugins_used: Mapping[str, str] = field(default_factory=dict)
    ops: Mapping[str, int] = field(default_factory=dict)
    shared: tuple[tuple[str, str], ...] = ()
    compounds: tuple[CompoundInfo, ...] = ()
    strings: Strings = Strings()
    model: BitcodeFile = BitcodeFile("model.bc", "")
    runtime: BitcodeFile | str = HOST_RUNTIME
    plugins: tuple[BitcodeFile, ...] = ()
    constants: DataFile | None = None
    architectures: tuple[str, ...] = ()
    device: tuple[DataFile, ...] = ()
    abi_version: int = ABI_VERSION

    def values_of(self, infos: Sequence[TensorInfo]) -> tuple[ValueInfo, ...]:
        """The model's inputs or outputs, from the program's: one for all parts of a sequence, and strings as such."""
        owners = {part: info for info in self.compounds for part in info.parts}
        texts = [replace(info, dtype=_STRING) if info.name in self.strings.names else info for info in infos]
        return tuple(dict.fromkeys(owners.get(info.name, info) for info in texts))

    @property
    def data_files(self) -> tuple[DataFile, ...]:
        """Files that the runtime maps: constants and device code."""
        return self.device if self.constants is None else (self.constants, *self.device)

    def to_json(self) -> str:
        """Text of `metadata.json`."""
        document = {
            "format": FORMAT,
            "abi_version": self.abi_version,
            "name": self.name,
            "target": self.target,
            "inputs": [_tensor_to_json(info) for info in self.inputs],
            "outputs": [_tensor_to_json(info) for info in self.outputs],
            "model": _bitcode_to_json(self.model),
            "runtime": self.runtime if isinstance(self.runtime, str) else _bitcode_to_json(self.runtime),
            "plugins": [_bitcode_to_json(entry) for entry in self.plugins],
            "constants": None if self.constants is None else vars(self.constants),
            "architectures": list(self.architectures),
            "device": [vars(entry) for entry in self.device],
            "opt_level": self.opt_level,
            "libraries": list(self.libraries),
            "arena": dict(self.arena),
            "toolchain": dict(self.toolchain),
            "plugins_used": dict(self.plugins_used),
            "ops": dict(self.ops),
            "shared": [list(pair) for pair in self.shared],
            "compounds": [_compound_to_json(info) for info in self.compounds],
            "strings": list(self.strings.names),
            "vocabulary": list(self.strings.vocabulary),
        }
        return json.dumps(document, indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes, *, where: str = "") -> Metadata:
        """Read `metadata.json`.

        Raises:
            HipCompilerError: `HIPC0600`, when the text is not that of a complete `metadata.json`.
        """
        try:
            document = json.loads(text)
            if document["format"] != FORMAT:
                raise ValueError(f"format {document['format']} is not {FORMAT}")
            constants, runtime = document["constants"], document["runtime"]
            return cls(
                name=str(document["name"]),
                target=str(document["target"]),
                inputs=tensors(document["inputs"]),
                outputs=tensors(document["outputs"]),
                opt_level=_opt_level(document["opt_level"]),
                libraries=_words(document["libraries"]),
                arena=dict(document["arena"]),
                toolchain=dict(document["toolchain"]),
                plugins_used=dict(document["plugins_used"]),
                ops=dict(document["ops"]),
                shared=pairs(document.get("shared", [])),
                compounds=compounds(document.get("compounds", [])),
                strings=strings(document),
                model=_bitcode(document["model"]),
                runtime=runtime if isinstance(runtime, str) else _bitcode(runtime),
                plugins=tuple(_bitcode(entry) for entry in document["plugins"]),
                constants=None if constants is None else _data(constants),
                architectures=_words(document["architectures"]),
                device=tuple(_data(entry, folder=DEVICE_FOLDER) for entry in document["device"]),
                abi_version=int(document["abi_version"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            reason = f"there is no {error}" if isinstance(error, KeyError) else str(error)
            raise HipCompilerError(
                ErrorCode.ARTIFACT,
                "the description of the artifact is damaged",
                where=where,
                why=reason,
                hint="compile the model again",
            ) from error


def tensors(entries: Sequence[Mapping[str, Any]]) -> tuple[TensorInfo, ...]:
    """Inputs or outputs from JSON: `{"name", "dtype", "shape"}`, the dtype by ONNX name or number.

    Raises:
        ValueError, KeyError, TypeError: an entry of another form.
    """
    return tuple(_tensor(entry) for entry in entries)


def pairs(entries: Any) -> tuple[tuple[str, str], ...]:
    """Pairs of names from JSON.

    Raises:
        ValueError, TypeError: an entry that is not a list of two words.
    """
    return tuple((first, second) for first, second in map(_words, entries))


def compounds(entries: Sequence[Mapping[str, Any]]) -> tuple[CompoundInfo, ...]:
    """Sequences and optionals from JSON, the dtype by ONNX name or number.

    Raises:
        ValueError, KeyError, TypeError: an entry of another form.
    """
    found = []
    for entry in entries:
        shape = entry["shape"]
        known = _tensor({**entry, "shape": shape or []}, texts=True)
        found.append(
            CompoundInfo(
                name=known.name,
                sequence=bool(entry["sequence"]),
                optional=bool(entry["optional"]),
                dtype=known.dtype,
                shape=None if shape is None else known.shape,
                parts=_words(entry["parts"]),
            )
        )
    return tuple(found)


def strings(document: Mapping[str, Any]) -> Strings:
    """Strings from JSON that may say nothing of them.

    Raises:
        TypeError: an entry of another form.
    """
    return Strings(_words(document.get("strings", [])), _words(document.get("vocabulary", [])))


def _tensor(entry: Mapping[str, Any], *, texts: bool = False) -> TensorInfo:
    word = entry["dtype"]
    dtype = BY_ONNX.get(word) if isinstance(word, int) else BY_NAME.get(word)
    if dtype is None or (dtype.numpy is None and not (texts and dtype is _STRING)):
        raise ValueError(f"{word!r} is not an element type")
    shape = tuple(entry["shape"])
    known = [extent for extent in shape if not isinstance(extent, str)]
    if len(shape) > MAX_RANK or not all(type(extent) is int and extent >= 0 for extent in known):
        raise ValueError(f"{shape} is not a shape")
    return TensorInfo(str(entry["name"]), dtype, shape)


def _tensor_to_json(info: TensorInfo) -> dict[str, Any]:
    return {"name": info.name, "dtype": info.dtype.name, "shape": list(info.shape)}


def _compound_to_json(info: CompoundInfo) -> dict[str, Any]:
    shape = None if info.shape is None else list(info.shape)
    return {**vars(info), "dtype": info.dtype.name, "shape": shape, "parts": list(info.parts)}


def _bitcode(entry: Mapping[str, Any]) -> BitcodeFile:
    return BitcodeFile(
        _plain_name(entry["file"]), str(entry["sha256"]), str(entry["owner"]), _words(entry["overrides"])
    )


def _data(entry: Mapping[str, Any], folder: str = "") -> DataFile:
    name = entry["file"]
    if not isinstance(name, str) or not name.startswith(folder):
        raise ValueError(f"{name!r} is not the name of a file in {folder}")
    return DataFile(folder + _plain_name(name.removeprefix(folder)), int(entry["bytes"]))


def _bitcode_to_json(entry: BitcodeFile) -> dict[str, Any]:
    return {
        "file": entry.file,
        "sha256": entry.sha256,
        "owner": entry.owner,
        "overrides": list(entry.overrides),
    }


def _words(entries: Any) -> tuple[str, ...]:
    if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
        raise TypeError(f"{entries!r} is not a list of words")
    return tuple(entries)


def _opt_level(value: Any) -> OptLevel:
    for level in OPT_LEVELS:
        if type(value) is int and value == level:
            return level
    raise ValueError(f"{value!r} is not an optimisation level")


def _plain_name(name: Any) -> str:
    """Files of an artifact lie in its folder."""
    if not isinstance(name, str) or not name or "/" in name or "\\" in name or name.startswith("."):
        raise ValueError(f"{name!r} is not the name of a file in the artifact folder")
    return name
