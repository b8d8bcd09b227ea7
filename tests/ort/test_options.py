"""Options of sessions: each has its effect. Those that cannot be taken are in test_sessions and test_guards."""

from __future__ import annotations

import gc
import importlib
import os
import re
from pathlib import Path

import numpy as np
import onnx
import pytest

from hip_compiler.core.options import CompileOptions
from hip_compiler.core.pipeline import spell
from hip_compiler.ort import OPTIONS, compile_context
from hip_compiler.registry.registry import load_registry
from hip_compiler.runtime.cpu import host
from hip_compiler.slots.builtin import DEFAULT
from hip_compiler.toolchain import native_level
from tests.ort.models import INNER, check, make, node, product, session, values

SHOWN_BY = {
    "target": "tests.gpu_runtime.test_provider_memory:test_the_gpu_is_never_a_guess",
    "device_id": "tests.gpu_runtime.test_provider_memory:test_options_choose_among_devices",
    "arch": "tests.gpu_runtime.test_provider:test_a_session_on_a_gpu",
    "cpu": "tests.ort.test_options:test_cpu",
    "plugins": "tests.plugins.test_provider:test_plugins",
    "pipeline": "tests.ort.test_options:test_pipeline",
    "opt_level": "tests.ort.test_options:test_opt_level",
    "num_threads": "tests.ort.test_options:test_num_threads",
    "cache_dir": "tests.ort.test_sessions:test_compiled_models_are_kept_and_found_again",
    "graph_capture": "tests.gpu_runtime.test_provider_memory:test_the_session_runs_on_the_device_that_it_was_given",
    "kv_share": "tests.ort.test_sessions:test_a_cache_grows_in_its_own_buffer",
    "host_accessible_inputs": "tests.gpu_runtime.test_provider_memory:test_a_decoder_whose_caches_stay_on_the_device",
    "strict": "tests.ort.test_partial:test_strict_is_an_error",
    "static_pad_prefill": "tests.gpu_runtime.test_provider_padding:test_prompts_of_many_lengths_are_one_graph",
    "model_arch": "tests.gpu_runtime.test_provider_padding:test_model_arch_says_what_a_model_must_be",
    "profile": "tests.ort.test_profile:test_a_file_of_their_own",
}


def test_every_option_has_a_test() -> None:
    assert list(SHOWN_BY) == [option.name for option in OPTIONS]
    for place in SHOWN_BY.values():
        module, _, name = place.partition(":")
        assert callable(getattr(importlib.import_module(module), name))


def made_with(folder: Path, **options: object) -> bytes:
    """The native artifact of a context model."""
    onnx.save(product(), folder / "m.onnx")
    compile_context(folder / "m.onnx", folder / "c.onnx", strict=1, **options)  # type: ignore[arg-type]
    check_context(folder / "c.onnx")
    return (folder / "c_0.so").read_bytes()


def check_context(path: Path) -> None:
    x = {"x": values(2, INNER)}
    found = session(str(path)).run(None, x)[0]
    np.testing.assert_allclose(found, session(product()).run(None, x)[0], rtol=1e-4, atol=1e-6)


def test_cpu(tmp_path: Path) -> None:
    """What is for a level may use that level's instructions alone, whatever this CPU has."""
    level = native_level()
    flags = {}
    for cpu in (level.name, "native"):
        content = made_with(tmp_path, cpu=cpu)
        [line] = re.findall(rb"\nflags ([^\n]*)\n", content)
        flags[cpu] = set(line.decode().split())
        assert (f"\ncpu {level.cpu}\n".encode() in content) == (cpu != "native" or level.cpu == host().name)
    assert flags["native"] - flags[level.name]


def test_opt_level(tmp_path: Path) -> None:
    code = {level: made_with(tmp_path, opt_level=level) for level in (0, 3)}
    assert code[0] != code[3]
    # The default is the last one.
    assert made_with(tmp_path) == code[3]
    for level in code:
        check(session(product(), {"opt_level": str(level)}), product(), {"x": values(5, INNER)})


def test_pipeline(tmp_path: Path) -> None:
    usual = spell(load_registry(()), CompileOptions(), DEFAULT)
    assert made_with(tmp_path, pipeline=usual) == made_with(tmp_path)
    without = usual.replace("cse,", "", 1)
    assert without != usual
    check(session(product(), {"pipeline": without}), product(), {"x": values(2, INNER)})
    with pytest.raises(Exception, match="HIPC0"):
        session(product(), {"pipeline": "builtin.module(simplify-onnx)"})


def test_num_threads() -> None:
    nodes = [node("MatMul", "x w", "a"), node("Relu", "a", "y")]
    model = make(nodes, {"x": [256, 256]}, {"y": [256, 256]}, w=values(256, 256))

    def threads() -> int:
        return len(os.listdir("/proc/self/task"))

    kept = []
    # Sessions of other tests end now, and their threads.
    gc.collect()
    for wanted in (1, 3):
        before = threads()
        kept.append(session(model, {"num_threads": str(wanted)}))
        check(kept[-1], model, {"x": values(256, 256, seed=1)})
        # The thread that calls is one of them; `check` makes a session of ONNX Runtime alone, which is gone by now.
        assert threads() - before == wanted - 1
