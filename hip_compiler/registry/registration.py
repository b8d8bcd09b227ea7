"""Asking one plugin what it contributes, and checking each contribution by itself.

A plugin is alone in the hook manager while it is asked: rolling it back is forgetting its answers, nothing another
plugin registered can change them, and the order of the calls is ours rather than pluggy's last-in-first-out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pluggy

from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.registry import hookspecs
from hip_compiler.registry.contributions import (
    BitcodeContribution,
    Contribution,
    DialectContribution,
    KernelContribution,
    LibraryContribution,
    PassContribution,
    PipelineContribution,
    SlotRequest,
    TargetContribution,
)
from hip_compiler.registry.libraries import find_library
from hip_compiler.registry.names import nearest
from hip_compiler.registry.slot import PipelineSlot

PASS_NAME = re.compile(r"[A-Za-z_][\w.\-]*")


def collect(owner: str, load: Callable[[], Any]) -> tuple[Contribution, ...]:
    """Import a plugin, call its hooks, and check what they return.

    Args:
        owner: the plugin in words, for messages.
        load: imports the plugin and returns its module or object.

    Raises:
        HipCompilerError: `HIPC0400`, it cannot be imported or a hook fails; `HIPC0404`, a contribution breaks a rule.
    """
    try:
        plugin = load()
        if isinstance(plugin, type):
            plugin = plugin()
    except (Exception, SystemExit) as error:
        raise _broken(f"{owner} cannot be imported", error) from error
    _check_marked(owner, plugin)
    manager = _manager()
    try:
        manager.register(plugin, name="plugin")
        manager.check_pending()
        implementations = {hook: getattr(manager.hook, hook).get_hookimpls() for hook in hookspecs.HOOKS}
    except pluggy.PluginValidationError as error:
        # Half registered as it may be now, the manager is of no more use.
        _manager.cache_clear()
        raise HipCompilerError(
            ErrorCode.PLUGIN_BROKEN,
            f"{owner} implements a hook that does not fit",
            why=" ".join(str(error).split()),
            hint=_nearest_hook(manager, plugin),
        ) from error
    manager.unregister(plugin)
    contributions: list[Contribution] = []
    for hook, kind in hookspecs.HOOKS.items():
        for implementation in implementations[hook]:
            contributions += _call(owner, hook, kind, implementation.function)
    for contribution in contributions:
        problem = check(contribution)
        if problem:
            raise HipCompilerError(
                ErrorCode.PLUGIN_AUDIT, f"{owner} contributes something that breaks the rules", why=problem
            )
    return tuple(contributions)


class _Manager(pluggy.PluginManager):
    """pluggy looks at every name of a plugin with care, which is slow; most names of a module are no hooks."""

    def parse_hookimpl_opts(self, plugin: Any, name: str) -> Any:
        plain = isinstance(plugin, ModuleType) and not hasattr(vars(plugin).get(name), f"{hookspecs.PROJECT}_impl")
        return None if plain else super().parse_hookimpl_opts(plugin, name)


@cache
def _manager() -> pluggy.PluginManager:
    manager = _Manager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    return manager


def _call(owner: str, hook: str, kind: type, function: Callable[[], Any]) -> list[Any]:
    try:
        answer = function()
        elements = list(answer) if isinstance(answer, (list, tuple)) else None
    except (Exception, SystemExit) as error:
        raise _broken(f"hook {hook} of {owner} failed", error) from error
    if elements is None:
        raise HipCompilerError(
            ErrorCode.PLUGIN_BROKEN,
            f"hook {hook} of {owner} returned {type(answer).__name__}",
            hint=f"return a list of {kind.__name__}",
        )
    for element in elements:
        if not isinstance(element, kind):
            raise HipCompilerError(
                ErrorCode.PLUGIN_BROKEN,
                f"hook {hook} of {owner} returned a list with {type(element).__name__} in it",
                hint=f"every element is a {kind.__name__}",
            )
    return elements


def _broken(what: str, error: BaseException) -> HipCompilerError:
    if isinstance(error, HipCompilerError):
        return HipCompilerError(error.code, f"{what}: {error.what}", why=error.why, hint=error.hint)
    return HipCompilerError(ErrorCode.PLUGIN_BROKEN, what, why=f"{type(error).__name__}: {error}")


def _check_marked(owner: str, plugin: Any) -> None:
    """A hook function without its decorator is invisible to pluggy, and so would vanish in silence."""
    for name in dir(plugin):
        unmarked = name.startswith("hip_compiler_") and not hasattr(getattr(plugin, name), f"{hookspecs.PROJECT}_impl")
        if unmarked and callable(getattr(plugin, name)):
            raise HipCompilerError(
                ErrorCode.PLUGIN_BROKEN,
                f"{owner} defines {name} without @hookimpl",
                hint="decorate it: from hip_compiler.plugin import hookimpl",
            )


def _nearest_hook(manager: pluggy.PluginManager, plugin: Any) -> str:
    for name in dir(plugin):
        if name not in hookspecs.HOOKS and manager.parse_hookimpl_opts(plugin, name) is not None:
            return nearest(name, hookspecs.HOOKS) or f"the hooks are {', '.join(hookspecs.HOOKS)}"
    return "hooks take no arguments"


def check(contribution: Contribution) -> str | None:
    """What is wrong with a contribution, looked at by itself; None when nothing is."""
    match contribution:
        case PassContribution(name=name) | PipelineContribution(name=name):
            return _check_pass(contribution, name)
        case SlotRequest(slot=slot, pipeline=pipeline):
            if slot not in list(PipelineSlot):
                hint = nearest(str(slot), PipelineSlot) or f"slots are {', '.join(PipelineSlot)}"
                return f"there is no slot '{slot}'; {hint}"
            return None if pipeline.strip() else f"the request for slot {slot} has no pipeline text"
        case DialectContribution():
            return _check_dialect(contribution)
        case LibraryContribution():
            missing = find_library(contribution)
            return missing if isinstance(missing, str) else None
        case BitcodeContribution(name=name, source=source) | KernelContribution(name=name, source=source):
            return f"{name}: {source} is not a file" if isinstance(source, Path) and not source.is_file() else None
        case TargetContribution(name=name, runtime_bitcode=runtime, linker=linker):
            if not PASS_NAME.fullmatch(name):
                return f"'{name}' is no name of a target"
            wrong = [
                w for w, f in (("runtime_bitcode", runtime), ("linker", linker)) if f is not None and not callable(f)
            ]
            return f"target '{name}': {wrong[0]} is no function" if wrong else None
    return None


def _check_pass(contribution: PassContribution | PipelineContribution, name: str) -> str | None:
    if not PASS_NAME.fullmatch(name):
        return f"'{name}' is no name of a pass: letters, digits, '-', '_' and '.'"
    if isinstance(contribution, PassContribution) and contribution.anchor not in ("builtin.module", "func.func"):
        return f"pass '{name}' has anchor '{contribution.anchor}'; it is builtin.module or func.func"
    return None


def _check_dialect(dialect: DialectContribution) -> str | None:
    for name in dialect.op_names:
        if not name.startswith(f"{dialect.name}."):
            return f"operation '{name}' of dialect '{dialect.name}' does not start with '{dialect.name}.'"
    return None
