"""Text to tokens and back, through the `tokenizers` package, and chat templates, through `jinja2`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.generate.config import refused

Message = Mapping[str, str]
"""`role` (system, user, assistant) and `content`."""

UNFINISHED = "\N{REPLACEMENT CHARACTER}"


class Tokenizer:
    """The tokenizer of a model folder: `tokenizer.json`, `tokenizer_config.json`, `chat_template.jinja`.

    Raises:
        HipCompilerError: `HIPC0103`, when the file is missing or broken; `HIPC0001`, when `tokenizers` is missing.
    """

    def __init__(self, folder: Path) -> None:
        try:
            from tokenizers import Tokenizer as Backend
        except ImportError as error:
            raise _not_installed("tokenizers") from error
        path = folder / "tokenizer.json"
        if not path.is_file():
            raise refused(f"{folder} has no tokenizer.json")
        try:
            self._backend: Any = Backend.from_file(str(path))
        except Exception as error:
            raise refused(f"{path} is not understood", why=str(error)) from error
        self._folder = folder
        self._settings = _settings(folder / "tokenizer_config.json")

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """Tokens of a text; `special`: with those that the tokenizer puts around a text."""
        return list(self._backend.encode(text, add_special_tokens=special).ids)

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of tokens, without special ones."""
        return str(self._backend.decode(list(tokens), skip_special_tokens=True))

    def chat(self, messages: Sequence[Message]) -> str:
        """The prompt that the folder's chat template makes of messages, up to where the answer begins.

        Raises:
            HipCompilerError: `HIPC0103`, when there is no template or it fails; `HIPC0001`, when `jinja2` is missing.
        """
        try:
            from jinja2 import TemplateError
            from jinja2.sandbox import ImmutableSandboxedEnvironment
        except ImportError as error:
            raise _not_installed("jinja2") from error
        # A template is text of the model's author: it runs in a sandbox.
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        environment.filters["tojson"] = lambda value, **options: json.dumps(value, ensure_ascii=False, **options)
        names = {key: _text(value) for key, value in self._settings.items() if key.endswith("_token")}

        def raise_exception(message: str) -> None:
            raise TemplateError(message)

        try:
            template = environment.from_string(self._template())
            return str(
                template.render(
                    messages=[dict(message) for message in messages],
                    add_generation_prompt=True,
                    raise_exception=raise_exception,
                    strftime_now=lambda form: datetime.now().strftime(form),
                    **names,
                )
            )
        except TemplateError as error:
            raise refused("the chat template failed", why=str(error)) from error

    def _template(self) -> str:
        file = self._folder / "chat_template.jinja"
        if file.is_file():
            return file.read_text(encoding="utf-8")
        found = self._settings.get("chat_template")
        if isinstance(found, list):
            found = next((entry["template"] for entry in found if entry.get("name") == "default"), None)
        if not isinstance(found, str):
            raise refused(f"{self._folder} has no chat template", hint="give a plain prompt instead")
        return found


class TextStream:
    """Text as its tokens come: a character whose bytes lie in several tokens appears once it is whole."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._tokens: list[int] = []
        # Tokens before `_shown` are in the text; decoding starts at `_context`, because what a token adds can depend on
        # the one before: some tokenizers drop a space at the start.
        self._context = 0
        self._shown = 0

    def add(self, token: int) -> str:
        """The text that a further token adds; empty while a character is unfinished."""
        self._tokens.append(token)
        piece = self._rest()
        if piece.endswith(UNFINISHED):
            return ""
        self._context, self._shown = self._shown, len(self._tokens)
        return piece

    def finish(self) -> str:
        """What is left when no token follows."""
        return self._rest() if self._shown < len(self._tokens) else ""

    def _rest(self) -> str:
        known = self._tokenizer.decode(self._tokens[self._context : self._shown])
        return self._tokenizer.decode(self._tokens[self._context :])[len(known) :]


def _settings(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise refused(f"{path} is not JSON", why=str(error)) from error
    return found if isinstance(found, dict) else {}


def _text(token: Any) -> str:
    """A special token is a string, or an object with its text as `content`."""
    return str(token.get("content", "")) if isinstance(token, dict) else str(token or "")


def _not_installed(package: str) -> HipCompilerError:
    return HipCompilerError(
        ErrorCode.USAGE, f"the package {package} is not installed", hint="pip install 'hip-compiler[llm]'"
    )
