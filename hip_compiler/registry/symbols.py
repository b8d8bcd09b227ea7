"""What a bitcode file defines for others to see.

LLVM takes milliseconds to read a file, and tens of them to load; what was read is kept in the cache folder by content,
so that commands stay quick with many plugins installed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from contextlib import suppress
from dataclasses import astuple, dataclass
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from hip_compiler import knobs
from hip_compiler.registry.bitstream import producer

MAGIC = (b"BC\xc0\xde", b"\xde\xc0\x17\x0b")
METADATA_GLOBALS = ("llvm.used", "llvm.compiler.used", "llvm.embedded.module", "llvm.cmdline")

# One definition in LLVM's text: `@name = linkage ... kind`, `define linkage ... @name(`.
_VALUE = re.compile(
    r'^@(?:"(?P<quoted>[^"]*)"|(?P<plain>[-\w.$]+)) = (?P<words>.*?)\b(?P<kind>global|constant|alias|ifunc)\b', re.M
)
_FUNCTION = re.compile(r'^define (?P<words>.*?)@(?:"(?P<quoted>[^"]*)"|(?P<plain>[-\w.$]+))\(', re.M)
_LOCAL = frozenset(("internal", "private"))


@dataclass(frozen=True)
class Symbol:
    """A definition that is visible outside its module.

    Attributes:
        kind: function, global, alias or ifunc.
        linkage: as LLVM spells it; ``external`` where the text has no word.
    """

    name: str
    kind: str
    linkage: str

    def __str__(self) -> str:
        return f"{self.kind} '{self.name}' ({self.linkage})"


@lru_cache(maxsize=256)
def read_symbols(data: bytes) -> tuple[tuple[Symbol, ...], str]:
    """Externally visible definitions of bitcode, and its triple.

    Raises:
        ValueError: no LLVM bitcode that this LLVM reads, with the reason.
    """
    key = hashlib.sha256(_reader() + data).hexdigest()
    try:
        file = knobs.cache_dir() / "symbols" / f"{key}.json"
    except RuntimeError:
        return _read_fresh(data)  # The user has no home, and so no cache folder.
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
        return tuple(Symbol(*words) for words in kept["symbols"]), str(kept["triple"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # Not kept, or damaged: read anew below.
    symbols, triple = _read_fresh(data)
    _keep(file, json.dumps({"triple": triple, "symbols": [astuple(symbol) for symbol in symbols]}))
    return symbols, triple


@cache
def _reader() -> bytes:
    """Who reads: this file, and LLVM's version."""
    try:
        llvm = version("llvmlite")
    except PackageNotFoundError:
        llvm = ""
    return hashlib.sha256(Path(__file__).read_bytes() + llvm.encode()).digest()


def _keep(file: Path, text: str) -> None:
    private = file.with_suffix(f".{os.getpid()}.tmp")
    # A folder that cannot be written to costs time, nothing else.
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        private.write_text(text, encoding="utf-8")
        private.replace(file)


def _read_fresh(data: bytes) -> tuple[tuple[Symbol, ...], str]:
    """Externally visible definitions, and the triple.

    Raises:
        ValueError: no LLVM bitcode that this LLVM reads, with the reason.
    """
    if not data.startswith(MAGIC):
        raise ValueError(f"is no LLVM bitcode: it starts with {data[:4]!r}" if data else "is empty")
    import llvmlite.binding as llvm

    ours = ".".join(map(str, llvm.llvm_version_info))
    writer = producer(data)
    made_by = re.search(r"\d+", writer)
    if made_by and int(made_by[0]) > llvm.llvm_version_info[0]:
        raise ValueError(f"made by {writer}, which is newer than LLVM {ours}; build it with clang {ours.split('.')[0]}")
    try:
        module = llvm.parse_bitcode(data)
        module.verify()
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"damaged bitcode of {writer or 'an unknown LLVM'}: {reason}") from error
    return _symbols(str(module)), module.triple


def _symbols(text: str) -> tuple[Symbol, ...]:
    found = []
    text = "\n".join(line for line in text.splitlines() if line.startswith(("@", "define ")))
    for match in [*_VALUE.finditer(text), *_FUNCTION.finditer(text)]:
        words = match["words"].split()
        if _LOCAL & set(words):
            continue
        name = match["quoted"] or match["plain"]
        kind = match.groupdict().get("kind", "function")
        # A declaration (`external global`) defines nothing.
        if name in METADATA_GLOBALS or (kind in ("global", "constant") and {"external", "extern_weak"} & set(words)):
            continue
        linkage = next((word for word in words if word in _LINKAGES), "external")
        found.append(Symbol(name, "global" if kind == "constant" else kind, linkage))
    return tuple(found)


_LINKAGES = frozenset(
    ("available_externally", "linkonce", "weak", "common", "appending", "linkonce_odr", "weak_odr", "external")
)
