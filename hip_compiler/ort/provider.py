"""The provider's library, and the compiler that it calls in this process."""

from __future__ import annotations

import atexit
import ctypes
import itertools
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from hip_compiler import knobs
from hip_compiler.core.driver import compile_model, compile_native
from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.ort.claim import claim
from hip_compiler.ort.graph import receive
from hip_compiler.ort.options import Settings
from hip_compiler.registry.registry import load_registry
from hip_compiler.runtime import abi, native
from hip_compiler.runtime.load import Loaded, load_folder
from hip_compiler.runtime.native_file import NativeArtifact, shared_numbers
from hip_compiler.runtime.state import Placement

PROVIDER = "HipExecutionProvider"
LIBRARY = "libhip_ep.so"
_VERSION = 1

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
    ]


_Claim = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(_Request), ctypes.c_int64, ctypes.POINTER(ctypes.c_int32))
_Compile = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(_Request), ctypes.POINTER(_Program))
_Link = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(_Request), ctypes.POINTER(ctypes.c_int64))
_Release = ctypes.CFUNCTYPE(None, ctypes.c_int64)


class _Compiler(ctypes.Structure):
    """`hip_ep_compiler`."""

    _fields_ = [
        ("version", ctypes.c_uint32),
        ("claim", _Claim),
        ("compile", _Compile),
        ("link", _Link),
        ("release", _Release),
    ]


def register() -> list[Any]:
    """Make the provider known to `onnxruntime`; more calls than one do no harm.

    Returns:
        Its devices, for `SessionOptions.add_provider_for_devices(devices, options)`. From ONNX Runtime 1.25.1 on
        `providers=["HipExecutionProvider"]` will do.

    Raises:
        HipCompilerError: `HIPC0503`, when the library has not been built, or ONNX Runtime is too old or not installed.
    """
    try:
        import onnxruntime
    except ImportError as error:
        raise HipCompilerError(
            ErrorCode.NOT_BUILT, "ONNX Runtime is not installed", why=str(error), hint="pip install onnxruntime"
        ) from error
    path = connect()
    if not hasattr(onnxruntime, "register_execution_provider_library"):
        raise HipCompilerError(
            ErrorCode.NOT_BUILT,
            f"ONNX Runtime {onnxruntime.__version__} takes no providers from libraries",
            hint="install onnxruntime 1.23.1 or later",
        )

    def devices() -> list[Any]:
        return [device for device in onnxruntime.get_ep_devices() if device.ep_name == PROVIDER]

    if not devices():
        onnxruntime.register_execution_provider_library(PROVIDER, str(path))
    return devices()


def library_path() -> Path:
    """The provider's library, for programs that register it by themselves.

    Raises:
        HipCompilerError: `HIPC0503`, when it has not been built.
    """
    path = native.FOLDER / LIBRARY
    if not path.is_file():
        raise HipCompilerError(
            ErrorCode.NOT_BUILT,
            "the execution provider has not been built",
            where=str(path),
            hint="in a source tree run: python kernels/build.py; else reinstall the package",
        )
    return path


@cache
def connect() -> Path:
    """Let the provider of this process compile, whoever registers its library; `register` does it too.

    Returns:
        The path of the library.

    Raises:
        HipCompilerError: `HIPC0503`, `HIPC0601`, when the library is missing or of another version.
    """
    path = library_path()
    library = ctypes.CDLL(str(path))
    set_compiler = library.hip_ep_set_compiler
    set_compiler.argtypes = [ctypes.POINTER(_Compiler)]
    set_compiler.restype = ctypes.c_uint32
    understood = set_compiler(ctypes.byref(_COMPILER))
    if understood:
        raise HipCompilerError(
            ErrorCode.ABI_MISMATCH,
            f"the execution provider has interface version {understood}, this package has {_VERSION}",
            where=str(path),
            hint="rebuild it: python kernels/build.py",
        )
    # Sessions may outlive the interpreter; they must not call it then.
    atexit.register(set_compiler, None)
    return path


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


def _model_of(request: _Request) -> Any:
    return receive(ctypes.string_at(request.model, request.model_bytes))


def _claim(request: Any, nodes: int, groups: Any) -> int:
    def action(asked: _Request, settings: Settings) -> None:
        options = settings.compile_options
        found = claim(_model_of(asked), options, load_registry(options.plugins), bool(asked.outer_values))
        if len(found.groups) != nodes:
            raise HipCompilerError(ErrorCode.INTERNAL, f"{nodes} nodes were shown, {len(found.groups)} arrived")
        for number, group in enumerate(found.groups):
            groups[number] = group
        _answer(asked, found.sentence)

    return _guarded(request, action)


def _compile(request: Any, program: Any) -> int:
    def action(asked: _Request, settings: Settings) -> None:
        compiled = compile_model(_model_of(asked), settings.compile_options)
        threads = settings.values["num_threads"] or knobs.NUM_THREADS.read()
        loaded = load_folder(compiled.artifact, Placement(threads))
        made = program.contents
        made.state = loaded.state.pointer
        made.compute = loaded.state.address(abi.COMPUTE)
        made.last_error = loaded.state.address(abi.LAST_ERROR)
        made.id = PROGRAMS.keep(loaded)
        if settings.values["kv_share"]:
            _answer(asked, " ".join(map(str, shared_numbers(compiled.artifact.metadata))))

    return _guarded(request, action)


def _link(request: Any, number: Any) -> int:
    def action(asked: _Request, settings: Settings) -> None:
        native_artifact, _ = compile_native(_model_of(asked), settings.compile_options)
        number[0] = PROGRAMS.keep(native_artifact)
        _answer(asked, str(native_artifact.path))

    return _guarded(request, action)


def _release(number: int) -> None:
    PROGRAMS.release(number)


_COMPILER = _Compiler(_VERSION, _Claim(_claim), _Compile(_compile), _Link(_link), _Release(_release))
