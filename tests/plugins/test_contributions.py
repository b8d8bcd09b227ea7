"""Every kind of contribution at work in a compiled program: libraries, overrides, kernels, targets, pipelines."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from hip_compiler.errors import HipCompilerError
from hip_compiler.runtime import native
from hip_compiler.toolchain import find_compiler, find_linker, host_architecture, include_folder
from tests.plugins.conftest import Distribution, Install, Site

RUN = """
import sys
import numpy as np
from onnx import TensorProto, helper
import hip_compiler

op, domain, target = sys.argv[1:4]
x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3]) for name in "xy")
opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.acme", 1)]
graph = helper.make_graph([helper.make_node(op, ["x"], ["y"], name="/node", domain=domain)], "g", [x], [y])
model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
try:
    session = hip_compiler.compile(model, target=target, format=(sys.argv[4:] or ["bitcode"])[0])
    print(session.run({"x": np.arange(6, dtype=np.float32).reshape(2, 3)})["y"].ravel().tolist())
except hip_compiler.HipCompilerError as error:
    print(error)
"""
OPERATION = """
from pathlib import Path

OP = OpDef(
    name="acme.op",
    summary="An operation.",
    inputs=(OperandDef("x"),),
    outputs=(OperandDef("y"),),
    reify=lambda shapes: [TensorSpec(shapes.inputs["x"], shapes.dtypes["x"])],
    lowering={lowering},
)


@hookimpl
def hip_compiler_dialects():
    return [DialectContribution("acme", (OP,))]


@hookimpl
def hip_compiler_onnx_ops():
    return [OnnxOpClaim("com.acme", "Op", "acme.op")]
"""
BITCODE = """
@hookimpl
def hip_compiler_bitcode():
    return [BitcodeContribution("code.bc", "{target}", Path(__file__).with_name("code.bc"), "{prefix}", {overrides})]
"""
FILL = """
#include <hipc.h>
{before}
extern "C" int32_t {name}(hipc_context *, const hipc_tensor *x, hipc_tensor *y{more}) {{
  for (int64_t i = 0; i < x->shape[0] * x->shape[1]; ++i) static_cast<float *>(y->data)[i] = {value};
  return HIPC_OK;
}}
"""


WAYS = ("bitcode", "native")
"""Loaded by the JIT, or linked."""


@pytest.fixture(scope="module", autouse=True)
def _needs_a_compiler_and_the_runtime() -> None:
    try:
        native.find()
        find_compiler()
        find_linker()
    except HipCompilerError as error:
        pytest.skip(str(error))


def clang(source: str, folder: Path, *flags: str) -> bytes:
    """What clang makes of C++ source."""
    file = folder / "source.cpp"
    file.write_text(source)
    out = folder / "out"
    command = [*find_compiler().command, "-O1", "-fPIC", f"-I{include_folder()}", *flags, str(file), "-o", str(out)]
    subprocess.run(command, check=True)
    return out.read_bytes()


def bitcode(source: str, folder: Path) -> bytes:
    return clang(source, folder, "-emit-llvm", "-c")


def printed(site: Site, op: str = "Op", domain: str = "com.acme", target: str = "host", *way: str, **more: str) -> str:
    done = site.run("-c", RUN, op, domain, target, *way, **more)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


class TestClaims:
    """What an ONNX operator becomes."""

    CODE = """
    #include <hipc.h>
    extern "C" int32_t acme_op(hipc_context *, const hipc_tensor *x, hipc_tensor *y) {
      for (int64_t i = 0; i < x->shape[0] * x->shape[1]; ++i) ELEMENT = x->dtype * 100 + y->dtype;
      return HIPC_OK;
    }
    """

    @pytest.mark.parametrize(
        ("element", "ctype", "name", "number"), [("i64", "int64_t", "int64", 7), ("ui8", "uint8_t", "uint8", 2)]
    )
    def test_the_shape_function_decides_the_element_type(
        self, install: Install, tmp_path: Path, element: str, ctype: str, name: str, number: int
    ) -> None:
        code = self.CODE.replace("ELEMENT", f"static_cast<{ctype} *>(y->data)[i]")
        plugin = OPERATION.format(lowering='CallLowering("acme_op")').replace('shapes.dtypes["x"]', repr(element))
        plugin += BITCODE.format(target="host", prefix="acme_", overrides="()")
        site = install(Distribution("acme", plugin, data={"code.bc": bitcode(code, tmp_path)}))
        run = RUN.replace(
            'helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3]) for name in "xy"',
            f'helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3]), '
            f'helper.make_tensor_value_info("y", TensorProto.{name.upper()}, ["n", 3])',
        )
        done = site.run("-c", run, "Op", "com.acme", "host")
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == str([100 + number] * 6)

    def test_on_a_standard_operator_it_goes_before_the_built_in_conversion(
        self, install: Install, tmp_path: Path
    ) -> None:
        code = FILL.format(name="acme_op", value="77", before="", more="")
        plugin = OPERATION.format(lowering='CallLowering("acme_op")').replace('"com.acme", "Op"', '"ai.onnx", "Neg"')
        plugin += BITCODE.format(target="host", prefix="acme_", overrides="()")
        site = install(Distribution("acme", plugin, data={"code.bc": bitcode(code, tmp_path)}))
        assert printed(site, "Neg", "") == str([77.0] * 6)
        assert printed(site, "Neg", "", plugins="") == str([-float(i) for i in range(6)])


class TestLibraries:
    """A shared library is loaded before the program that calls it."""

    def test_bitcode_calls_into_a_library_found_in_a_search_path(self, install: Install, tmp_path: Path) -> None:
        library = clang('extern "C" float acmelib_seven() { return 7; }', tmp_path, "-shared")
        code = FILL.format(
            name="acme_op", value="acmelib_seven() + i", before='extern "C" float acmelib_seven();', more=""
        )
        site = install(
            Distribution(
                "acme",
                OPERATION.format(lowering='CallLowering("acme_op")')
                + BITCODE.format(target="host", prefix="acme_", overrides="()")
                + "\n\n@hookimpl\ndef hip_compiler_libraries():\n"
                + '    return [LibraryContribution("acmelib", "host", (Path(__file__).parent / "lib",))]\n',
                data={"code.bc": bitcode(code, tmp_path), "lib/libacmelib.so": library},
            )
        )
        for way in WAYS:
            assert printed(site, "Op", "com.acme", "host", way) == "[7.0, 8.0, 9.0, 10.0, 11.0, 12.0]"

    def test_without_the_library_the_symbol_is_named(self, install: Install, tmp_path: Path) -> None:
        code = FILL.format(name="acme_op", value="acmelib_none()", before='extern "C" float acmelib_none();', more="")
        plugin = OPERATION.format(lowering='CallLowering("acme_op")')
        plugin += BITCODE.format(target="host", prefix="acme_", overrides="()")
        site = install(Distribution("acme", plugin, data={"code.bc": bitcode(code, tmp_path)}))
        texts = {printed(site, "Op", "com.acme", "host", way) for way in WAYS}
        assert len(texts) == 1
        assert texts.pop().startswith("HIPC0501: 1 symbol of the program cannot be resolved\n  acmelib_none\n")


class TestOverrides:
    """A plugin's implementation in place of the runtime's."""

    def plugin(self, id_: str, folder: Path, value: str = "42", symbol: str = "hipc_softmax") -> Distribution:
        code = FILL.format(name=symbol, value=value, before="", more=", int64_t, int64_t")
        declared = BITCODE.format(target="host", prefix=f"{id_}_", overrides=f"({symbol!r},)")
        return Distribution(id_, f"from pathlib import Path\n{declared}", data={"code.bc": bitcode(code, folder)})

    def test_the_plugins_function_is_called_instead(self, install: Install, tmp_path: Path) -> None:
        site = install(self.plugin("acme", tmp_path))
        for way in WAYS:
            assert printed(site, "Softmax", "", "host", way) == str([42.0] * 6)
        rest = printed(site, "Softmax", "", plugins="")
        assert rest != str([42.0] * 6) and rest.startswith("[0.09")

    def test_a_status_of_it_names_the_node_and_the_plugin(self, install: Install, tmp_path: Path) -> None:
        plugin = self.plugin("acme", tmp_path)
        code = FILL.format(name="hipc_softmax", value="0", before="", more=", int64_t, int64_t")
        failing = code.replace("return HIPC_OK", "return HIPC_ERROR_VALUE")
        site = install(replace(plugin, data={"code.bc": bitcode(failing, tmp_path)}))
        text = printed(site, "Softmax", "")
        assert text.startswith("HIPC0701")
        assert "/node (softmax of plugin 'acme' of vendor-acme 1.0)" in text

    def test_two_plugins_that_override_one_symbol_are_both_named(self, install: Install, tmp_path: Path) -> None:
        site = install(self.plugin("one", tmp_path), self.plugin("two", tmp_path, "43"))
        done = site.cli("passes")
        assert done.returncode == 1
        assert done.stderr.splitlines()[0] == (
            "HIPC0403: symbol 'hipc_softmax' for target 'host' is registered by plugin 'one' of vendor-one 1.0"
            " and by plugin 'two' of vendor-two 1.0"
        )
        assert printed(site, "Softmax", "", plugins="two") == str([43.0] * 6)

    def test_services_of_the_runtime_are_not_overridable(self, install: Install, tmp_path: Path) -> None:
        pool = llvm.parse_assembly("define ptr @hipc_pool() {\n  ret ptr null\n}").as_bitcode()
        taker = replace(self.plugin("acme", tmp_path, symbol="hipc_pool_"), data={"code.bc": pool})
        taker = replace(taker, code=taker.code.replace("hipc_pool_", "hipc_pool"))
        site = install(taker, self.plugin("near", tmp_path, symbol="hipc_softmx"))
        done = site.cli("passes", plugins="near")
        assert "override 'hipc_softmx' is no overridable symbol of target 'host'" in done.stderr
        assert "did you mean 'hipc_softmax'?" in done.stderr
        done = site.cli("passes", plugins="acme")
        assert done.returncode == 1
        assert "plugin 'acme' of vendor-acme 1.0 does not pass the audit" in done.stderr
        assert "override 'hipc_pool' is no overridable symbol of target 'host'" in done.stderr


KERNELS = """
@hookimpl
def hip_compiler_kernels():
    return [KernelContribution("kernels.bc", "host", "{machine}", Path(__file__).with_name("code.bc"), {symbols})]
"""
KERNEL = """
#include <hipc.h>
extern "C" void acme_kernel(const void *const *arguments, int64_t begin, int64_t end) {
  const hipc_tensor *absent = static_cast<const hipc_tensor *>(arguments[1]);
  float *y = static_cast<float *>(static_cast<const hipc_tensor *>(arguments[2])->data);
  const int64_t whole = *static_cast<const int64_t *>(arguments[3]);
  const int64_t *list = static_cast<const int64_t *>(arguments[4]);
  const int64_t count = *static_cast<const int64_t *>(arguments[5]);
  const double real = *static_cast<const double *>(arguments[6]);
  const int64_t word = *static_cast<const int64_t *>(arguments[7]);
  for (int64_t i = begin; i < end; ++i) {
    y[i] = absent ? -1 : whole + word * 1000 + static_cast<float>(real) + i;
    for (int64_t k = 0; k < count; ++k) y[i] += list[k];
  }
}
"""


class TestKernels:
    """An operation that launches a kernel by name."""

    def plugin(
        self, folder: Path, *, symbols: str = '("acme_kernel",)', machine: str = "", source: str = KERNEL
    ) -> Distribution:
        attributes = """(
        AttributeDef("whole", "int", default=5),
        AttributeDef("list", "ints", default=(10, 20)),
        AttributeDef("real", "float", default=0.5),
        AttributeDef("word", "string", default="b", choices=("a", "b")),
    )"""
        code = OPERATION.format(lowering='LaunchLowering("acme_kernel", cost=3)')
        code = code.replace('inputs=(OperandDef("x"),)', 'inputs=(OperandDef("x"), OperandDef("z", optional=True))')
        code = code.replace("    reify=", f"    attributes={attributes},\n    reify=")
        code += KERNELS.format(machine=machine or host_architecture(), symbols=symbols)
        return Distribution("acme", code, data={"code.bc": bitcode(source, folder)})

    def test_it_sees_operands_and_attributes_of_every_kind(self, install: Install, tmp_path: Path) -> None:
        assert printed(install(self.plugin(tmp_path))) == str([1035.5 + i for i in range(6)])

    @pytest.mark.parametrize(
        ("symbols", "words"),
        [
            ("()", "operation 'acme.op': kernel 'acme_kernel' is not registered; kernels: none"),
            ('("acme_kernl",)', "did you mean 'acme_kernl'?"),
            ('("acme_kernel", "acme_other")', "kernels.bc: kernel 'acme_other' is not defined in the bitcode"),
        ],
    )
    def test_names_must_be_there(self, install: Install, tmp_path: Path, symbols: str, words: str) -> None:
        done = install(self.plugin(tmp_path, symbols=symbols)).cli("passes", plugins="acme")
        assert done.returncode == 1
        assert "HIPC0404: plugin 'acme' of vendor-acme 1.0 does not pass the audit" in done.stderr
        assert words in done.stderr

    def test_nothing_else_may_be_visible(self, install: Install, tmp_path: Path) -> None:
        source = KERNEL + 'extern "C" int helper() { return 1; }\nextern "C" int hipc_mine() { return 1; }\n'
        done = install(self.plugin(tmp_path, source=source)).cli("passes", plugins="acme")
        assert "kernels.bc: function 'helper' (external) is not listed in symbols=" in done.stderr
        assert "kernels.bc: function 'hipc_mine' (external) belongs to the runtime" in done.stderr

    def test_bitcode_for_another_machine_than_it_says(self, install: Install, tmp_path: Path) -> None:
        done = install(self.plugin(tmp_path, machine="riscv64")).cli("passes", plugins="acme")
        assert "is not for riscv64" in done.stderr


PIPELINES = """
class Note:
    def apply(self, op, context):
        from hip_compiler.core.mlir import ir
        op.attributes["acme.note"] = ir.StringAttr.get(context.options.target)


def build(options):
    return f"acme-note,canonicalize" if options.target == "host" else "canonicalize"


@hookimpl
def hip_compiler_passes():
    return [PassContribution("acme-note", Note, "")]


@hookimpl
def hip_compiler_pipelines():
    return [
        PipelineContribution("acme-short", build, "A note."),
        PipelineContribution("acme-whole", lambda options: "acme-short,hipdnn-pipeline", "A note, then all."),
        PipelineContribution("acme-broken", lambda options: 1 / 0, ""),
        PipelineContribution("acme-round", lambda options: "acme-round", ""),
    ]
"""


@pytest.fixture(scope="module")
def pipelines(install: Install) -> Site:
    return install(Distribution("acme", PIPELINES))


class TestPipelines:
    """A pipeline of a plugin is named like the built-in ones."""

    def test_in_opt(self, pipelines: Site) -> None:
        done = pipelines.cli("opt", "-p", "acme-short", stdin="module {}")
        assert 'acme.note = "host"' in done.stdout, done.stderr

    def test_in_the_variable(self, pipelines: Site) -> None:
        code = "import os\nos.environ['HIPDNN_EP_PIPELINE'] = 'acme-whole'\n" + RUN
        done = pipelines.run("-c", code, "Neg", "", "host")
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == str([-float(i) for i in range(6)])

    @pytest.mark.parametrize(
        ("name", "words"),
        [
            ("acme-broken", "pipeline 'acme-broken' of plugin 'acme' of vendor-acme 1.0 cannot be made"),
            ("acme-round", "pipeline 'acme-round' contains itself"),
        ],
    )
    def test_what_is_wrong_is_told(self, pipelines: Site, name: str, words: str) -> None:
        done = pipelines.cli("opt", "-p", name, stdin="module {}")
        assert done.returncode == 1 and words in done.stderr
