"""Random weights for the graphs of onnx's own tests, whose weights ConstantOfShape makes all alike.

Alike weights give alike outputs, which hide a wrong layout, a wrong axis and a wrong channel.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper


def with_random_weights(path: Path, seed: int = 0) -> onnx.ModelProto:
    """The model with every ConstantOfShape of a constant shape replaced by a float32 initialiser, drawn from a seed.

    Weights of two or more dimensions are scaled by their fan-in, so that values neither vanish nor grow from layer to
    layer; variances of BatchNormalization are positive.
    """
    model = onnx.load(path)
    rng = np.random.default_rng(seed)
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    variances = {node.input[4] for node in model.graph.node if node.op_type == "BatchNormalization"}
    kept = []
    for node in model.graph.node:
        shape = constants.get(node.input[0]) if node.op_type == "ConstantOfShape" else None
        if shape is None:
            kept.append(node)
            continue
        name = node.output[0]
        extents = tuple(int(extent) for extent in numpy_helper.to_array(shape))
        values = rng.uniform(0.5, 1.5, extents) if name in variances else _draw(rng, extents)
        model.graph.initializer.append(numpy_helper.from_array(values.astype(np.float32, copy=False), name))
    del model.graph.node[:]
    model.graph.node.extend(kept)
    return model


def _draw(rng: np.random.Generator, extents: tuple[int, ...]) -> NDArray[np.floating]:
    if len(extents) < 2:
        return rng.uniform(-0.2, 1.0, extents)
    fan_in = int(np.prod(extents[1:]))
    return rng.standard_normal(extents, np.float32) * np.float32(np.sqrt(2 / fan_in))
