"""Operators that are not compiled by decision, and why; the reasons stand in reports and in the documents."""

from __future__ import annotations

ML = "ai.onnx.ml"
_STRINGS = "it works on strings, which no kernel handles: do it before or after the model"
_MAPS = "it works on maps, which no kernel handles: take the tensor that it reads as an output"
_VECTORS = "support vector machines have no conversion"

REFUSED: dict[tuple[str, str], str] = {
    ("", "ImageDecoder"): "pictures are decoded before the model",
    ("", "RegexFullMatch"): _STRINGS,
    ("", "StringConcat"): _STRINGS,
    ("", "StringNormalizer"): _STRINGS,
    ("", "StringSplit"): _STRINGS,
    (ML, "CategoryMapper"): _STRINGS,
    (ML, "CastMap"): _MAPS,
    (ML, "DictVectorizer"): _MAPS,
    (ML, "ZipMap"): _MAPS,
    (ML, "SVMClassifier"): _VECTORS,
    (ML, "SVMRegressor"): _VECTORS,
    ("ai.onnx.preview.training", "Gradient"): "a model is compiled for inference, without differentiation",
}
"""Reason by domain and operator."""
