"""Names that more than one contribution claims."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.registry.audit import exported_symbols
from hip_compiler.registry.contributions import (
    BitcodeContribution,
    Contribution,
    DialectContribution,
    KernelContribution,
    OnnxOpClaim,
    PassContribution,
    PipelineContribution,
    TargetContribution,
)
from hip_compiler.registry.records import PluginRecord

Conflict = tuple[HipCompilerError, tuple[PluginRecord, ...]]


def find_conflicts(records: Sequence[PluginRecord]) -> list[Conflict]:
    """Every name with more than one owner, as an error that names all of them, and the owners."""
    owners: dict[str, list[PluginRecord]] = {}
    for record in records:
        for contribution in record.contributions:
            for claim in _claims(contribution):
                owners.setdefault(claim, []).append(record)
    doubles = [(claim, claimants) for claim, claimants in owners.items() if len(claimants) > 1]
    return [_conflict(claim, claimants) for claim, claimants in [*doubles, *_overlapping_claims(records)]]


def _claims(contribution: Contribution) -> Iterator[str]:
    match contribution:
        # Passes and pipelines share one namespace: pipeline text names both alike.
        case PassContribution(name=name) | PipelineContribution(name=name):
            yield f"pass or pipeline '{name}'"
        case DialectContribution(name=name):
            yield f"dialect '{name}'"
            yield from (f"operation '{op_name}'" for op_name in contribution.op_names)
        case TargetContribution(name=name):
            yield f"target '{name}'"
        case KernelContribution():
            for symbol in contribution.symbols:
                yield f"kernel '{symbol}' for target '{contribution.target}' {contribution.architecture}"
        case BitcodeContribution():
            for symbol in exported_symbols(contribution):
                yield f"symbol '{symbol}' for target '{contribution.target}'"


def _overlapping_claims(records: Sequence[PluginRecord]) -> Iterator[tuple[str, list[PluginRecord]]]:
    claims = [(item, record) for record in records for item in record.contributions if isinstance(item, OnnxOpClaim)]
    for (one, owner), (other, second) in combinations(claims, 2):
        default = ("", "ai.onnx")
        same_domain = one.domain == other.domain or (one.domain in default and other.domain in default)
        same = same_domain and one.op == other.op
        apart = (one.until is not None and one.until < other.since) or (
            other.until is not None and other.until < one.since
        )
        if same and not apart:
            yield f"ONNX operator '{one.domain}::{one.op}'", [owner, second]


def _conflict(claim: str, owners: list[PluginRecord]) -> Conflict:
    distinct = list(dict.fromkeys(str(owner) for owner in owners))
    if len(distinct) == 1:
        what, hint = f"{claim} is registered {len(owners)} times by {distinct[0]}", "register it once"
    else:
        what = f"{claim} is registered by {' and by '.join(distinct)}"
        hint = "select only one of them with HIPDNN_EP_COMPILER_PLUGINS, or uninstall one"
    return HipCompilerError(ErrorCode.PLUGIN_CONFLICT, what, hint=hint), tuple(owners)
