"""A pipeline spelt out: named pipelines replaced by their elements, slots kept as `slot:NAME`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hip_compiler.core.options import CompileOptions
from hip_compiler.core.pipeline.text import MODULE, Element, elements_text, parse
from hip_compiler.registry.registry import Registry


def spell(registry: Registry, options: CompileOptions, text: str) -> str:
    """Text without named pipelines that runs the same passes. It must have been planned before.

    Raises:
        HipCompilerError: `HIPC0300`.
    """
    return f"{MODULE}({elements_text(_spelt(registry, options, parse(text)))})"


def _spelt(registry: Registry, options: CompileOptions, elements: Sequence[Element]) -> list[Element]:
    spelt: list[Element] = []
    for element in elements:
        if element.name in registry.pipelines:
            spelt += _spelt(registry, options, parse(registry.pipelines[element.name].build(options)))
        elif element.children is not None:
            spelt.append(replace(element, children=tuple(_spelt(registry, options, element.children))))
        else:
            spelt.append(element)
    return spelt
