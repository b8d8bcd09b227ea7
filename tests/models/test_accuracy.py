"""Pretrained networks give ONNX Runtime's numbers, at every extent, from one compilation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import hip_compiler
from tests.models import Feeds, Model, find
from tests.models.weights import with_random_weights

# Of the output's scale, for float32 networks.
TOLERANCE = 1e-4

PRETRAINED = (
    "minilm_l3",
    "minilm_l6_w8",
    "magika",
    "nsfw_cnn",
    "mtcnn_pnet",
    "mtcnn_rnet",
    "mtcnn_onet",
    "vit_s",
    "ppocr_det",
    "ppocr_rec",
    "ppocr_cls",
    "silero_seq",
    "silero_if",
    "silero_op15",
    "silero_half",
    "silero_ifless",
)
GRAPHS = ("light_squeezenet", "light_shufflenet", "light_resnet50")


class Reference:
    """ONNX Runtime, as the oracle."""

    def __init__(self, model: Path | bytes) -> None:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        source = model if isinstance(model, bytes) else str(model)
        self.session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])

    def run(self, feeds: Feeds) -> Feeds:
        """Outputs by name; fails when they are of no use as an oracle."""
        names = [output.name for output in self.session.get_outputs()]
        outputs = dict(zip(names, self.session.run(names, feeds), strict=True))
        for name, value in outputs.items():
            assert np.all(np.isfinite(value)), f"the oracle's {name} is not finite"
            assert np.any(value), f"the oracle's {name} is all zeros"
        return outputs


def compare(outputs: Feeds, expected: Feeds) -> None:
    assert list(outputs) == list(expected)
    for name, value in expected.items():
        assert outputs[name].dtype == value.dtype, name
        assert outputs[name].shape == value.shape, name
        scale = float(np.max(np.abs(value)))
        error = float(np.max(np.abs(outputs[name].astype(np.float64) - value.astype(np.float64)))) / scale
        assert error < TOLERANCE, f"{name} differs by {error:.1e} of its scale"


@pytest.mark.models
@pytest.mark.parametrize("key", PRETRAINED)
def test_pretrained_network_at_every_extent(key: str) -> None:
    model: Model = find(key)
    oracle = Reference(model.path())
    session = hip_compiler.compile(model.path())
    for index in range(len(model.extents)):
        for seed in (0, 1):
            feeds = model.feeds(index, seed)
            compare(session.run(feeds), oracle.run(feeds))


@pytest.mark.parametrize("key", GRAPHS)
def test_classifier_graph_with_random_weights(key: str) -> None:
    model = find(key)
    proto: onnx.ModelProto = with_random_weights(model.path())
    feeds = model.feeds()
    compare(hip_compiler.compile(proto).run(feeds), Reference(proto.SerializeToString()).run(feeds))
