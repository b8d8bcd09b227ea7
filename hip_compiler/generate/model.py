"""A language model: prompt in, text out."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import hip_compiler
from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.generate.config import CONFIG, ModelConfig, read_config, refused
from hip_compiler.generate.decoder import Decoder
from hip_compiler.generate.sampling import Sampler, Sampling
from hip_compiler.generate.tokenizer import TextStream, Tokenizer
from hip_compiler.runtime import Session

Reason = Literal["end", "stop", "length"]


@dataclass(frozen=True)
class Piece:
    """What one token adds to the text; the text is empty while a character is unfinished or may begin a stop string."""

    text: str
    token: int


@dataclass
class Generated:
    """A text as it grows, and what it took.

    Attributes:
        reason: why it ended: a token that ends texts, a stop string, or the greatest length.
        prompt_seconds: from the prompt's tokens to the first new one.
        decode_seconds: of all further tokens.
    """

    prompt_tokens: int
    text: str = ""
    tokens: list[int] = field(default_factory=list)
    reason: Reason = "length"
    prompt_seconds: float = 0.0
    decode_seconds: float = 0.0

    @property
    def tokens_per_second(self) -> float:
        """Of the tokens after the first."""
        return (len(self.tokens) - 1) / self.decode_seconds if self.decode_seconds > 0 else 0.0


class LanguageModel:
    """A model folder, compiled and loaded.

    Args:
        folder: with genai_config.json, the graph, and the tokenizer's files.
        num_threads: threads of a run; 0: HIPC_NUM_THREADS, else one per available core.
        cache: keep the compiled graph in the compile cache.
        options: further fields of `hip_compiler.core.options.CompileOptions`.

    Raises:
        HipCompilerError: `HIPC0103` for a folder that is not understood, and what `hip_compiler.compile` raises.
    """

    def __init__(self, folder: Path | str, *, num_threads: int = 0, cache: bool = True, **options: Any) -> None:
        self.folder = Path(folder)
        self.config: ModelConfig = read_config(self.folder)
        if not self.config.graph.is_file():
            raise refused(f"{CONFIG} names {self.config.graph.name}, which is not in {self.folder}")
        self.tokenizer = Tokenizer(self.folder)
        settings: dict[str, Any] = {"last_position": self.config.logits, "cache": cache} | options
        self.session: Session = hip_compiler.compile(self.config.graph, num_threads=num_threads, **settings)
        self.last: Generated | None = None

    def generate(self, prompt: str | Sequence[int], sampling: Sampling | None = None, **settings: Any) -> Generated:
        """The whole text that follows a prompt. Arguments and errors as `stream`."""
        for _ in self.stream(prompt, sampling, **settings):
            pass
        assert self.last is not None
        return self.last

    def stream(
        self,
        prompt: str | Sequence[int],
        sampling: Sampling | None = None,
        *,
        max_new_tokens: int = 256,
        max_length: int = 0,
        stop: Sequence[str] = (),
    ) -> Iterator[Piece]:
        """Text piece by piece; `last` has all of it, and the times, once the iteration ends.

        Args:
            prompt: text, or tokens.
            sampling: how tokens are chosen; None: as the folder says.
            max_new_tokens: most tokens to add.
            max_length: most positions, those of the prompt included; 0: what the model was made for.
            stop: strings at which the text ends; they are no part of it.

        Raises:
            HipCompilerError: `HIPC0001`, when the prompt is empty or too long, or an argument means nothing;
                `HIPC0701`, when a run fails.
        """
        tokens = self.tokenizer.encode(prompt) if isinstance(prompt, str) else [int(token) for token in prompt]
        limit = max_length or self.config.context_length
        if not tokens:
            raise HipCompilerError(ErrorCode.USAGE, "the prompt has no tokens")
        if max_new_tokens < 1:
            raise HipCompilerError(ErrorCode.USAGE, f"{max_new_tokens} new tokens were asked for; one is the least")
        if "" in stop:
            raise HipCompilerError(ErrorCode.USAGE, "a stop string is empty: every text would end at once")
        if len(tokens) >= limit:
            raise HipCompilerError(
                ErrorCode.USAGE, f"the prompt has {len(tokens)} tokens; a text may have {limit}", hint="shorten it"
            )
        count = min(max_new_tokens, limit - len(tokens))
        chooser = Sampler(sampling or Sampling.from_search(self.config.search))
        return self._pieces(tokens, chooser, count, tuple(stop))

    def _pieces(self, prompt: list[int], chooser: Sampler, count: int, stop: tuple[str, ...]) -> Iterator[Piece]:
        result = self.last = Generated(len(prompt))
        decoder = Decoder(self.session, self.config, len(prompt) + count)
        stream, held = TextStream(self.tokenizer), StopStrings(stop)
        history, ahead = list(prompt), prompt
        while len(result.tokens) < count:
            start = time.perf_counter()
            token = chooser.choose(decoder.run(ahead), history)
            taken = time.perf_counter() - start
            if result.tokens:
                result.decode_seconds += taken
            else:
                result.prompt_seconds = taken
            result.tokens.append(token)
            if token in self.config.end_tokens:
                result.reason = "end"
                break
            history.append(token)
            ahead = [token]
            text = held.add(stream.add(token))
            result.text += text
            yield Piece(text, token)
            if held.found:
                result.reason = "stop"
                return
        rest = held.add(stream.finish()) + ("" if held.found else held.finish())
        if rest:
            result.text += rest
            yield Piece(rest, result.tokens[-1])

    def close(self) -> None:
        """Give everything back."""
        self.session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class StopStrings:
    """Holds text back that may be the start of a stop string, and ends the text at the first one."""

    def __init__(self, strings: Sequence[str]) -> None:
        self._strings = tuple(strings)
        self._held = ""
        self.found = False

    def add(self, text: str) -> str:
        """What of the held and the further text is safe to show; nothing from a stop string on."""
        self._held += text
        places = [place for string in self._strings if (place := self._held.find(string)) >= 0]
        if places:
            self.found = True
            shown, self._held = self._held[: min(places)], ""
            return shown
        kept = max((self._overlap(string) for string in self._strings), default=0)
        shown, self._held = self._held[: len(self._held) - kept], self._held[len(self._held) - kept :]
        return shown

    def finish(self) -> str:
        """What was held in vain."""
        shown, self._held = self._held, ""
        return shown

    def _overlap(self, string: str) -> int:
        """Length of the longest end of the held text that begins the string."""
        longest = min(len(string) - 1, len(self._held))
        return next((length for length in range(longest, 0, -1) if self._held.endswith(string[:length])), 0)
