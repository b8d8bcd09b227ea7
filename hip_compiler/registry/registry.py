"""The registry: everything the built-ins and the selected plugins contribute, validated together."""

from __future__ import annotations

import hashlib
import importlib
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.registry.audit import Names, audit_plugin
from hip_compiler.registry.conflicts import find_conflicts
from hip_compiler.registry.contributions import (
    BitcodeContribution,
    Contribution,
    DialectContribution,
    KernelContribution,
    LibraryContribution,
    OnnxOpClaim,
    OpDef,
    PassContribution,
    PipelineContribution,
    PlainOpDef,
    SlotRequest,
    TargetContribution,
)
from hip_compiler.registry.discovery import InstalledPlugin, Selection, check_api, chosen, installed, select
from hip_compiler.registry.hookspecs import API_VERSION
from hip_compiler.registry.records import PluginRecord, State
from hip_compiler.registry.registration import collect
from hip_compiler.registry.version import own_version

BUILTIN = "hip_compiler.core.builtin"
"""The built-in plugin. It is named rather than imported: this layer is below it, as it is below any plugin."""

T = TypeVar("T")


class PluginWarning(UserWarning):
    """A plugin that nobody asked for by name was left out."""


@dataclass(frozen=True)
class Registry:
    """Everything registered. Built-ins come first, then plugins in the order of the selection.

    Attributes:
        plugins: a record per plugin, refused and unselected ones included.
        problems: why this registry must not be used to compile.
        notes: what was left out although it is installed, one sentence each.
    """

    plugins: tuple[PluginRecord, ...]
    problems: tuple[HipCompilerError, ...] = ()
    notes: tuple[str, ...] = ()
    _owners: Mapping[int, PluginRecord] = field(default_factory=dict, repr=False)

    def _all(self, kind: type[T]) -> tuple[T, ...]:
        return tuple(item for plugin in self.plugins for item in plugin.contributions if isinstance(item, kind))

    @property
    def active(self) -> tuple[PluginRecord, ...]:
        """The plugins that take part, in order, the built-in one not counted."""
        return tuple(plugin for plugin in self.plugins if plugin.state == "active" and not plugin.builtin)

    @cached_property
    def digest(self) -> str:
        """Digest of every active plugin's name, version and contributions, in order: a part of cache keys."""
        return hashlib.sha256("".join(plugin.digest for plugin in self.active).encode()).hexdigest()

    def owner(self, contribution: Contribution) -> PluginRecord:
        """The plugin that made a contribution of this registry."""
        return self._owners[id(contribution)]

    @cached_property
    def passes(self) -> Mapping[str, PassContribution]:
        return MappingProxyType({item.name: item for item in self._all(PassContribution)})

    @cached_property
    def pipelines(self) -> Mapping[str, PipelineContribution]:
        return MappingProxyType({item.name: item for item in self._all(PipelineContribution)})

    @cached_property
    def slot_requests(self) -> tuple[SlotRequest, ...]:
        return self._all(SlotRequest)

    @cached_property
    def dialects(self) -> tuple[DialectContribution, ...]:
        return self._all(DialectContribution)

    @cached_property
    def ops(self) -> Mapping[str, OpDef]:
        return MappingProxyType({op.name: op for dialect in self.dialects for op in dialect.ops})

    @cached_property
    def plain_ops(self) -> Mapping[str, PlainOpDef]:
        return MappingProxyType({op.name: op for dialect in self.dialects for op in dialect.plain_ops})

    @cached_property
    def onnx_ops(self) -> tuple[OnnxOpClaim, ...]:
        return self._all(OnnxOpClaim)

    @cached_property
    def targets(self) -> Mapping[str, TargetContribution]:
        return MappingProxyType({item.name: item for item in self._all(TargetContribution)})

    def bitcode(self, target: str) -> tuple[BitcodeContribution, ...]:
        return tuple(item for item in self._all(BitcodeContribution) if item.target == target)

    def libraries(self, target: str) -> tuple[LibraryContribution, ...]:
        return tuple(item for item in self._all(LibraryContribution) if item.target == target)

    def kernels(self, target: str) -> tuple[KernelContribution, ...]:
        return tuple(item for item in self._all(KernelContribution) if item.target == target)


def load_registry(plugins: Sequence[str] | None = None) -> Registry:
    """The registry of a selection of plugins; the same object for the same selection.

    Args:
        plugins: plugin ids in order; None: HIPDNN_EP_COMPILER_PLUGINS, else every installed plugin.

    Raises:
        HipCompilerError: `HIPC0400` to `HIPC0404`. A broken plugin that was not asked for by name is left out
            with a `PluginWarning` instead; a conflict always raises.
    """
    registry = survey(plugins)
    if len(registry.problems) == 1:
        raise registry.problems[0]
    if registry.problems:
        raise HipCompilerError(
            registry.problems[0].code,
            f"{len(registry.problems)} things are wrong with the selected plugins",
            details=[line for problem in registry.problems for line in str(problem).splitlines()],
        )
    return registry


def survey(plugins: Sequence[str] | None = None) -> Registry:
    """Like `load_registry`, for looking only: what is wrong is in `Registry.problems` and the plugins' records."""
    registry = _survey(select(plugins))
    for note in registry.notes:
        warnings.warn(note, PluginWarning, stacklevel=2)
    return registry


@lru_cache(maxsize=16)
def _survey(selection: Selection) -> Registry:
    return survey_of(installed(), selection)


def survey_of(available: Sequence[InstalledPlugin], selection: Selection) -> Registry:
    """The registry of a selection of given plugins, without a warning for what is left out."""
    problems: list[HipCompilerError] = []
    notes: list[str] = []
    records = [_builtin_record()]
    groups: list[tuple[InstalledPlugin, ...]] = []
    try:
        groups = chosen(selection, available)
    except HipCompilerError as error:
        problems.append(error)
    for group in groups:
        if len(group) > 1:
            double = _claimed_twice(group)
            problems.append(double)
            records += [_refused(_record(plugin, "refused"), double) for plugin in group]
            continue
        try:
            records.append(_register(group[0]))
        except HipCompilerError as error:
            records.append(_refused(_record(group[0], "refused"), error))
            _account(error, str(group[0]), selection, problems, notes)
    taken = {plugin for group in groups for plugin in group}
    records += [_record(plugin, "unselected") for plugin in available if plugin not in taken]
    return _merge(records, selection, problems, notes)


def _merge(
    records: list[PluginRecord], selection: Selection, problems: list[HipCompilerError], notes: list[str]
) -> Registry:
    """Check what can only be checked with every plugin in sight, and leave out what fails."""
    names = Names.of(records)
    for position, record in enumerate(records):
        try:
            audit_plugin(record, names)
        except HipCompilerError as error:
            records[position] = _refused(record, error)
            _account(error, str(record), selection, problems, notes)
    for conflict, parties in find_conflicts(records):
        problems.append(conflict)
        clashing = {party.id for party in parties}
        records = [_refused(record, conflict) if record.id in clashing else record for record in records]
    owners = {id(item): record for record in records for item in record.contributions}
    return Registry(tuple(records), tuple(problems), tuple(notes), owners)


def _account(
    error: HipCompilerError, owner: str, selection: Selection, problems: list[HipCompilerError], notes: list[str]
) -> None:
    """A plugin asked for by name must work; any other is left out, with a note."""
    if selection.explicit:
        problems.append(error)
    else:
        notes.append(f"{error}\n  the compile goes on without {owner}")


def _register(plugin: InstalledPlugin) -> PluginRecord:
    check_api(plugin)
    contributions = collect(str(plugin), plugin.entry_point.load)
    return replace(_record(plugin, "active"), contributions=contributions, files=_files(plugin))


def _files(plugin: InstalledPlugin) -> str:
    """What the files of a plugin that is imported are: lines of RECORD, without those about the installation itself.

    An editable installation lists no digest of its modules: there, the modules are read.
    """
    record = plugin.entry_point.dist.read_text("RECORD") if plugin.entry_point.dist is not None else None
    lines = [line for line in (record or "").splitlines() if ".dist-info/" not in line]
    if not any(".py," in line for line in lines):
        origin = getattr(sys.modules.get(plugin.entry_point.module), "__file__", None)
        lines += _source_digests(Path(origin)) if origin else []
    return "\n".join(lines)


def _source_digests(module: Path) -> list[str]:
    """Path and digest of a module, or of every module of a package."""
    paths = module.parent.rglob("*.py") if module.name == "__init__.py" else [module]
    return [f"{path},{hashlib.sha256(path.read_bytes()).hexdigest()}" for path in sorted(paths)]


def _record(plugin: InstalledPlugin, state: State, reason: str = "") -> PluginRecord:
    return PluginRecord(
        plugin.id, plugin.distribution, plugin.version, plugin.api, state, reason, domains=plugin.domains
    )


def _refused(record: PluginRecord, error: HipCompilerError) -> PluginRecord:
    if record.builtin:
        return record
    reason = f"{error.code.value}: {error.what}" + (f": {error.why}" if error.why else "")
    return replace(record, state="refused", reason=reason, contributions=())


def _builtin_record() -> PluginRecord:
    contributions = collect("the built-in plugin", lambda: importlib.import_module(BUILTIN))
    return PluginRecord("builtin", "hip-compiler", own_version(), f"v{API_VERSION}", "active", "", contributions)


def _claimed_twice(group: tuple[InstalledPlugin, ...]) -> HipCompilerError:
    owners = " and ".join(f"{plugin.distribution} {plugin.version}" for plugin in group)
    return HipCompilerError(
        ErrorCode.PLUGIN_CONFLICT,
        f"plugin id '{group[0].id}' is claimed by {owners}",
        hint="uninstall one of them",
    )
