"""One instance of every operator that ONNX's node cases do not show: inputs as texts, and attributes.

An input is ``dtype[shape]``; ``=N`` fills it with a number, other inputs hold small numbers of both signs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import NodeProto, helper

from hip_compiler.dtypes import BY_NAME

MICROSOFT, ML = "com.microsoft", "ai.onnx.ml"
Example = tuple[Sequence[str], dict[str, Any]]

_BYTES = ("float[]=0.5", "uint8[]=3")
_FOREST: dict[str, Any] = {
    "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_values": [0.5, 0.0, 0.0],
    "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0],
}  # fmt: skip


def _leaves(kind: str) -> dict[str, Any]:
    return {f"{kind}_treeids": [0, 0], f"{kind}_nodeids": [1, 2], f"{kind}_ids": [0, 1], f"{kind}_weights": [1.0, 2.0]}


EXAMPLES: dict[tuple[str, str], Example] = {
    ("", "Bernoulli"): (["float[64]=0.5"], {}),
    ("", "GlobalLpPool"): (["float[1,2,3,3]"], {"p": 3}),
    ("", "MaxRoiPool"): (["float[1,2,4,4]", "float[1,5]=0"], {"pooled_shape": [2, 2]}),
    ("", "Multinomial"): (["float[2,3]"], {"sample_size": 4}),
    ("", "RandomNormal"): ([], {"shape": [2, 3]}),
    ("", "RandomNormalLike"): (["float[2,3]"], {}),
    ("", "RandomUniform"): ([], {"shape": [2, 3]}),
    ("", "RandomUniformLike"): (["float[2,3]"], {}),
    ("", "SimplifiedLayerNormalization"): (["float[2,4]", "float[4]"], {}),
    (ML, "CategoryMapper"): (["int64[3]=1"], {"cats_strings": ["a", "b"], "cats_int64s": [0, 1]}),
    (ML, "FeatureVectorizer"): (["float[2,1]", "float[2,2]"], {"inputdimensions": [1, 2]}),
    (ML, "Imputer"): (["float[2,3]"], {"imputed_value_floats": [1.0], "replaced_value_float": 0.5}),
    (ML, "LabelEncoder"): (["int64[3]=1"], {"keys_int64s": [0, 1], "values_int64s": [5, 7]}),
    (ML, "LinearClassifier"): (
        ["float[2,3]"],
        {"coefficients": [1.0] * 6, "intercepts": [0.0, 1.0], "classlabels_ints": [0, 1]},
    ),
    (ML, "LinearRegressor"): (["float[2,3]"], {"coefficients": [1.0, 2.0, 3.0]}),
    (ML, "Normalizer"): (["float[2,3]"], {"norm": "L2"}),
    (ML, "OneHotEncoder"): (["int64[3]=1"], {"cats_int64s": [0, 1]}),
    (ML, "Scaler"): (["float[2,3]"], {"offset": [1.0], "scale": [2.0]}),
    (ML, "SVMClassifier"): (
        ["float[2,2]"],
        {
            "coefficients": [1.0, 2.0],
            "support_vectors": [1.0, 2.0, 3.0, 1.0],
            "vectors_per_class": [1, 1],
            "rho": [0.5],
            "kernel_params": [0.5, 1.0, 2.0],
            "kernel_type": "POLY",
            "prob_a": [-1.0],
            "prob_b": [0.5],
            "classlabels_ints": [3, 4],
        },
    ),
    (ML, "SVMRegressor"): (
        ["float[2,2]"],
        {
            "coefficients": [1.0, 2.0],
            "support_vectors": [1.0, 2.0, 3.0, 1.0],
            "n_supports": 2,
            "rho": [0.5],
            "kernel_params": [0.5, 1.0, 2.0],
            "kernel_type": "RBF",
        },
    ),
    (ML, "TreeEnsembleClassifier"): (["float[2,2]"], {**_FOREST, **_leaves("class"), "classlabels_int64s": [0, 1]}),
    (ML, "TreeEnsembleRegressor"): (["float[2,2]"], {**_FOREST, **_leaves("target"), "n_targets": 2}),
    (MICROSOFT, "Attention"): (["float[1,2,4]", "float[4,12]", "float[12]"], {"num_heads": 2}),
    (MICROSOFT, "BiasGelu"): (["float[2,4]", "float[4]"], {}),
    (MICROSOFT, "BiasSplitGelu"): (["float[1,2,8]", "float[8]"], {}),
    (MICROSOFT, "CausalConvWithState"): (["float[1,2,5]", "float[2,1,3]"], {}),
    (MICROSOFT, "DynamicQuantizeMatMul"): (["float[2,4]", "int8[4,3]", "float[1]"], {}),
    (MICROSOFT, "EmbedLayerNormalization"): (
        ["int32[1,3]=1", "", "float[5,4]", "float[3,4]", "", "float[4]", "float[4]"],
        {},
    ),
    (MICROSOFT, "FastGelu"): (["float[2,4]", "float[4]"], {}),
    (MICROSOFT, "FusedConv"): (["float[1,1,4,4]", "float[2,1,3,3]"], {"activation": "Relu"}),
    (MICROSOFT, "FusedMatMul"): (["float[2,3]", "float[4,3]"], {"transB": 1, "alpha": 0.5}),
    (MICROSOFT, "GatherBlockQuantized"): (["uint8[4,8]", "int64[2]=1", "float[4,1]"], {"block_size": 16}),
    (MICROSOFT, "Gelu"): (["float[2,4]"], {}),
    (MICROSOFT, "GemmFloat8"): (["float[2,3]", "float[4,3]", "float[2,4]"], {"transB": 1, "beta": 0.5}),
    (MICROSOFT, "GroupNorm"): (["float[1,2,2,4]", "float[4]", "float[4]"], {"groups": 2, "activation": 0}),
    (MICROSOFT, "GroupQueryAttention"): (
        ["float[1,2,8]", "float[1,2,4]", "float[1,2,4]", "", "", "int32[1]=1", "int32[]=2"],
        {"num_heads": 2, "kv_num_heads": 1},
    ),
    (MICROSOFT, "LinearAttention"): (
        ["float[1,2,4]", "float[1,2,4]", "float[1,2,4]"],
        {"update_rule": "linear", "q_num_heads": 2, "kv_num_heads": 2},
    ),
    (MICROSOFT, "MatMulIntegerToFloat"): (["uint8[2,4]", "int8[4,3]", "float[]", "float[]"], {}),
    (MICROSOFT, "MatMulNBits"): (
        ["float[2,32]", "uint8[3,1,16]", "float[3]"],
        {"K": 32, "N": 3, "bits": 4, "block_size": 32},
    ),
    (MICROSOFT, "MoE"): (["float[2,8]", "float[2,2]", "float[2,6,8]", "", "float[2,8,6]"], {"k": 1}),
    (MICROSOFT, "QMoE"): (
        ["float[2,32]", "float[2,2]", "uint8[2,48,16]", "float[2,48]", "", "uint8[2,32,24]", "float[2,32]"],
        {"k": 1, "expert_weight_bits": 4, "weights_prepacked": 0, "activation_type": "identity"},
    ),
    (MICROSOFT, "MultiHeadAttention"): (["float[1,2,4]", "float[1,3,4]", "float[1,3,4]"], {"num_heads": 2}),
    (MICROSOFT, "QGemm"): (["uint8[2,4]", *_BYTES, "uint8[4,3]", *_BYTES], {}),
    (MICROSOFT, "QLinearAdd"): (["uint8[2,4]", *_BYTES, "uint8[4]", *_BYTES, *_BYTES], {}),
    (MICROSOFT, "QLinearAveragePool"): (["uint8[1,1,4,4]", *_BYTES, *_BYTES], {"kernel_shape": [2, 2]}),
    (MICROSOFT, "QLinearConcat"): ([*_BYTES, "uint8[2]", *_BYTES, "uint8[3]", *_BYTES], {"axis": 0}),
    (MICROSOFT, "QLinearGlobalAveragePool"): (["uint8[1,2,4,4]", *_BYTES, *_BYTES], {}),
    (MICROSOFT, "QLinearLeakyRelu"): (["uint8[4]", *_BYTES, *_BYTES], {}),
    (MICROSOFT, "QLinearMul"): (["uint8[2,4]", *_BYTES, "uint8[4]", *_BYTES, *_BYTES], {}),
    (MICROSOFT, "QLinearSigmoid"): (["uint8[4]", *_BYTES, *_BYTES], {}),
    (MICROSOFT, "QuickGelu"): (["float[2,4]"], {}),
    (MICROSOFT, "RotaryEmbedding"): (["float[1,2,4]", "int64[1]=1", "float[4,2]", "float[4,2]"], {}),
    (MICROSOFT, "SimplifiedLayerNormalization"): (["float[2,4]", "float[4]"], {}),
    (MICROSOFT, "SkipGroupNorm"): (
        ["float[1,2,2,4]", "float[4]", "float[4]", "float[1,2,2,4]"],
        {"groups": 2, "activation": 1},
    ),
    (MICROSOFT, "SkipLayerNormalization"): (["float[1,2,4]", "float[1,2,4]", "float[4]", "float[4]"], {}),
    (MICROSOFT, "SkipSimplifiedLayerNormalization"): (["float[1,2,4]", "float[1,2,4]", "float[4]"], {}),
}
"""By domain and operator."""

SEQUENCES = """
    rows = SplitToSequence <axis = 0> (sequence_x)
    zero = Constant <value_int = 0> ()
    first = SequenceAt (rows, zero)
    empty = SequenceEmpty ()
    one = SequenceInsert (empty, first)
    two = SequenceConstruct (first, first)
    doubled = SequenceMap <body = b (float[1, 3] a) => (float[1, 3] s) { s = Add (a, a) }> (two)
    less = SequenceErase (doubled)
    count = SequenceLength (less)
    maybe = Optional (first)
    there = OptionalHasElement (maybe)
    got = OptionalGetElement (maybe)
    whole = ConcatFromSequence <axis = 0> (doubled)
"""
"""The operators on sequences and optionals, which only make sense together; reads ``sequence_x`` float[2, 3]."""


def instance(domain: str, op: str, example: Example, name: str) -> tuple[NodeProto, dict[str, np.ndarray]]:
    """A node of the name with one result of the name, and what it reads, by input name."""
    texts, attributes = example
    feeds = {f"{name}_{i}": _array(text, i) for i, text in enumerate(texts) if text}
    inputs = [f"{name}_{i}" if text else "" for i, text in enumerate(texts)]
    outputs = [name, f"{name}_scores"] if op.endswith("Classifier") else [name]
    return helper.make_node(op, inputs, outputs, name, domain=domain, **attributes), feeds


def _array(text: str, seed: int) -> np.ndarray:
    kind, _, rest = text.partition("[")
    extents, _, filling = rest.partition("]")
    shape = tuple(int(extent) for extent in extents.split(",") if extent)
    dtype = BY_NAME[kind].numpy
    if filling:
        return np.full(shape, float(filling[1:])).astype(dtype)
    rng = np.random.default_rng(seed)
    numbers = rng.uniform(0.25, 2, shape) if kind == "float" else rng.integers(0, 9, shape)
    return np.asarray(numbers).astype(dtype)
