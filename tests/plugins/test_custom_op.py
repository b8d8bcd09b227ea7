"""A custom ONNX operator from the model to numbers, by a plugin alone: claim, operation, bitcode."""

from __future__ import annotations

import json

import llvmlite.binding as llvm
import pytest

from hip_compiler.errors import HipCompilerError
from hip_compiler.runtime import native
from tests.plugins.conftest import Distribution, Install, Site

# y[i] = 2 * x[i] + offset, over contiguous float elements; a zero offset is refused with a status.
DOUBLE = """
%tensor = type { ptr, i32, i32, [8 x i64], [8 x i64] }

define i32 @acme_double(ptr %context, ptr %x, ptr %y, double %offset) {
entry:
  %zero = fcmp oeq double %offset, 0.0
  br i1 %zero, label %refuse, label %count
refuse:
  ret i32 8
count:
  %rank.at = getelementptr %tensor, ptr %x, i32 0, i32 2
  %rank = load i32, ptr %rank.at
  br label %extent
extent:
  %axis = phi i32 [ 0, %count ], [ %axis.next, %multiply ]
  %n = phi i64 [ 1, %count ], [ %n.next, %multiply ]
  %more = icmp slt i32 %axis, %rank
  br i1 %more, label %multiply, label %begin
multiply:
  %extent.at = getelementptr %tensor, ptr %x, i32 0, i32 3, i32 %axis
  %extent.value = load i64, ptr %extent.at
  %n.next = mul i64 %n, %extent.value
  %axis.next = add i32 %axis, 1
  br label %extent
begin:
  %from = load ptr, ptr %x
  %to = load ptr, ptr %y
  %addend = fptrunc double %offset to float
  br label %loop
loop:
  %i = phi i64 [ 0, %begin ], [ %i.next, %body ]
  %inside = icmp slt i64 %i, %n
  br i1 %inside, label %body, label %done
body:
  %from.at = getelementptr float, ptr %from, i64 %i
  %value = load float, ptr %from.at
  %twice = fmul float %value, 2.0
  %result = fadd float %twice, %addend
  %to.at = getelementptr float, ptr %to, i64 %i
  store float %result, ptr %to.at
  %i.next = add i64 %i, 1
  br label %loop
done:
  ret i32 0
}
"""
PLUGIN = """
from pathlib import Path


def refuse_big(operation):
    from hip_compiler.core.mlir import ir

    offset = ir.FloatAttr(operation.attributes["offset"]).value if "offset" in operation.attributes else 1.0
    return f"offset {offset} is beyond 100" if offset > 100 else None


DOUBLE = OpDef(
    name="acme.double",
    summary="2 * x + offset.",
    inputs=(OperandDef("x"),),
    outputs=(OperandDef("y"),),
    attributes=(AttributeDef("offset", "float", default=1.0),),
    reify=lambda shapes: [TensorSpec(shapes.inputs["x"], shapes.dtypes["x"])],
    lowering=CallLowering("acme_double"),
)


@hookimpl
def hip_compiler_dialects():
    return [DialectContribution("acme", (DOUBLE,))]


@hookimpl
def hip_compiler_onnx_ops():
    return [OnnxOpClaim("com.acme", "Double", "acme.double", verify=refuse_big)]


@hookimpl
def hip_compiler_bitcode():
    return [BitcodeContribution("double.bc", "host", Path(__file__).with_name("double.bc"), "acme_")]
"""
RUN = """
import json, sys
import numpy as np
from onnx import TensorProto, helper
import hip_compiler

offset = float(sys.argv[1])
x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3]) for name in "xy")
nodes = [
    helper.make_node("Neg", ["x"], ["a"], name="/neg"),
    helper.make_node("Double", ["a"], ["b"], name="/double", domain="com.acme", offset=offset),
    helper.make_node("Abs", ["b"], ["y"], name="/abs"),
]
opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.acme", 1)]
model = helper.make_model(helper.make_graph(nodes, "g", [x], [y]), opset_imports=opsets, ir_version=9)
try:
    session = hip_compiler.compile(model)
    for n in (2, 5):
        feed = np.linspace(-3, 4, 3 * n, dtype=np.float32).reshape(n, 3)
        np.testing.assert_allclose(session.run({"x": feed})["y"], np.abs(-2 * feed + np.float32(offset)), rtol=1e-6)
    print("numbers agree;", json.dumps(dict(session.metadata.plugins_used)))
except hip_compiler.HipCompilerError as error:
    print(error)
"""


@pytest.fixture(scope="module")
def site(install: Install) -> Site:
    try:
        native.find()
    except HipCompilerError as error:
        pytest.skip(str(error))
    bitcode = llvm.parse_assembly(DOUBLE).as_bitcode()
    return install(Distribution("acme", PLUGIN, data={"double.bc": bitcode}, domains=("com.acme",)))


def printed(site: Site, offset: float, plugins: str | None = None) -> str:
    done = site.run("-c", RUN, str(offset), plugins=plugins)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_installed_it_runs_at_several_extents_and_the_artifact_remembers_it(site: Site) -> None:
    words, _, used = printed(site, 5.0).partition("; ")
    assert words == "numbers agree"
    assert json.loads(used) == {"acme": "vendor-acme 1.0"}


def test_a_status_of_the_plugin_ends_the_run_with_the_nodes_name_and_the_plugins(site: Site) -> None:
    text = printed(site, 0.0)
    assert text.startswith("HIPC0701")
    assert "/double (acme.double of plugin 'acme' of vendor-acme 1.0)" in text


def test_its_own_verifier_speaks_before_conversion(site: Site) -> None:
    text = printed(site, 1000.0)
    assert "/double" in text and "offset 1000.0 is beyond 100" in text


def test_one_report_lists_every_node_its_verifier_refuses(site: Site) -> None:
    """Also a node behind another that is refused, which conversion never reaches."""
    program = RUN.replace(
        'helper.make_node("Abs", ["b"], ["y"], name="/abs"),',
        'helper.make_node("Abs", ["b"], ["c"], name="/abs"),'
        'helper.make_node("Double", ["c"], ["y"], name="/second", domain="com.acme", offset=offset),',
    )
    done = site.run("-c", program, "1000.0")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("HIPC0200: 2 nodes cannot be compiled"), done.stdout
    for name in ("/double", "/second"):
        assert done.stdout.count(f"{name}: com.acme::Double opset 1 (") == 1, done.stdout


def test_not_selected_the_operator_is_reported_unsupported(site: Site) -> None:
    text = printed(site, 5.0, plugins="")
    assert text.startswith("HIPC0200: 1 node cannot be compiled")
    assert "/double: com.acme::Double opset 1" in text
    assert "plugin 'acme' of vendor-acme 1.0 has operators of domain 'com.acme', but is unselected" in text


def test_outside_the_claimed_opsets_the_report_names_the_plugin(install: Install) -> None:
    code = PLUGIN.replace('"acme.double", verify', '"acme.double", since=3, until=4, verify')
    bitcode = llvm.parse_assembly(DOUBLE).as_bitcode()
    text = printed(install(Distribution("acme", code, data={"double.bc": bitcode})), 5.0)
    assert text.startswith("HIPC0200: 1 node cannot be compiled")
    assert "plugin 'acme' of vendor-acme 1.0 claims com.acme::Double from opset 3 to 4" in text
