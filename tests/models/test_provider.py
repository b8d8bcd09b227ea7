"""Pretrained networks through ONNX Runtime with our provider give ONNX Runtime's own numbers."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnxruntime.datasets import get_example

from hip_compiler.core.conversion import ops as _converters  # noqa: F401  (fills the converter table)
from hip_compiler.core.conversion.onnx_op import CONVERTERS
from hip_compiler.ort import PROVIDER, register
from tests.models import Feeds, fetch, find
from tests.models.packages import SURFACES
from tests.models.test_accuracy import PRETRAINED, Reference, compare
from tests.models.weights import with_random_weights
from tests.ort.models import VERSION

# An operator of each network that is taken away from the compiler.
PARTIAL = {
    "minilm_l3": "Softmax",
    "minilm_l6_w8": "IsNaN",
    "magika": "Max",
    "nsfw_cnn": "MaxPool",
    "mtcnn_pnet": "PRelu",
    "mtcnn_rnet": "Flatten",
    "mtcnn_onet": "MaxPool",
    "vit_s": "Sigmoid",
    "ppocr_det": "ConvTranspose",
    "ppocr_rec": "AveragePool",
    "ppocr_cls": "Softmax",
    "silero_seq": "LSTM",
    "silero_if": "LSTM",
    "silero_op15": "LSTM",
    "silero_half": "LSTM",
    "silero_ifless": "Sqrt",
}
# `make test` takes those apart that are cut in a way of their own; `make thorough` the others too.
FURTHER = ("minilm_l6_w8", "nsfw_cnn", "mtcnn_onet", "vit_s", "ppocr_det", "ppocr_rec", "silero_op15")
# Of onnx's own graphs, those that differ in operators; `test_accuracy.py` compiles them all.
LIGHT = ("light_squeezenet", "light_shufflenet", "light_densenet121", "light_inception_v1")
LINE = re.compile(r"assigned (\d+)/(\d+) nodes; on CPU: (.*)")


class Provided:
    """ONNX Runtime with the provider."""

    def __init__(self, model: Path | bytes, **options: str) -> None:
        settings = onnxruntime.SessionOptions()
        settings.add_provider_for_devices(register(), options)
        source = model if isinstance(model, bytes) else str(model)
        self.session = onnxruntime.InferenceSession(source, settings, enable_fallback=0)
        assert self.session.get_providers()[0] == PROVIDER

    def run(self, feeds: Feeds) -> Feeds:
        """Outputs by name."""
        names = [output.name for output in self.session.get_outputs()]
        return dict(zip(names, self.session.run(names, feeds), strict=True))


@pytest.mark.models
@pytest.mark.parametrize("key", PRETRAINED)
def test_whole_network(key: str) -> None:
    model = find(key)
    # Before 1.27 ONNX Runtime hides from a fused node what its subgraphs read, so that some If nodes stay.
    strict = {"strict": "1"} if VERSION >= (1, 27, 0) else {}
    oracle, session = Reference(model.path()), Provided(model.path(), **strict)
    for index in range(len(model.extents)):
        feeds = model.feeds(index)
        compare(session.run(feeds), oracle.run(feeds))


@pytest.mark.models
@pytest.mark.parametrize(
    "key", [pytest.param(key, marks=pytest.mark.thorough) if key in FURTHER else key for key in PARTIAL]
)
def test_part_of_a_network(key: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delitem(CONVERTERS, ("", PARTIAL[key]))
    monkeypatch.setattr("hip_compiler.core.conversion.converter.function_body", lambda op: None)
    model = find(key)
    session = Provided(model.path())
    lines = LINE.findall(capfd.readouterr().err)
    assert len(lines) == 1
    assigned, nodes, left = int(lines[0][0]), int(lines[0][1]), lines[0][2]
    assert 0 < assigned < nodes
    # In the body of an If: it is the If that stays, for this reason unless ONNX Runtime had given another before.
    hidden = VERSION < (1, 27, 0) and "ONNX Runtime before 1.27 hides" in left
    assert hidden or re.search(rf"\b{PARTIAL[key]}( \(|: )", left)
    feeds = model.feeds()
    compare(session.run(feeds), Reference(model.path()).run(feeds))


@pytest.mark.parametrize("key", LIGHT)
def test_classifier_graph_with_random_weights(key: str) -> None:
    model = find(key)
    content = with_random_weights(model.path()).SerializeToString()
    feeds = model.feeds()
    compare(Provided(content, strict="1").run(feeds), Reference(content).run(feeds))


@pytest.mark.models
@pytest.mark.parametrize("member", SURFACES.files)
def test_classical_models(member: str) -> None:
    """Scalers, small networks and trees over four measurements."""
    path = fetch(SURFACES, member)
    session, oracle = Provided(path, strict="1"), Reference(path)
    for seed, rows in enumerate((1, 33)):
        feeds = {"input": np.random.default_rng(seed).uniform(0, 8, (rows, 4)).astype(np.float32)}
        compare(session.run(feeds), oracle.run(feeds))


@pytest.mark.parametrize("name", ["mul_1.onnx", "sigmoid.onnx"])
def test_onnx_runtimes_own_examples(name: str) -> None:
    path = Path(get_example(name))
    session, oracle = Provided(path, strict="1"), Reference(path)
    [info] = oracle.session.get_inputs()
    feeds = {info.name: np.random.default_rng(0).standard_normal(info.shape).astype(np.float32)}
    compare(session.run(feeds), oracle.run(feeds))


def test_results_that_are_maps_stay(capfd: pytest.CaptureFixture[str]) -> None:
    """ONNX Runtime's own example of a classifier, whose last node makes dictionaries."""
    path = Path(get_example("logreg_iris.onnx"))
    session = Provided(path)
    [(assigned, nodes, left)] = LINE.findall(capfd.readouterr().err)
    # Its coefficients are those of four features, its input has two: ONNX Runtime does not mind, the compiler does.
    assert 0 < int(assigned) < int(nodes)
    assert "ZipMap (ZipMap): its result 'probabilities' is no tensor" in left
    feeds = {"float_input": np.random.default_rng(0).uniform(0, 8, (3, 2)).astype(np.float32)}
    found = session.run(feeds)
    oracle = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    labels, chances = oracle.run(None, feeds)
    np.testing.assert_array_equal(found["label"], labels)
    assert [list(row) for row in found["probabilities"]] == [list(row) for row in chances]
    values = [[list(row.values()) for row in rows] for rows in (found["probabilities"], chances)]
    np.testing.assert_allclose(values[0], values[1], rtol=1e-5)
