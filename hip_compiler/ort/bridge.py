"""What the provider's library calls in this process: the compiler, as `hip_ep_compiler` of kernels/ort_ep/compiler.h.

The compiler is loaded when it is first asked, so that a process which only runs what was compiled before needs no MLIR.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.ort.options import Settings
from hip_compiler.runtime import abi
from hip_compiler.runtime.load import Loaded, load_folder
from hip_compiler.runtime.native_file import NativeArtifact, shared_numbers

if TYPE_CHECKING:
    from hip_compiler.core.frontend.load import LoadedModel

VERSION = 2

_Put = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64)


class _Request(ctypes.Structure):
    """`hip_ep_request` of kernels/ort_ep/compiler.h."""

    _fields_ = [
        ("settings", ctypes.c_void_p),
        ("settings_bytes", ctypes.c_int64),
        ("model", ctypes.c_void_p),
        ("model_bytes", ctypes.c_int64),
        ("outer_values", ctypes.c_int32),
        ("answer", ctypes.c_void_p),
        ("put", _Put),
    ]


class _Program(ctypes.Structure):
    """`hip_ep_program`."""

    _fields_ = [
        ("id", ctypes.c_int64),
        ("state", ctypes.c_void_p),
        ("compute", ctypes.c_void_p),
        ("last_error", ctypes.c_void_p),
        ("events", ctypes.c_void_p),
    ]


_Claim = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(_Request), ctypes.c_int64, ctypes.POINTER(ctypes.c_int32))
_Compile = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(_Request), ctypes.POINTER(_Program))
_Link = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(_Request), ctypes.POINTER(ctypes.c_int64))
_Release = ctypes.CFUNCTYPE(None, ctypes.c_int64)


class Compiler(ctypes.Structure):
    """`hip_ep_compiler`."""

    _fields_ = [
        ("version", ctypes.c_uint32),
        ("claim", _Claim),
        ("compile", _Compile),
        ("link", _Link),
        ("release", _Release),
    ]


class _Programs:
    """What the provider holds, by number."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._held: dict[int, Loaded | NativeArtifact] = {}

    def keep(self, value: Loaded | NativeArtifact) -> int:
        number = next(self._numbers)
        self._held[number] = value
        return number

    def release(self, number: int) -> None:
        value = self._held.pop(number, None)
        if isinstance(value, Loaded):
            value.state.close()

    def __len__(self) -> int:
        return len(self._held)


PROGRAMS = _Programs()
_one_at_a_time = threading.Lock()


def _answer(request: _Request, text: str) -> None:
    data = text.encode()
    request.put(request.answer, data, len(data))


def _guarded(request: Any, action: Callable[[_Request, Settings], None]) -> int:
    """Run an action for the provider, above which nothing can be unwound: an error becomes the answer."""
    request = request.contents
    try:
        texts = ctypes.string_at(request.settings, request.settings_bytes).decode().split("\0")
        settings = Settings.read(dict(zip(texts[:-1:2], texts[1::2], strict=True)))
        with _one_at_a_time:
            action(request, settings)
    except HipCompilerError as error:
        _answer(request, str(error))
        return 1
    except BaseException as error:  # noqa: BLE001 - compiled code above cannot be unwound
        _answer(request, str(HipCompilerError(ErrorCode.INTERNAL, f"{type(error).__name__}: {error}")))
        return 1
    return 0


def _model_of(request: _Request) -> LoadedModel:
    from hip_compiler.ort.graph import receive

    return receive(ctypes.string_at(request.model, request.model_bytes))


def _padding(model: LoadedModel, settings: Settings) -> str:
    """How prompts are padded; empty where they are not."""
    from hip_compiler.ort.padding import decoder_of

    multiple = settings.values["static_pad_prefill"]
    if not multiple and settings.values["model_arch"] != "decoder":
        return ""
    decoder = decoder_of(model)
    return decoder.words(multiple) if multiple > 1 else ""


def _claim(request: Any, nodes: int, groups: Any) -> int:
    def action(asked: _Request, settings: Settings) -> None:
        from hip_compiler.ort.claim import LEFT, claim
        from hip_compiler.registry.registry import load_registry

        options = settings.compile_options
        taken = frozenset(number for number in range(nodes) if groups[number] == LEFT)
        model = _model_of(asked)
        if len(model.proto.graph.node) != nodes:
            raise HipCompilerError(
                ErrorCode.INTERNAL, f"{nodes} nodes were shown, {len(model.proto.graph.node)} arrived"
            )
        found = claim(model, options, load_registry(options.plugins), bool(asked.outer_values), taken)
        for number, group in enumerate(found.groups):
            groups[number] = group
        _answer(asked, found.sentence)

    return _guarded(request, action)


def _compile(request: Any, program: Any) -> int:
    def action(asked: _Request, settings: Settings) -> None:
        from hip_compiler.core.driver import compile_model

        model = _model_of(asked)
        padding = _padding(model, settings)
        compiled = compile_model(model, settings.compile_options)
        loaded = load_folder(compiled.artifact, settings.placement)
        made = program.contents
        made.state = loaded.state.pointer
        made.compute = loaded.state.address(abi.COMPUTE)
        made.last_error = loaded.state.address(abi.LAST_ERROR)
        made.events = loaded.state.find(abi.EVENTS)
        made.id = PROGRAMS.keep(loaded)
        _answer(asked, f"{' '.join(map(str, shared_numbers(compiled.artifact.metadata)))};{padding}")

    return _guarded(request, action)


def _link(request: Any, number: Any) -> int:
    def action(asked: _Request, settings: Settings) -> None:
        from hip_compiler.core.driver import compile_native

        native_artifact, _ = compile_native(_model_of(asked), settings.compile_options, cpu=settings.values["cpu"])
        number[0] = PROGRAMS.keep(native_artifact)
        _answer(asked, str(native_artifact.path))

    return _guarded(request, action)


def _release(number: int) -> None:
    PROGRAMS.release(number)


COMPILER = Compiler(VERSION, _Claim(_claim), _Compile(_compile), _Link(_link), _Release(_release))
