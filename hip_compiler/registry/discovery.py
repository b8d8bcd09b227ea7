"""Which plugins are installed, and which are selected. Reads distribution metadata; imports nothing of a plugin."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, EntryPoint, EntryPoints, distributions, entry_points

from hip_compiler import knobs
from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.registry.hookspecs import API_VERSION
from hip_compiler.registry.names import listing, nearest

PLUGIN_GROUP = "hip_compiler.plugins"
API_GROUP = "hip_compiler.api"
DOMAIN_GROUP = "hip_compiler.domains"


@dataclass(frozen=True)
class InstalledPlugin:
    """A plugin found in the metadata of an installed distribution.

    Attributes:
        id: name of the entry point.
        distribution: name of the distribution on the package index.
        api: value of the entry point of the same name in the group ``hip_compiler.api``; empty where there is none.
        entry_point: what to import.
        domains: ONNX domains whose operators it claims, as the group ``hip_compiler.domains`` tells.
    """

    id: str
    distribution: str
    version: str
    api: str
    entry_point: EntryPoint
    domains: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"plugin '{self.id}' of {self.distribution} {self.version}"


@dataclass(frozen=True)
class Selection:
    """Plugin ids in the order in which they take part.

    Attributes:
        ids: ids; None: every installed plugin, sorted by id.
        source: who asked for it, for messages.
    """

    ids: tuple[str, ...] | None
    source: str

    @property
    def explicit(self) -> bool:
        return self.ids is not None


def select(plugins: Sequence[str] | None) -> Selection:
    """The selection of a call: its own list, else HIPDNN_EP_COMPILER_PLUGINS, else everything installed."""
    if plugins is not None:
        return Selection(tuple(plugins), "plugins=")
    if knobs.PLUGINS.is_set():
        words = re.split("[;,]", knobs.PLUGINS.read())
        return Selection(tuple(word.strip() for word in words if word.strip()), knobs.PLUGINS.name)
    return Selection(None, "every installed plugin")


def installed(folders: Sequence[str] | None = None) -> tuple[InstalledPlugin, ...]:
    """Every plugin installed in folders (by default all of ``sys.path``), sorted by id, then distribution."""
    points = entry_points() if folders is None else _entry_points_of(folders)
    releases: dict[int, tuple[str, str]] = {}

    def release(distribution: Distribution) -> tuple[str, str]:
        """Name and version. Each look at them reads the metadata file anew, so there is one a distribution."""
        key = id(distribution)
        if key not in releases:
            metadata = distribution.metadata
            releases[key] = metadata["Name"], metadata["Version"]
        return releases[key]

    declared: dict[tuple[str, str], str] = {}
    for point in points.select(group=API_GROUP):
        if point.dist is not None:
            declared[release(point.dist)[0], point.name] = point.value
    domains: dict[tuple[str, str], tuple[str, ...]] = {}
    for point in points.select(group=DOMAIN_GROUP):
        if point.dist is not None:
            key = release(point.dist)[0], point.value
            domains[key] = (*domains.get(key, ()), point.name)
    found = []
    for point in points.select(group=PLUGIN_GROUP):
        if point.dist is not None:
            name, version = release(point.dist)
            api = declared.get((name, point.name), "")
            found.append(InstalledPlugin(point.name, name, version, api, point, domains.get((name, point.name), ())))
    return tuple(sorted(found, key=lambda plugin: (plugin.id, plugin.distribution)))


def _entry_points_of(folders: Sequence[str]) -> EntryPoints:
    return EntryPoints(point for found in distributions(path=list(folders)) for point in found.entry_points)


def chosen(selection: Selection, available: Iterable[InstalledPlugin]) -> list[tuple[InstalledPlugin, ...]]:
    """The selected plugins in order. An element holds several where distributions claim one id.

    Raises:
        HipCompilerError: `HIPC0401`, an id that is not installed; `HIPC0001`, an id listed twice.
    """
    by_id: dict[str, tuple[InstalledPlugin, ...]] = {}
    for plugin in available:
        by_id[plugin.id] = (*by_id.get(plugin.id, ()), plugin)
    if selection.ids is None:
        return list(by_id.values())
    for id_ in selection.ids:
        if selection.ids.count(id_) > 1:
            raise HipCompilerError(ErrorCode.USAGE, f"plugin '{id_}' is listed more than once", where=selection.source)
        if id_ not in by_id:
            raise HipCompilerError(
                ErrorCode.PLUGIN_UNKNOWN,
                f"no plugin '{id_}' is installed",
                where=selection.source,
                why=f"installed plugins: {listing(by_id)}",
                hint=nearest(id_, by_id) or "install the package that provides it, or take it off the list",
            )
    return [by_id[id_] for id_ in selection.ids]


def check_api(plugin: InstalledPlugin) -> None:
    """Refuse a plugin that was written for another version of the hooks.

    The declaration is an entry point, so that it is read without importing the plugin, and any build
    backend can write it: ``v1`` for version 1, ``v1.v3`` for versions 1 to 3.

    Raises:
        HipCompilerError: `HIPC0402`.
    """
    ours = f"this hip-compiler offers version {API_VERSION}"
    match = re.fullmatch(r"v(\d+)(?:\.v(\d+))?", plugin.api)
    if match is None:
        said = f"declares '{plugin.api}'" if plugin.api else "declares no version"
        raise HipCompilerError(
            ErrorCode.PLUGIN_API,
            f"{plugin} does not say which plugin API it was written for",
            why=f"it {said}; {ours}",
            hint=f'its pyproject.toml needs [project.entry-points."{API_GROUP}"] {plugin.id} = "v{API_VERSION}"',
        )
    first, last = int(match[1]), int(match[2] or match[1])
    if first <= API_VERSION <= last:
        return
    written = f"version {first}" if first == last else f"versions {first} to {last}"
    newer = first > API_VERSION
    raise HipCompilerError(
        ErrorCode.PLUGIN_API,
        f"{plugin} was written for {written} of the plugin API",
        why=ours,
        hint=("upgrade hip-compiler" if newer else f"upgrade {plugin.distribution}")
        + f", or leave '{plugin.id}' out of {knobs.PLUGINS.name}",
    )
