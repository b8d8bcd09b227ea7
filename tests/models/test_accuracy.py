"""Pretrained networks give ONNX Runtime's numbers, at every extent, from one compilation."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import hip_compiler
from tests.models import CATALOG, Feeds, Model, find
from tests.models.weights import with_random_weights

BASELINE = Path(__file__).parents[2] / "benchmarks" / "conformance_baseline.json"
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
LISTENERS = (
    "wake_mel",
    "wake_embedding",
    "wake_silero",
    "wake_alexa",
    "wake_jarvis",
    "wake_marvin",
    "wake_mycroft",
    "wake_timer",
    "wake_weather",
)
TABLES = ("table_boosting", "table_classifier", "table_neighbours", "table_forest")
# VGG-19 and ZFNet-512 weigh half a gigabyte each: `make conformance` runs them.
GRAPHS = (
    "light_squeezenet",
    "light_shufflenet",
    "light_resnet50",
    "light_densenet121",
    "light_inception_v1",
    "light_inception_v2",
    "light_alexnet",
)


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


def compare(outputs: Feeds, expected: Feeds, least: float = 0.0) -> None:
    """Errors are relative to the largest number of an output, or to `least`."""
    assert list(outputs) == list(expected)
    for name, value in expected.items():
        assert outputs[name].dtype == value.dtype, name
        assert outputs[name].shape == value.shape, name
        scale = max(float(np.max(np.abs(value))), least)
        error = float(np.max(np.abs(outputs[name].astype(np.float64) - value.astype(np.float64)))) / scale
        assert error < TOLERANCE, f"{name} differs by {error:.1e} of its scale"


@pytest.mark.models
@pytest.mark.parametrize("key", [*PRETRAINED, *LISTENERS, *TABLES])
def test_pretrained_network_at_every_extent(key: str) -> None:
    model: Model = find(key)
    oracle = Reference(model.path())
    session = hip_compiler.compile(model.path())
    for index in range(len(model.extents)):
        for seed in (0, 1):
            feeds = model.feeds(index, seed)
            # ONNX Runtime's sigmoid is off by up to 1 % of a probability near 0; ours agrees with float64 there.
            compare(session.run(feeds), oracle.run(feeds), 1.0 if key in LISTENERS else 0.0)


@pytest.mark.parametrize("key", GRAPHS)
def test_classifier_graph_with_random_weights(key: str) -> None:
    model = find(key)
    proto: onnx.ModelProto = with_random_weights(model.path())
    feeds = model.feeds()
    compare(hip_compiler.compile(proto).run(feeds), Reference(proto.SerializeToString()).run(feeds))


def test_every_network_of_the_catalogue_is_compared() -> None:
    elsewhere = {"light_vgg19", "light_zfnet512"}
    assert {*PRETRAINED, *LISTENERS, *TABLES, *GRAPHS} | elsewhere == {model.key for model in CATALOG}
    passed = json.loads(BASELINE.read_text())["passed"]
    assert {f"test_{key.removeprefix('light_')}" for key in elsewhere} <= set(passed)


def iris() -> onnx.ModelProto:
    """ONNX Runtime's own example: a linear classifier, a normalizer, and a map for every row."""
    return onnx.load(Path(onnxruntime.__file__).parent / "datasets" / "logreg_iris.onnx")


def test_a_classifier_before_its_maps() -> None:
    """Its input says 2 features where the weights are for 4, and maps are no tensors: without those it compiles."""
    model = iris()
    assert model.graph.node.pop().op_type == "ZipMap"
    model.graph.output.pop()
    model.graph.output.append(onnx.helper.make_empty_tensor_value_info("probability_tensor_normalized"))
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 4
    model.opset_import.append(onnx.helper.make_opsetid("", 17))
    feeds = {"float_input": np.random.default_rng(0).uniform(0, 7, (3, 4)).astype(np.float32)}
    compare(hip_compiler.compile(model).run(feeds), Reference(model.SerializeToString()).run(feeds))


def test_a_classifier_whose_features_do_not_fit_is_refused() -> None:
    with pytest.raises(hip_compiler.UnsupportedError, match="features and coefficients: extents 2 and 4 differ"):
        hip_compiler.compile(iris())
