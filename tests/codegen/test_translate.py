"""Modules in the LLVM dialect become bitcode; anything else is refused before MLIR could take the process down."""

from __future__ import annotations

import llvmlite.binding as llvmlite
import pytest

from hip_compiler.core.codegen import translate
from hip_compiler.core.mlir import ir
from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.runtime import cpu
from hip_compiler.runtime.linker import build_object

FLOATS = ("f16", "bf16", "f32", "f64")
UNARY = (
    *("sqrt", "sin", "cos", "exp", "exp2", "log", "log2", "log10"),
    *("fabs", "floor", "ceil", "trunc", "rint", "nearbyint", "round", "roundeven"),
)
BINARY = ("maxnum", "minnum", "maximum", "minimum", "copysign", "pow")


def bitcode(text: str) -> bytes:
    with ir.Context() as context, ir.Location.unknown():
        context.allow_unregistered_dialects = True
        return translate(ir.Module.parse(text))


def functions(data: bytes) -> dict[str, str]:
    module = llvmlite.parse_bitcode(data)
    return {function.name: str(function) for function in module.functions}


def test_a_function_with_foreign_attributes() -> None:
    found = functions(
        bitcode("""
            module attributes {hip.interface = "{}", onnx.opset = {"ai.onnx" = 17 : i64}} {
              llvm.func @f(%x: f32 {onnx.name = "x"}) -> f32 attributes {hip.kernel} {
                %c = llvm.mlir.constant(0.1 : f32) : f32
                %r = llvm.fmul %x, %c {fastmathFlags = #llvm.fastmath<fast>} : f32
                llvm.return %r : f32
              }
            }
        """)
    )
    assert "fmul fast float %0, 0x3FB99999A0000000" in found["f"]


@pytest.mark.parametrize("element", FLOATS)
def test_intrinsics_of_every_float(element: str) -> None:
    lines = [f"%{name} = llvm.intr.{name}(%x) : ({element}) -> {element}" for name in UNARY]
    lines += [f"%{name} = llvm.intr.{name}(%x, %x) : ({element}, {element}) -> {element}" for name in BINARY]
    lines.append(f"%fma = llvm.intr.fma(%x, %x, %x) : ({element}, {element}, {element}) -> {element}")
    body = "\n".join(lines)
    found = functions(bitcode(f"llvm.func @f(%x: {element}) {{\n{body}\nllvm.return\n}}"))
    assert len(found) == 1 + len(lines)


def test_flags_attributes_and_memory_operations() -> None:
    found = functions(
        bitcode("""
            llvm.func @malloc(i64) -> !llvm.ptr
            llvm.mlir.global internal constant @s("abc 1.5\\00")
            llvm.func @f(
                %p: !llvm.ptr {llvm.noalias, llvm.align = 64 : i64, llvm.nocapture, llvm.readonly, llvm.nonnull,
                               llvm.dereferenceable = 8 : i64},
                %i: i64, %v: vector<4xf32>)
                attributes {passthrough = ["nounwind"]} {
              %j = llvm.add %i, %i overflow<nsw, nuw> : i64
              %q = llvm.getelementptr inbounds|nuw %p[%j] : (!llvm.ptr, i64) -> !llvm.ptr, f32
              %o = llvm.or disjoint %i, %j : i64
              %t = llvm.trunc %o overflow<nsw, nuw> : i64 to i32
              %u = llvm.uitofp nneg %t : i32 to f32
              %true = llvm.mlir.constant(true) : i1
              llvm.intr.assume %true ["align"(%p, %i : !llvm.ptr, i64)] : i1
              "llvm.intr.memcpy"(%q, %p, %i) <{isVolatile = false}> : (!llvm.ptr, !llvm.ptr, i64) -> ()
              %c = llvm.mlir.constant(dense<[0.1, 0.2, 1.0, -0.0]> : vector<4xf32>) : vector<4xf32>
              %w = llvm.fadd %v, %c : vector<4xf32>
              %s = "llvm.intr.vector.reduce.fadd"(%u, %w) <{fastmathFlags = #llvm.fastmath<fast>}>
                  : (f32, vector<4xf32>) -> f32
              %space = llvm.alloca %i x i8 : (i64) -> !llvm.ptr
              llvm.store %s, %space : f32, !llvm.ptr
              %m = llvm.call @malloc(%i) : (i64) -> !llvm.ptr
              llvm.return
            }
        """)
    )
    assert {"f", "malloc", "llvm.assume", "llvm.memcpy.p0.p0.i64", "llvm.vector.reduce.fadd.v4f32"} == set(found)
    assert "noalias nonnull readonly align 64 captures(none) dereferenceable(8)" in found["f"]
    assert "getelementptr inbounds nuw" in found["f"]


def test_equal_kernels_become_one() -> None:
    kernel = """
        llvm.func @{name}(%p: !llvm.ptr, %begin: i64, %end: i64) attributes {{hip.kernel}} {{
          %q = llvm.getelementptr %p[%begin] : (!llvm.ptr, i64) -> !llvm.ptr, f32
          %x = llvm.load %q : !llvm.ptr -> f32
          %y = llvm.fadd %x, %x : f32
          llvm.store %y, %q : f32, !llvm.ptr
          llvm.return
        }}
    """
    entry = """
        llvm.func @hipc_launch(!llvm.ptr, !llvm.ptr)
        llvm.func @inference_compute(%p: !llvm.ptr) {
          %f = llvm.mlir.addressof @kernel_f : !llvm.ptr
          llvm.call @hipc_launch(%f, %p) : (!llvm.ptr, !llvm.ptr) -> ()
          %g = llvm.mlir.addressof @kernel_g : !llvm.ptr
          llvm.call @hipc_launch(%g, %p) : (!llvm.ptr, !llvm.ptr) -> ()
          llvm.return
        }
    """
    program = bitcode(kernel.format(name="kernel_f") + kernel.format(name="kernel_g") + entry)
    image = build_object(program, None, [], cpu.host()).image
    assert sum(name in image for name in (b"kernel_f\0", b"kernel_g\0")) == 1


def test_bitcode_is_for_no_cpu() -> None:
    module = llvmlite.parse_bitcode(bitcode("llvm.func @f() { llvm.return }"))
    assert (module.triple, module.data_layout) == ("", "")
    assert "target-cpu" not in str(module)


@pytest.mark.parametrize(
    ("text", "findings"),
    [
        (
            'llvm.func @f() {\n  %0 = builtin.unrealized_conversion_cast to i32 loc("a/b")\n  llvm.return\n}',
            ['builtin.unrealized_conversion_cast at loc("a/b")'],
        ),
        (
            'llvm.func @f() {\n  "hip.softmax"() : () -> () loc("/Softmax")\n  llvm.return\n}',
            ['hip.softmax at loc("/Softmax")'],
        ),
        ("func.func @f() {\n  return\n}", ["func.return at", "func.func at"]),
        ("module {\n  module @inner {\n  }\n}", ["builtin.module at"]),
    ],
)
def test_what_has_no_translation_is_listed(text: str, findings: list[str]) -> None:
    with pytest.raises(HipCompilerError) as caught:
        bitcode(text)
    assert caught.value.code == ErrorCode.CODEGEN
    assert len(caught.value.details) == len(findings)
    for finding, detail in zip(findings, caught.value.details, strict=True):
        assert detail.startswith(finding)


def test_a_long_list_is_cut() -> None:
    body = "\n".join('"foo.bar"() : () -> ()' for _ in range(50))
    with pytest.raises(HipCompilerError) as caught:
        bitcode(f"llvm.func @f() {{\n{body}\nllvm.return\n}}")
    assert caught.value.what == "50 operations cannot be translated to LLVM IR"
    assert caught.value.details[-1] == "and 30 more"
