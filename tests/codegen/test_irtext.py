"""Constants keep their bits on the way from LLVM 24 text to LLVM 22."""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvmlite
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hip_compiler.core.codegen.irtext import constant_bits, downgrade
from hip_compiler.core.mlir import ir, llvm
from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.runtime import cpu

FORMATS: dict[str, tuple[str, Any, Any]] = {
    "half": ("f16", np.uint16, np.float16),
    "bfloat": ("bf16", np.uint16, ml_dtypes.bfloat16),
    "float": ("f32", np.uint32, np.float32),
    "double": ("f64", np.uint64, np.float64),
}


def patterns(name: str) -> np.ndarray:
    """Bits of every 16-bit value; of the others, of NaNs, infinities, denormals, edges, and numbers of all kinds."""
    _, bits, number = FORMATS[name]
    if bits is np.uint16:
        return np.arange(65536, dtype=bits)
    generator = np.random.default_rng(0)
    width = bits().itemsize * 8
    random = generator.integers(0, np.iinfo(bits).max, 4000, dtype=bits, endpoint=True)
    round_numbers = np.round(generator.standard_normal(2000) * 100, 2).astype(number).view(bits)
    info = np.finfo(number)
    edges = np.array(
        [
            0.0,
            -0.0,
            1,
            -1,
            0.1,
            np.inf,
            -np.inf,
            np.nan,
            -np.nan,
            info.max,
            info.min,
            info.tiny,
            info.smallest_subnormal,
        ],
        number,
    ).view(bits)
    exponent = np.array(np.inf, number).view(bits)
    payloads = exponent | (generator.integers(1, 1 << info.nmant, 1000, dtype=bits))
    signs = payloads | bits(1 << (width - 1))
    denormals = generator.integers(1, 1 << info.nmant, 1000, dtype=bits)
    return np.concatenate([random, round_numbers, edges, payloads, signs, denormals])


def global_text(name: str, bits: np.ndarray) -> str:
    """LLVM 24 text of a constant array."""
    mlir_type, _, _ = FORMATS[name]
    with ir.Context(), ir.Location.unknown():
        element = ir.Type.parse(mlir_type)
        module = ir.Module.parse(f"llvm.mlir.global constant @g() : !llvm.array<{bits.size} x {mlir_type}>")
        values = ir.DenseElementsAttr.get(bits.copy(), type=element, shape=[bits.size])
        module.body.operations[0].attributes["value"] = values
        return str(llvm.translate_module_to_llvmir(module.operation))


@pytest.mark.parametrize("name", FORMATS)
def test_every_constant_keeps_its_bits(name: str) -> None:
    bits = patterns(name)
    assert bits.size >= 9000
    module = llvmlite.parse_assembly(downgrade(global_text(name, bits)))
    module.verify()
    machine = cpu.host().target_machine()
    module.triple = machine.triple
    # The array lies in the object file as it was: little-endian, one element after the other.
    assert bits.tobytes() in machine.emit_object(module)


@given(st.floats(width=16, allow_nan=False))
@settings(deadline=None)
def test_short_decimals_round_as_numpy_does(value: float) -> None:
    text = f"{value:.5e}" if np.isfinite(value) else ("+inf" if value > 0 else "-inf")
    expected = np.float16(text.replace("+inf", "inf"))
    assert constant_bits("half", text) == int(expected.view(np.uint16))


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    "text", ["0.1", "-0.0", "65504.0", "65520.0", "1.0e-45", "3.0e-45", "0.5e-7", "123456789.0", "4.9e-324", "1.0e-41"]
)
def test_decimals_round_to_nearest(name: str, text: str) -> None:
    _, bits, number = FORMATS[name]
    if name == "bfloat" and text in ("1.0e-45", "3.0e-45", "4.9e-324"):
        expected = 0
    else:
        with np.errstate(over="ignore", under="ignore"):
            expected = int(
                np.array(float(text)).astype(np.float32 if name == "bfloat" else number).astype(number).view(bits)
            )
    assert constant_bits(name, text) == expected


INSTRUCTIONS = [
    ("%r = fadd float %x, 1.5", "%r = fadd float %x, 0x3FF8000000000000"),
    ("%r = select i1 %c, half 0.5, half -2.0", "%r = select i1 %c, half 0xH3800, half 0xHC000"),
    ("%r = fmul <2 x bfloat> %v, splat (bfloat 1.0)", "%r = fmul <2 x bfloat> %v, splat (bfloat 0xR3F80)"),
    (
        "%r = phi double [ 1.0, %a ], [ +inf, %b ]",
        "%r = phi double [ 0x3FF0000000000000, %a ], [ 0x7FF0000000000000, %b ]",
    ),
    ("ret x86_fp80 f0x4000C90FDAA22168C235", "ret x86_fp80 0xK4000C90FDAA22168C235"),
    ("ret fp128 f0x40000000000000000000000000000001", "ret fp128 0xL00000000000000014000000000000000"),
    ("ret float -nan(0x1)", "ret float 0xFFF8000020000000"),
    ("ret float +snan(0x1)", "ret float 0x7FF0000020000000"),
    ("ret half -qnan", "ret half 0xHFE00"),
    ("define void @f(ptr dead_on_return(8) %p) {", "define void @f(ptr dead_on_return %p) {"),
]


@pytest.mark.parametrize(("line", "expected"), INSTRUCTIONS)
def test_instructions(line: str, expected: str) -> None:
    assert downgrade(line) == expected


@pytest.mark.parametrize(
    "line",
    [
        '@s = constant [9 x i8] c"float 1.5"',
        '  call void @"f 1.5"(float %x) ; float 1.5',
        '!0 = !{!"float 1.5", i32 15}',
        "  %x1.5 = fadd float %a.1.5, %b",
        "  br label %bb.1.0",
        'attributes #0 = { "target-features"="+sse4.2" nocreateundeforpoison }',
        "  %p = getelementptr inbounds nuw float, ptr %q, i64 10",
    ],
)
def test_everything_else_stays(line: str) -> None:
    assert downgrade(line) == line


@pytest.mark.parametrize("line", ["  store i32 1.5, ptr %p", "  ret fp128 1.5"])
def test_what_is_not_understood_is_told(line: str) -> None:
    with pytest.raises(HipCompilerError) as caught:
        downgrade(f"define void @f() {{\n{line}\n}}")
    assert caught.value.code == ErrorCode.CODEGEN
    assert f"line 2 of the LLVM IR: {line.strip()}" in str(caught.value)
