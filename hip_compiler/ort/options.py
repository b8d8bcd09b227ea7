"""Options of a session with the provider: what there is, what each means, and how its text is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hip_compiler import knobs
from hip_compiler.core.options import CompileOptions
from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.ort.padding import ARCHITECTURES as MODEL_ARCHITECTURES
from hip_compiler.registry.names import nearest
from hip_compiler.runtime.state import Placement
from hip_compiler.toolchain.device import ARCHITECTURES

HOST = "host"
SELECTED_ARCHITECTURE = "selected architecture"
"""What the provider adds: the architecture of the GPU that the session was given. No option has such a name."""
KEEP_TIMES = "keep times"
"""As well: the program keeps how long each operator took."""


def _flag(text: str) -> bool:
    if text.lower() not in ("0", "1", "false", "true"):
        raise ValueError("is 0 or 1")
    return text.lower() in ("1", "true")


def _number(text: str) -> int:
    if not text.isdigit():
        raise ValueError("is a number, 0 or more")
    return int(text)


def _level(text: str) -> int:
    if text not in ("0", "1", "2", "3"):
        raise ValueError("is 0, 1, 2 or 3")
    return int(text)


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.replace(";", ",").split(",") if word.strip())


def _architecture(text: str) -> str:
    if text not in MODEL_ARCHITECTURES:
        raise ValueError(f"is {', '.join(word for word in MODEL_ARCHITECTURES if word)}")
    return text


@dataclass(frozen=True)
class Option:
    """One option.

    Attributes:
        name: key of the option.
        default: what it is when it is not given.
        read: its value from text; raises ValueError with what a value must be.
        meaning: one sentence for `docs/onnxruntime.md`.
        gpu: the target `host` has no use for it, and takes its default only.
    """

    name: str
    default: Any
    read: Callable[[str], Any]
    meaning: str
    gpu: bool = False


OPTIONS: tuple[Option, ...] = (
    Option("target", HOST, str, "Target to compile for."),
    Option("device_id", 0, _number, "Number of the device.", gpu=True),
    Option("arch", (), _words, "Architectures to compile for, separated by commas; empty: the target's own.", gpu=True),
    Option("cpu", "native", str, "CPU that contexts are for: native, the one at hand, or a level such as x86-64-v3."),
    Option("plugins", None, _words, "Plugin ids to use, in order, separated by commas; not given: all installed ones."),
    Option("pipeline", "", str, "Pass pipeline instead of the built-in one."),
    Option("opt_level", 3, _level, "Optimisation level of machine code."),
    Option("num_threads", 0, _number, "Threads of a run; 0: HIPC_NUM_THREADS, else one per available core."),
    Option("cache_dir", "", str, "Folder that compiled models are kept in and taken from; empty: they are not kept."),
    Option("graph_capture", False, _flag, "Replay runs that repeat as one graph of the device.", gpu=True),
    Option("kv_share", True, _flag, "A cache that grows may stay in the buffer that is both its input and output."),
    Option(
        "host_accessible_inputs",
        True,
        _flag,
        "Small inputs that are fed from the host go to pinned memory, not to the device; see below.",
        gpu=True,
    ),
    Option("strict", False, _flag, "A node that cannot be assigned is an error."),
    Option(
        "static_pad_prefill",
        0,
        _number,
        "Prompts are padded to a multiple of so many tokens, so that runs of other lengths repeat; 0: not.",
        gpu=True,
    ),
    Option("model_arch", "", _architecture, "Kind of model: decoder, other; empty: a decoder if it looks like one."),
    Option("profile", "", str, "File for the times of nodes and operators; 0: no times of operators; see below."),
)
_BY_NAME = {option.name: option for option in OPTIONS}


@dataclass(frozen=True)
class Settings:
    """Options of a session, read.

    Attributes:
        values: value of every option, by name.
        selected: architecture of the GPU that the session was given; empty: it was given none.
        keep_times: the program keeps how long each operator took.
    """

    values: Mapping[str, Any]
    selected: str = ""
    keep_times: bool = False

    @property
    def compile_options(self) -> CompileOptions:
        """What the compiler is told."""
        given = self.values
        return CompileOptions(
            target=given["target"],
            arch=given["arch"] or self._selected(),
            pipeline=given["pipeline"],
            plugins=given["plugins"],
            opt_level=given["opt_level"],
            verify_each=False,
            profile=self.keep_times,
            cache=bool(given["cache_dir"]),
            cache_dir=Path(given["cache_dir"]).expanduser() if given["cache_dir"] else None,
        )

    def _selected(self) -> tuple[str, ...]:
        """The architecture of the session's GPU, where code can be made for just that one."""
        return (self.selected,) if self.selected in ARCHITECTURES else ()

    @property
    def placement(self) -> Placement:
        """Where and how the program runs."""
        given = self.values
        threads = given["num_threads"] or knobs.NUM_THREADS.read()
        return Placement(threads, given["device_id"], given["graph_capture"])

    @classmethod
    def read(cls, texts: Mapping[str, str]) -> Settings:
        """Options from the text that ONNX Runtime hands over.

        Raises:
            HipCompilerError: `HIPC0001`, for an unknown option, a value that it cannot have, or an option that the
                target has no use for.
        """
        values = {option.name: option.default for option in OPTIONS}
        selected = texts.get(SELECTED_ARCHITECTURE, "")
        for name, text in texts.items():
            if name in (SELECTED_ARCHITECTURE, KEEP_TIMES):
                continue
            option = _BY_NAME.get(name)
            if option is None:
                near = nearest(name, _BY_NAME)
                raise _refused(f"there is no option '{name}'", near or f"options: {', '.join(_BY_NAME)}")
            try:
                values[name] = option.read(text)
            except ValueError as error:
                raise _refused(f"option '{name}' {error}, not '{text}'", option.meaning) from None
        if values["static_pad_prefill"] and values["model_arch"] == "other":
            raise _refused("options static_pad_prefill and model_arch=other contradict each other", "leave one out")
        for option in OPTIONS:
            if option.gpu and values["target"] == HOST and values[option.name] != option.default:
                raise _refused(
                    f"option '{option.name}' is one of GPU targets",
                    f"leave it out, or choose a target other than {HOST}",
                )
        return cls(values, selected, KEEP_TIMES in texts)


def _refused(what: str, hint: str) -> HipCompilerError:
    return HipCompilerError(ErrorCode.USAGE, what, hint=hint)
