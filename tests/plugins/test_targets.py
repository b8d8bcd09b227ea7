"""A target of a plugin: its features, its runtime, its linker, and a device of its own."""

from __future__ import annotations

from pathlib import Path

import llvmlite.binding as llvm
import pytest

from hip_compiler.errors import HipCompilerError
from hip_compiler.registry.registry import load_registry
from hip_compiler.runtime import native
from hip_compiler.runtime.native import FOLDER
from hip_compiler.toolchain import find_compiler, find_linker, link_shared
from tests.plugins.conftest import Distribution, Install, Site
from tests.plugins.test_contributions import FILL, bitcode, printed

TARGET = """
import json
from pathlib import Path

from hip_compiler.toolchain import link_shared


def runtime():
    return Path(__file__).with_name("runtime.bc")


def link(inputs, output, *, exports, libraries):
    link_shared(inputs, output, exports=exports, libraries=libraries)
    words = {"inputs": [path.name for path in inputs], "exports": list(exports), "libraries": list(libraries)}
    Path(os.environ["IMPORT_LOG"] + ".linked").write_text(json.dumps(words))


class Features:
    def apply(self, op, context):
        print(sorted(context.target.features))


@hookimpl
def hip_compiler_passes():
    return [PassContribution("acme-features", Features, "Prints the features of the target.")]


@hookimpl
def hip_compiler_slot_requests():
    return [SlotRequest(PipelineSlot.AFTER_SIMPLIFY_ONNX, "acme-features")]


@hookimpl
def hip_compiler_libraries():
    return [LibraryContribution("m", "acme-cpu")]


@hookimpl
def hip_compiler_targets():
    features = frozenset({"packed-weights", "acme-tricks"})
    return [TargetContribution("acme-cpu", "With a runtime of its own.", runtime, features, linker=link)]
"""
NATIVE = """
import sys
import numpy as np
from onnx import TensorProto, helper
import hip_compiler

x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3]) for name in "xy")
graph = helper.make_graph([helper.make_node("Softmax", ["x"], ["y"])], "g", [x], [y])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
try:
    session = hip_compiler.compile(model, target=sys.argv[1], format="native")
    print(session.run({"x": np.ones((2, 3), np.float32)})["y"].ravel().tolist())
except hip_compiler.HipCompilerError as error:
    print(error)
"""


@pytest.fixture(scope="module", autouse=True)
def _needs_a_compiler_and_the_runtime() -> None:
    try:
        native.find()
        find_compiler()
        find_linker()
    except HipCompilerError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def acme(install: Install, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A target whose runtime answers 5 to every softmax."""
    module = llvm.parse_bitcode(native.find().bitcode.read_bytes())
    module.get_function("hipc_softmax").linkage = "weak_any"
    fives = FILL.format(name="hipc_softmax", value="5", before="", more=", int64_t, int64_t")
    replacement = llvm.parse_bitcode(bitcode(fives, tmp_path_factory.mktemp("acme")))
    replacement.triple, replacement.data_layout = module.triple, module.data_layout
    module.link_in(replacement)
    return install(Distribution("acme", TARGET, data={"runtime.bc": module.as_bitcode()}))


def test_the_built_in_targets_are_registered_with_what_a_plugins_is() -> None:
    targets = load_registry([]).targets
    assert {name: target.linker for name, target in targets.items()} == {"host": link_shared, "amdgpu": link_shared}
    assert "packed-weights" in targets["host"].features


def test_its_runtime_and_its_features_are_used(acme: Site) -> None:
    words = "['acme-tricks', 'packed-weights']\n"
    assert printed(acme, "Softmax", "", "acme-cpu") == words + str([5.0] * 6)
    assert printed(acme, "Softmax", "", "host").splitlines()[1].startswith("[0.09")
    text = printed(acme, "Softmax", "", "acme-gpu")
    assert text.startswith("HIPC0502: there is no target 'acme-gpu'") and "acme-cpu, amdgpu, host" in text


def test_native_artifacts_are_linked_by_its_linker(acme: Site) -> None:
    done = acme.run("-c", NATIVE, "acme-cpu")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1] == str([5.0] * 6)
    log = acme.scratch / "imports.linked"
    linked = log.read_text()
    # Its runtime is in the program; there is no library of it to link.
    assert '"inputs": ["model.so.o"]' in linked and '"inference_compute"' in linked and "libm.so" in linked
    log.unlink()
    done = acme.run("-c", NATIVE, "host")
    assert done.returncode == 0 and "0.33" in done.stdout, done.stderr
    assert not log.exists()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            "raise OSError('the licence has run out')",
            "HIPC0501: the linker of target 'acme-cpu' of plugin 'acme' of vendor-acme 1.0 failed\n"
            "  why: OSError: the licence has run out",
        ),
        ("pass", "HIPC0501: the linker of target 'acme-cpu' of plugin 'acme' of vendor-acme 1.0 wrote no file"),
    ],
)
def test_a_linker_that_fails(install: Install, body: str, words: str) -> None:
    code = f"""
def link(inputs, output, *, exports, libraries):
    {body}


@hookimpl
def hip_compiler_targets():
    return [TargetContribution("acme-cpu", "The host's, linked badly.", linker=link)]
"""
    done = install(Distribution("acme", code)).run("-c", NATIVE, "acme-cpu")
    assert (done.returncode, done.stdout.strip()) == (0, words), done.stderr


DEVICE = """
from pathlib import Path

from hip_compiler.plugin import Device
from hip_compiler.runtime import devicecode, native


@hookimpl
def hip_compiler_targets():
    device = Device(
        triple="amdgcn-amd-amdhsa",
        architectures=("gfx1151",),
        default=("gfx1151",),
        library=lambda architecture: devicecode.read().get(architecture),
        functions=lambda: native.device_functions("amdgcn"),
    )
    runtime = Path(__file__).with_name("runtime.bc")
    return [TargetContribution("acme-gpu", "The vendor's own board.", lambda: runtime, device=device)]
"""
ON_DEVICE = """
import sys
import numpy as np
from onnx import TensorProto, helper
import hip_compiler
from tests.plugins.emulated import emulated_gpu

hip = emulated_gpu()
x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3]) for name in "xy")
nodes = [helper.make_node("Exp", ["x"], ["a"]), helper.make_node("Softmax", ["a"], ["y"])]
graph = helper.make_graph(nodes, "g", [x], [y])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
feed = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
with hip_compiler.compile(model) as host, hip_compiler.compile(model, "acme-gpu") as board:
    np.testing.assert_allclose(board.run({"x": feed})["y"], host.run({"x": feed})["y"], rtol=1e-5)
    assert board.metadata.target == "acme-gpu" and list(board.metadata.architectures) == ["gfx1151"]
assert len(hip.launched()) == 2
hip.check()
"""


@pytest.mark.skipif(not (FOLDER / "kernels.pack").is_file(), reason="kernels.pack is not built: kernels/build.py")
def test_a_target_with_a_device_of_its_own(install: Install) -> None:
    runtime = Path(FOLDER / "gpu-amd.bc").read_bytes()
    site = install(Distribution("acme", DEVICE, data={"runtime.bc": runtime}))
    done = site.run("-c", ON_DEVICE)
    assert done.returncode == 0, done.stderr


def test_what_is_no_function_is_refused(install: Install) -> None:
    code = "@hookimpl\ndef hip_compiler_targets():\n    return [TargetContribution('acme', '', linker='/usr/bin/ld')]"
    done = install(Distribution("acme", code)).cli("passes", plugins="acme")
    assert done.returncode == 1 and "target 'acme': linker is no function" in done.stderr
