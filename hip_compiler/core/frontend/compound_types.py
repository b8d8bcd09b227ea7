"""Types that MLIR has no tensor type for, as text: `optional(seq(float[5, N]))`, `string[N]`, `seq(float[...])`."""

from __future__ import annotations

import re
from dataclasses import dataclass

import onnx

from hip_compiler.dtypes import BY_NAME, BY_ONNX, DType

_TENSOR = re.compile(r"(\w+)\[(.*)\]")


@dataclass(frozen=True)
class CompoundType:
    """A sequence of tensors, an optional tensor, or an optional sequence of tensors; or a tensor of strings.

    Attributes:
        dtype: element type of the tensors.
        shape: their shape, "?" for an extent that has no name; None: not known.
    """

    sequence: bool
    optional: bool
    dtype: DType
    shape: tuple[int | str, ...] | None


def type_text(proto: onnx.TypeProto) -> str:
    """The text of a type; what is no tensor, sequence or optional is `?`."""
    kind = proto.WhichOneof("value")
    if kind == "sequence_type":
        return f"seq({type_text(proto.sequence_type.elem_type)})"
    if kind == "optional_type":
        return f"optional({type_text(proto.optional_type.elem_type)})"
    if kind != "tensor_type" or proto.tensor_type.elem_type not in BY_ONNX:
        return "?"
    tensor = proto.tensor_type
    name = BY_ONNX[tensor.elem_type].name
    if not tensor.HasField("shape"):
        return f"{name}[...]"
    extents = (str(d.dim_value) if d.HasField("dim_value") else d.dim_param or "?" for d in tensor.shape.dim)
    return f"{name}[{', '.join(extents)}]"


def parse_compound(text: str) -> CompoundType | None:
    """The type of a text of `type_text`; None where it is a tensor of numbers, another type, or nested deeper."""
    optional, text = _inside("optional", text)
    sequence, text = _inside("seq", text)
    match = _TENSOR.fullmatch(text)
    dtype = None if match is None else BY_NAME.get(match[1])
    if match is None or dtype is None or not (optional or sequence or dtype.kind == "string"):
        return None
    shape = None
    if match[2] != "...":
        words = match[2].split(", ") if match[2] else []
        shape = tuple(int(word) if word.isdigit() else word for word in words)
    return CompoundType(sequence, optional, dtype, shape)


def _inside(word: str, text: str) -> tuple[bool, str]:
    holds = text.startswith(f"{word}(") and text.endswith(")")
    return holds, text[len(word) + 1 : -1] if holds else text
