"""The module attribute `hip.interface`: what goes into a compiled model, and what comes out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

ATTRIBUTE = "hip.interface"
ENTRY = "main_graph"


@dataclass(frozen=True)
class TensorSpecification:
    """One input or output.

    Attributes:
        name: name in the model.
        dtype: ONNX element type.
        shape: extents; a string names a symbol.
    """

    name: str
    dtype: int
    shape: tuple[int | str, ...]


@dataclass(frozen=True)
class Interface:
    """Inputs and outputs in the order of the ABI; `text` is the JSON they were read from."""

    inputs: tuple[TensorSpecification, ...]
    outputs: tuple[TensorSpecification, ...]
    text: str

    def symbols(self) -> tuple[str, ...]:
        """Symbols of the inputs, numbered by first appearance."""
        names = (extent for spec in self.inputs for extent in spec.shape if isinstance(extent, str))
        return tuple(dict.fromkeys(names))


def read_interface(module: Any) -> Interface | None:
    """The interface of a module, or None where it has none."""
    if ATTRIBUTE not in module.attributes:
        return None
    text = module.attributes[ATTRIBUTE].value
    document = json.loads(text)
    return Interface(_specifications(document["inputs"]), _specifications(document["outputs"]), text)


def _specifications(entries: list[dict[str, Any]]) -> tuple[TensorSpecification, ...]:
    return tuple(TensorSpecification(entry["name"], entry["dtype"], tuple(entry["shape"])) for entry in entries)
