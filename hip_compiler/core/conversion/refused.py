"""Operators that are not compiled by decision, and why; the reasons stand in reports and in the documents."""

from __future__ import annotations

ML = "ai.onnx.ml"
_STRINGS = "it makes strings, which no kernel does: do it before or after the model"
_MAPS = "it works on maps, which no kernel handles: make the tensor that the map stands for an input"
_ZIP = (
    "its result is a list of maps, which no kernel makes: convert the model again with skl2onnx's option zipmap=False, "
    "or make the tensor that it reads an output: its columns are in the order of the node's class labels"
)

REFUSED: dict[tuple[str, str], str] = {
    ("", "ImageDecoder"): "pictures are decoded before the model",
    ("", "RegexFullMatch"): _STRINGS,
    ("", "StringConcat"): _STRINGS,
    ("", "StringNormalizer"): _STRINGS,
    ("", "StringSplit"): _STRINGS,
    (ML, "CastMap"): _MAPS,
    (ML, "DictVectorizer"): _MAPS,
    (ML, "ZipMap"): _ZIP,
    ("ai.onnx.preview.training", "Gradient"): "a model is compiled for inference, without differentiation",
}
"""Reason by domain and operator."""
