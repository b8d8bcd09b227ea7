"""Kernels of plugins on GPUs: built from HIP by the plugin's own build, launched by name, on an emulated gfx1151."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from hip_compiler.errors import HipCompilerError
from hip_compiler.runtime.native import FOLDER
from hip_compiler.toolchain import build_kernels, find_compiler, host_architecture
from tests.plugins.conftest import Distribution, Install, Site, build_plugin
from tests.plugins.test_contributions import OPERATION, bitcode, printed

pytestmark = pytest.mark.skipif(
    not (FOLDER / "kernels.pack").is_file(), reason="kernels.pack is not built: python kernels/build.py"
)
BOTH = """
import sys
import numpy as np
from onnx import TensorProto, helper
import hip_compiler
from tests.plugins.emulated import emulated_gpu

hip = emulated_gpu()


def both(op, domain, a, b):
    feeds = {"a": a, "b": b}
    shapes = {name: [f"{name}{axis}" for axis in range(value.ndim)] for name, value in feeds.items()}
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    nodes = [
        helper.make_node(op, ["a", "b"] if op == "Add" else ["a"], ["c"], name="/mine", domain=domain),
        helper.make_node("Relu", ["c"], ["out"], name="/relu"),
    ]
    output = helper.make_tensor_value_info("out", TensorProto.FLOAT, None)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.acme", 1)]
    graph = helper.make_graph(nodes, "g", inputs, [output])
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    with hip_compiler.compile(model) as host, hip_compiler.compile(model, "amdgpu", arch=("gfx1151",)) as gpu:
        return host.run(feeds)["out"], gpu.run(feeds)["out"]


def draw(*shape):
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)

"""
ADDITIONS = """
shapes = [((), ()), ((700,), (700,)), ((3, 4), (4,)), ((2, 3, 4), (3, 1)), ((2, 1, 4), (2, 3, 1)), ((0, 3), (1, 3))]
for a, b in shapes:
    hip.launches.clear()
    expected, found = both("Add", "", draw(*a), draw(*b))
    np.testing.assert_array_equal(found, expected)
    print(*hip.launched())
hip.check()
"""


@pytest.fixture(scope="module", autouse=True)
def _needs_a_compiler() -> None:
    try:
        find_compiler()
    except HipCompilerError as error:
        pytest.skip(str(error))


def vendor(scratch: Path, monkeypatch: pytest.MonkeyPatch, gpus: str) -> Site:
    """`plugins/vendor_add`, built by pip for some GPUs."""
    monkeypatch.setenv("HIPC_BUILD_GPUS", gpus)
    return build_plugin(scratch, "vendor_add")


def test_additions_run_through_the_vendors_hip_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = vendor(tmp_path, monkeypatch, "gfx1151")
    done = site.run("-c", BOTH + ADDITIONS)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines[:5]] == ["vendor_add_f32"] * 5
    # Nothing to add: nothing is launched.
    assert lines[5:] == [""]
    done = site.run("-c", BOTH + ADDITIONS, plugins="")
    assert done.returncode == 0 and "vendor_add" not in done.stdout, done.stderr
    assert site.states()["hip-compiler-vendor-add"]["contributions"][-1] == "kernels vendor_add for amdgpu"


COMPILED = """
import sys
import warnings
from onnx import TensorProto, helper
import hip_compiler
from tests.plugins.emulated import emulated_gpu

hip = emulated_gpu()
x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy")
inputs = ["x", "x"] if sys.argv[1] == "Add" else ["x"]
graph = helper.make_graph([helper.make_node(sys.argv[1], inputs, ["y"])], "g", [x], [y])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
try:
    hip_compiler.compile(model, "amdgpu", arch=("gfx1151",)).close()
    print("compiled")
except hip_compiler.HipCompilerError as error:
    print(error)
"""


def test_an_architecture_that_the_plugin_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = vendor(tmp_path, monkeypatch, "gfx942,sm_90")
    assert site.run("-c", COMPILED, "Add").stdout.splitlines() == [
        "HIPC0502: plugin 'vendor-add' of hip-compiler-vendor-add 0.1.0 has no kernel 'vendor_add_f32' for gfx1151",
        "  why: the model runs its code, which it has for gfx942, sm_90",
        "  do: choose among those with --arch, or leave the plugin out with --plugins",
    ]
    # A model without additions does not need it.
    assert site.run("-c", COMPILED, "Abs").stdout == "compiled\n"
    listed = site.states()["hip-compiler-vendor-add"]["contributions"][-1]
    assert listed == "kernels vendor_add for amdgpu: gfx942, sm_90"


HOST_KERNEL = """
#include <hipc.h>
extern "C" void acme_kernel(const void *const *arguments, int64_t begin, int64_t end) {
  const float *x = static_cast<const float *>(static_cast<const hipc_tensor *>(arguments[0])->data);
  const bool absent = !arguments[1];
  float *y = static_cast<float *>(static_cast<const hipc_tensor *>(arguments[2])->data);
  const int64_t whole = *static_cast<const int64_t *>(arguments[3]);
  const double real = *static_cast<const double *>(arguments[4]);
  const int64_t word = *static_cast<const int64_t *>(arguments[5]);
  for (int64_t i = begin; i < end; ++i) y[i] = absent ? x[i] * static_cast<float>(real) + whole + 100 * word : -1;
}
"""
DEVICE_KERNEL = """
#include <hipc.h>
#include "hipc_device.h"

KERNEL(256) acme_kernel(hipc_tensor x, hipc_tensor z, hipc_tensor y, i64 whole, f64 real, i64 word, i64 elements) {
  const float *from = (const float *)x.data;
  float *to = (float *)y.data;
  for (i64 i = hipc::global_thread(); i < elements; i += hipc::global_threads())
    to[i] = z.data ? -1 : from[i] * (float)real + whole + 100 * word;
}
"""
ATTRIBUTES = """(
    AttributeDef("whole", "int", default=5),
    AttributeDef("real", "float", default=2.5),
    AttributeDef("word", "string", default="b", choices=("a", "b")),
)"""
DEVICE = """
@hookimpl
def hip_compiler_kernels():
    folder = Path(__file__).parent
    kernels = [KernelContribution("acme.bc", "host", "{machine}", folder / "code.bc", ("acme_kernel",))]
    return kernels + [KernelContribution("acme.co", "amdgpu", "{arch}", folder / "code.co", {symbols})]
"""


def code_object(folder: Path, source: str = DEVICE_KERNEL, architecture: str = "gfx1151") -> bytes:
    """What the toolchain makes of a HIP source."""
    (folder / "kernel.hip").write_text(source)
    return build_kernels([folder / "kernel.hip"], folder / "built", (architecture,))[architecture].read_bytes()


def launching(
    folder: Path, code: bytes, *, arch: str = "gfx1151", symbols: str = '("acme_kernel",)', attributes: str = ATTRIBUTES
) -> Distribution:
    """A plugin whose operation launches a kernel on the host and on GPUs alike."""
    plugin = OPERATION.format(lowering='LaunchLowering("acme_kernel")')
    plugin = plugin.replace('inputs=(OperandDef("x"),)', 'inputs=(OperandDef("x"), OperandDef("z", optional=True))')
    plugin = plugin.replace("    reify=", f"    attributes={attributes},\n    reify=")
    plugin += DEVICE.format(machine=host_architecture(), arch=arch, symbols=symbols)
    return Distribution("acme", plugin, data={"code.bc": bitcode(HOST_KERNEL, folder), "code.co": code})


def test_an_operation_launches_its_kernel_on_the_host_and_on_a_gpu_alike(install: Install, tmp_path: Path) -> None:
    site = install(launching(tmp_path, code_object(tmp_path)))
    program = """
for n in (1, 700):
    expected, found = both("Op", "com.acme", draw(n, 3), draw(1))
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    np.testing.assert_allclose(expected, np.maximum(2.5 * draw(n, 3) + 105, 0), rtol=1e-6)
assert "acme_kernel" in hip.launched()
hip.check()
"""
    done = site.run("-c", BOTH + program)
    assert done.returncode == 0, done.stderr


def test_an_operation_without_a_kernel_for_gpus_is_reported_with_its_plugin(install: Install, tmp_path: Path) -> None:
    plugin = launching(tmp_path, b"")
    cut = plugin.code.index("    return kernels + ")
    site = install(Distribution("acme", plugin.code[:cut] + "    return kernels\n", data=plugin.data))
    text = printed(site, target="amdgpu")
    assert text.startswith("HIPC0200: 1 node cannot be compiled")
    assert "/node" in text and "plugin 'acme' of vendor-acme 1.0 has no acme.op for target 'amdgpu'" in text


def cut_short(folder: Path) -> bytes:
    return code_object(folder)[:600]


def without_end(folder: Path) -> bytes:
    return code_object(folder, architecture="sm_90").rstrip(b"\0")


def more(text: str) -> Callable[[Path], bytes]:
    return lambda folder: code_object(folder, DEVICE_KERNEL + text)


LISTS = '(AttributeDef("list", "ints", default=(1,)),)'
FAULTS: dict[str, tuple[Callable[[Path], bytes], dict[str, str], str]] = {
    "nothing": (lambda folder: b"", {}, "acme.co for gfx1151: the bytes are no device code: there are none"),
    "text": (
        lambda folder: b"text",
        {},
        "acme.co for gfx1151: the bytes are no device code: neither a code object nor",
    ),
    "bitcode": (
        lambda folder: bytes(llvm.parse_assembly("").as_bitcode()),
        {},
        "acme.co for gfx1151: the bytes are no device code: neither a code object nor PTX starts with",
    ),
    "cut": (cut_short, {}, "acme.co for gfx1151: the bytes are no AMDGPU code object: "),
    "endless": (without_end, {"arch": "sm_90"}, "acme.co for sm_90: the PTX does not end with the NUL byte"),
    "other": (
        lambda folder: code_object(folder, architecture="gfx942"),
        {},
        "acme.co for gfx1151: the code is for gfx942",
    ),
    "unknown": (code_object, {"arch": "gfx1511"}, "acme.co: there is no architecture 'gfx1511'; did you mean "),
    "unlisted": (
        more("KERNEL(64) other(float *x) { *x = 1; }"),
        {},
        "acme.co for gfx1151: kernel 'other' is not listed in symbols=",
    ),
    "absent": (
        code_object,
        {"symbols": '("acme_kernel", "acme_gone")'},
        "acme.co for gfx1151: kernel 'acme_gone' is not in the code",
    ),
    "reserved": (
        more("KERNEL(64) kernel_0_entry(float *x) { *x = 1; }"),
        {"symbols": '("acme_kernel", "kernel_0_entry")'},
        "acme.co for gfx1151: kernel 'kernel_0_entry' has a name of the runtime's",
    ),
    "runtimes": (
        more("KERNEL(64) hipc_mine(float *x) { *x = 1; }"),
        {"symbols": '("acme_kernel", "hipc_mine")'},
        "acme.co for gfx1151: kernel 'hipc_mine' has a name of the runtime's",
    ),
    "parameters": (
        lambda folder: code_object(folder, DEVICE_KERNEL.replace("f64 real", "f32 real")),
        {},
        "operation 'acme.op': kernel 'acme_kernel' for gfx1151 takes parameters of 144, 144, 144, 8, 4, 8, 8 bytes; "
        "the launch passes 144, 144, 144, 8, 8, 8, 8: a hipc_tensor per operand",
    ),
    "ptx": (
        lambda folder: code_object(folder, DEVICE_KERNEL.replace("i64 word, ", "").replace("word", "1"), "sm_90"),
        {"arch": "sm_90"},
        "operation 'acme.op': kernel 'acme_kernel' for sm_90 takes parameters of 144, 144, 144, 8, 8, 8 bytes; ",
    ),
    "list": (
        code_object,
        {"attributes": LISTS},
        "operation 'acme.op': kernel 'acme_kernel' for gfx1151 cannot take 'list': on a device there are no variadic",
    ),
}


@pytest.fixture(scope="module")
def faulty(install: Install, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A distribution for every fault."""
    folder = tmp_path_factory.mktemp("faulty")
    plugins = []
    for name, (make, changes, _) in FAULTS.items():
        plugin = launching(folder, make(folder), **changes)
        plugins.append(Distribution(name, plugin.code, data=plugin.data))
    return install(*plugins)


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_refused_with_plugin_distribution_and_kernel(faulty: Site, name: str) -> None:
    done = faulty.cli("passes", plugins=name)
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert lines[0] == f"HIPC0404: plugin '{name}' of vendor-{name} 1.0 does not pass the audit"
    assert lines[1].startswith(f"  {FAULTS[name][2]}")
