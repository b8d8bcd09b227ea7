"""onnxruntime-genai with our provider: the tokens of its CPU provider, on the host and on a GPU, which is emulated.

Each case is a process of its own, as genai keeps what was registered with it until the process ends. Needs genai and
the graphs of its builder: `make llm-models`, then `make llm-test`.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

import pytest

from hip_compiler.runtime.native import FOLDER
from tests.models.genai import built_folder

pytestmark = pytest.mark.llm

CODE = """
import json, os, sys
import onnxruntime_genai as genai
from hip_compiler.ort import PROVIDER, connect

folder, how, length = sys.argv[1], sys.argv[2], int(sys.argv[3])
hip = None
if how == "gpu":
    from tests.fake_hip import FakeHip, build_library
    from tests.kernels.harness import CACHE

    library = build_library(CACHE / "fake_hip")
    os.environ["HIPC_HIP_LIBRARY"] = os.environ["HIPC_HIPBLASLT_LIBRARY"] = str(library)
    hip = FakeHip(("gfx1151",), load=None)
    hip.install(library)
genai.register_execution_provider_library(PROVIDER, str(connect()))
config = genai.Config(folder)
config.clear_providers()
if how != "plain":
    config.append_provider(PROVIDER)
    config.set_provider_option(PROVIDER, "strict", "1")
if how == "gpu":
    config.set_decoder_provider_options_hardware_device_type(PROVIDER, "gpu")
model = genai.Model(config)
settings = genai.GeneratorParams(model)
settings.set_search_options(max_length=length, do_sample=False)
generator = genai.Generator(model, settings)
generator.append_tokens([5, 6, 7])
while not generator.is_done():
    generator.generate_next_token()
launched = len(hip.launches) if hip else 0
print(json.dumps([[int(token) for token in generator.get_sequence(0)], launched, hip.findings if hip else []]))
"""


def generated(key: str, how: str, length: int) -> tuple[list[int], int, list[str]]:
    """Tokens, the kernels that ran, and what the emulated GPU found."""
    if importlib.util.find_spec("onnxruntime_genai") is None:
        pytest.skip("onnxruntime-genai is not installed: make llm-models")
    folder = built_folder(key)
    if folder is None:
        pytest.skip(f"the graph {key} is not built: make llm-models")
    words = [sys.executable, "-c", CODE, str(folder), how, str(length)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    tokens, launched, findings = json.loads(done.stdout.splitlines()[-1])
    return tokens, launched, findings


@pytest.mark.parametrize("key", ["tiny-llama-fp32", "tiny-qwen3-fp32", "tiny-phi3-fp32", "smollm2-fp32"])
def test_tokens_on_the_host(key: str) -> None:
    tokens, _, _ = generated(key, "host", 40)
    assert len(tokens) > 6 and tokens == generated(key, "plain", 40)[0]


@pytest.mark.skipif(
    not (FOLDER / "kernels.pack").is_file(), reason="kernels.pack is not built: python kernels/build.py"
)
def test_tokens_on_a_gpu() -> None:
    tokens, launched, findings = generated("tiny-llama-fp32", "gpu", 7)
    assert launched > 100 and findings == []
    assert len(tokens) > 5 and tokens == generated("tiny-llama-fp32", "plain", 7)[0]
