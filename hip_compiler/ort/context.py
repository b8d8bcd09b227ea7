"""Context models: ONNX models that hold what was compiled, for processes without Python."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.ort.provider import PROVIDER, register

FORMAT = 10
"""Version of ONNX's format that every ONNX Runtime that the provider supports can read."""
_VERSION_FIELD = b"\x08"


def compile_context(model: str | Path, output: str | Path, *, embed: bool = False, **options: Any) -> Path:
    """Compile a model to a context model, in which nodes of the operator `EPContext` stand for what was compiled.

    Any program with ONNX Runtime and `libhip_ep.so` runs it, on machines with this CPU. Nodes that cannot be compiled
    stay what they are.

    Args:
        model: path of an ONNX file.
        output: path of the context model.
        embed: put the native artifacts into the model; else they lie beside it.
        options: options of the provider.

    Raises:
        HipCompilerError: `HIPC0200`, when no node can be compiled, or, with ``strict=1``, when not all of them can;
            and what else is wrong with model or options.
    """
    import onnxruntime

    devices = register()
    target = Path(output)
    target.parent.mkdir(parents=True, exist_ok=True)
    settings = onnxruntime.SessionOptions()
    settings.add_session_config_entry("ep.context_enable", "1")
    settings.add_session_config_entry("ep.context_file_path", str(target))
    settings.add_session_config_entry("ep.context_embed_mode", "1" if embed else "0")
    settings.add_provider_for_devices(devices, {name: str(value) for name, value in options.items()})
    with _replaced(target):
        try:
            onnxruntime.InferenceSession(str(model), settings, enable_fallback=0)
        except Exception as error:  # ONNX Runtime's own classes of errors
            raise HipCompilerError(
                _code_in(str(error)), f"{model} cannot be made a context model", why=str(error)
            ) from error
        if not target.is_file():
            raise HipCompilerError(
                ErrorCode.UNSUPPORTED,
                f"{model} has no node that {PROVIDER} can take",
                hint="the warning above says why; hip-compiler coverage lists what can be compiled",
            )
        _for_older_runtimes(Path(model), target)
    return target


def _for_older_runtimes(model: Path, context: Path) -> None:
    """Give a context model the version of ONNX's format that its source has, and so its content needs.

    ONNX Runtime writes the newest that it knows itself, which no older one loads.
    """
    wanted = max(_format_version(model), FORMAT)
    if _format_version(context) <= wanted:
        return
    with context.open("r+b") as file:
        head = file.read(2)
        if head[:1] == _VERSION_FIELD and head[1] < 128:
            file.seek(1)
            file.write(bytes([wanted]))
            return
    import onnx

    proto = onnx.load(context, load_external_data=False)
    proto.ir_version = wanted
    onnx.save(proto, context)


def _format_version(path: Path) -> int:
    """`ir_version` of a model; its first field, in all but odd files."""
    with path.open("rb") as file:
        head = file.read(2)
    if head[:1] == _VERSION_FIELD and head[1] < 128:
        return head[1]
    import onnx

    return int(onnx.load(path, load_external_data=False).ir_version)


@contextmanager
def _replaced(target: Path) -> Iterator[None]:
    """Put a file aside, as ONNX Runtime overwrites none; it comes back when no other takes its place."""
    aside = target.with_name(f".{target.name}.{os.getpid()}.old")
    if target.is_file():
        target.rename(aside)
    try:
        yield
    finally:
        if target.is_file():
            aside.unlink(missing_ok=True)
        elif aside.is_file():
            aside.rename(target)


def _code_in(text: str) -> ErrorCode:
    """The code of the error that a text tells of; one of ONNX Runtime's own is about the model."""
    found = re.search(r"HIPC\d{4}", text)
    codes = [code for code in ErrorCode if found and code.value == found[0]]
    return codes[0] if codes else ErrorCode.MODEL_UNREADABLE
