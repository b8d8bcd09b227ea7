"""Rules of runtime bitcode, checked on its symbol table before anything links it."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.registry.bitstream import producer
from hip_compiler.registry.contributions import (
    BitcodeContribution,
    Contribution,
    DialectContribution,
    KernelContribution,
    LaunchLowering,
    LibraryContribution,
    OnnxOpClaim,
    TargetContribution,
)
from hip_compiler.registry.names import listing, nearest
from hip_compiler.registry.records import PluginRecord

MAGIC = (b"BC\xc0\xde", b"\xde\xc0\x17\x0b")
RESERVED_PREFIXES = ("hipc_", "inference_", "llvm.")
METADATA_GLOBALS = ("llvm.used", "llvm.compiler.used", "llvm.embedded.module", "llvm.cmdline")
CONSTRUCTORS = ("llvm.global_ctors", "llvm.global_dtors")

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


def audit_plugin(
    record: PluginRecord,
    targets: Mapping[str, TargetContribution],
    ops: Collection[str],
    kernels: Collection[str],
) -> None:
    """Check everything of a plugin that names a target, an operation or a kernel, which others may register.

    Args:
        targets: every registered target.
        ops: full name of every registered operation.
        kernels: name of every registered kernel.

    Raises:
        HipCompilerError: `HIPC0404`, with every finding as a detail.
    """
    findings = [f for contribution in record.contributions for f in _audit(contribution, targets, ops, kernels)]
    if findings:
        raise HipCompilerError(
            ErrorCode.PLUGIN_AUDIT,
            f"{record} does not pass the audit",
            details=findings,
            why="; ".join(findings) if len(findings) == 1 else f"{len(findings)} findings",
            hint="mark helpers 'static', prefix what is visible outside, and list replacements in overrides=",
        )


def _audit(
    contribution: Contribution,
    targets: Mapping[str, TargetContribution],
    ops: Collection[str],
    kernels: Collection[str],
) -> list[str]:
    if isinstance(contribution, DialectContribution):
        return _audit_launches(contribution, kernels)
    if isinstance(contribution, OnnxOpClaim) and contribution.lowers_to not in ops:
        hint = nearest(contribution.lowers_to, ops)
        claim = f"ONNX operator {contribution.domain}::{contribution.op}"
        return [f"{claim}: operation '{contribution.lowers_to}' is not registered" + (f"; {hint}" if hint else "")]
    if not isinstance(contribution, (BitcodeContribution, LibraryContribution, KernelContribution)):
        return []
    target = targets.get(contribution.target)
    if target is None:
        return [f"{contribution.name}: target '{contribution.target}' is not registered; targets: {listing(targets)}"]
    if isinstance(contribution, BitcodeContribution):
        return audit_bitcode(contribution, target)
    if isinstance(contribution, KernelContribution) and not target.architecture:
        return audit_kernels(contribution)
    return []


def _audit_launches(dialect: DialectContribution, kernels: Collection[str]) -> list[str]:
    findings = []
    for op in dialect.ops:
        if isinstance(op.lowering, LaunchLowering) and op.lowering.kernel not in kernels:
            hint = nearest(op.lowering.kernel, kernels) or f"kernels: {listing(kernels)}"
            findings.append(f"operation '{op.name}': kernel '{op.lowering.kernel}' is not registered; {hint}")
    return findings


def audit_kernels(kernels: KernelContribution) -> list[str]:
    """Every rule that kernels for a CPU break: they are bitcode that defines exactly the symbols it lists."""
    try:
        symbols, triple = _read(_bytes(kernels))
    except ValueError as error:
        return [f"{kernels.name}: {error}"]
    findings = []
    if triple and triple.split("-")[0] != kernels.architecture:
        findings.append(f"triple '{triple}' is not for {kernels.architecture or 'the architecture, which is empty'}")
    defined = {symbol.name for symbol in symbols}
    for symbol in symbols:
        if symbol.name in CONSTRUCTORS:
            findings.append(f"{symbol.name}: static constructors and destructors are not run")
        elif symbol.name.startswith(RESERVED_PREFIXES):
            findings.append(f"{symbol} belongs to the runtime")
        elif symbol.name not in kernels.symbols:
            findings.append(f"{symbol} is not listed in symbols=")
    findings += [f"kernel '{name}' is not defined in the bitcode" for name in kernels.symbols if name not in defined]
    return [f"{kernels.name}: {finding}" for finding in findings]


def audit_bitcode(bitcode: BitcodeContribution, target: TargetContribution) -> list[str]:
    """Every rule that runtime bitcode breaks, one sentence each, with the symbol or version named."""
    try:
        symbols, triple = _read(_bytes(bitcode))
    except ValueError as error:
        return [f"{bitcode.name}: {error}"]
    findings = [f"triple '{triple}' is not for {wanted}" for wanted in _triple_mismatch(triple, target)]
    if not bitcode.prefix:
        findings.append("has no prefix")
    elif bitcode.prefix.startswith(RESERVED_PREFIXES):
        findings.append(f"prefix '{bitcode.prefix}' belongs to the runtime")
    for symbol in symbols:
        if symbol.name in CONSTRUCTORS:
            findings.append(f"{symbol.name}: static constructors and destructors are not run")
        elif symbol.name in bitcode.overrides or (bitcode.prefix and symbol.name.startswith(bitcode.prefix)):
            continue
        else:
            findings.append(f"{symbol} lacks the prefix '{bitcode.prefix}' and is not listed in overrides=")
    defined = {symbol.name for symbol in symbols}
    for name in bitcode.overrides:
        if name not in target.overridable:
            hint = nearest(name, target.overridable) or f"those are: {listing(target.overridable)}"
            findings.append(f"override '{name}' is no overridable symbol of target '{target.name}'; {hint}")
        elif name not in defined:
            findings.append(f"override '{name}' is not defined in the bitcode")
    return [f"{bitcode.name}: {finding}" for finding in findings]


def exported_symbols(bitcode: BitcodeContribution) -> tuple[str, ...]:
    """Names that the bitcode defines for others to see. It must have passed the audit."""
    return tuple(symbol.name for symbol in _read(_bytes(bitcode))[0] if symbol.name not in METADATA_GLOBALS)


def _bytes(bitcode: BitcodeContribution | KernelContribution) -> bytes:
    return bitcode.source.read_bytes() if isinstance(bitcode.source, Path) else bitcode.source


@lru_cache(maxsize=64)
def _read(data: bytes) -> tuple[tuple[Symbol, ...], str]:
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


def _triple_mismatch(triple: str, target: TargetContribution) -> list[str]:
    import llvmlite.binding as llvm

    own = llvm.get_process_triple()
    if not triple:
        return []
    if target.architecture:
        return (
            [] if triple.split("-")[0] == target.architecture else [f"{target.architecture} (target '{target.name}')"]
        )
    same = _machine(triple) == _machine(own)
    return [] if same else [f"this machine, {own} (target '{target.name}')"]


def _machine(triple: str) -> tuple[str, str]:
    words = [*triple.split("-"), "", "", ""]
    architecture = {"amd64": "x86_64", "arm64": "aarch64"}.get(words[0], words[0])
    system = next((name for name in ("linux", "windows", "darwin", "macos") if name in triple), "")
    return architecture, "darwin" if system == "macos" else system
