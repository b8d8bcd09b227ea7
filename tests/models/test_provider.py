"""Pretrained networks through ONNX Runtime with our provider give ONNX Runtime's own numbers."""

from __future__ import annotations

import re

import onnxruntime
import pytest

from hip_compiler.core.conversion import ops as _converters  # noqa: F401  (fills the converter table)
from hip_compiler.core.conversion.onnx_op import CONVERTERS
from hip_compiler.ort import PROVIDER, register
from tests.models import Feeds, Model, find
from tests.models.test_accuracy import PRETRAINED, Reference, compare
from tests.ort.models import VERSION

# An operator of the network that is taken away from the compiler.
PARTIAL = {"minilm_l3": "Softmax", "ppocr_cls": "Softmax", "silero_seq": "LSTM", "mtcnn_pnet": "PRelu"}
LINE = re.compile(r"assigned (\d+)/(\d+) nodes; on CPU: (.*)")


class Provided:
    """ONNX Runtime with the provider."""

    def __init__(self, model: Model, **options: str) -> None:
        settings = onnxruntime.SessionOptions()
        settings.add_provider_for_devices(register(), options)
        self.session = onnxruntime.InferenceSession(str(model.path()), settings, enable_fallback=0)
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
    oracle, session = Reference(model.path()), Provided(model, **strict)
    for index in range(len(model.extents)):
        feeds = model.feeds(index)
        compare(session.run(feeds), oracle.run(feeds))


@pytest.mark.models
@pytest.mark.parametrize("key", PARTIAL)
def test_part_of_a_network(key: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delitem(CONVERTERS, ("", PARTIAL[key]))
    monkeypatch.setattr("hip_compiler.core.conversion.converter.function_body", lambda op: None)
    model = find(key)
    session = Provided(model)
    lines = LINE.findall(capfd.readouterr().err)
    assert len(lines) == 1
    assigned, nodes, left = int(lines[0][0]), int(lines[0][1]), lines[0][2]
    assert 0 < assigned < nodes
    assert f"{PARTIAL[key]} (" in left
    feeds = model.feeds()
    compare(session.run(feeds), Reference(model.path()).run(feeds))
