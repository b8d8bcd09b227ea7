"""`hip-outline-kernels`: loop structure on text, numbers against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hip_compiler.errors import HipCompilerError

BODY = """{
^bb0(%p: f32, %q: f32, %out: f32):
  %sum = arith.addf %p, %q : f32
  linalg.yield %sum : f32
}"""


def generic(maps: list[str], iterators: str, inputs: str, output: str, body: str) -> str:
    names = {"p": "parallel", "r": "reduction"}
    kinds = ", ".join(f'"{names[letter]}"' for letter in iterators)
    dims = ", ".join(f"d{number}" for number in range(len(iterators)))
    affine = ", ".join(f"affine_map<({dims}) -> ({entry})>" for entry in maps)
    header = f"linalg.generic {{indexing_maps = [{affine}], iterator_types = [{kinds}]}}"
    return f"{header} ins({inputs}) outs({output}) {body}"


def function(arguments: str, body: str) -> str:
    return f"func.func @f(%ctx: !hip.context, {arguments}) {{\n{body}\nreturn\n}}"


def test_contiguous_loops_merge(passes: Any, check: Any) -> None:
    kind = "memref<2x?x64xf32>"
    nest = generic(["d0, d1, d2"] * 3, "ppp", f"%x, %x : {kind}, {kind}", f"%y : {kind}", BODY)
    check(
        passes(function(f"%x: {kind}, %y: {kind}", nest), "hip-outline-kernels").text,
        """
        CHECK: "hip.launch"(%{{.*}}) {kernel = @kernel_0}
        CHECK: func.func private @kernel_0(%[[X:.*]]: memref<?xf32> {llvm.readonly}, %[[Y:.*]]: memref<?xf32>
        CHECK-SAME: %[[BEGIN:.*]]: index, %[[END:.*]]: index) attributes {hip.flat = 2 : i64, hip.kernel}
        CHECK: scf.for %[[I:.*]] = %[[BEGIN]] to %[[END]]
        CHECK-NOT: scf.for
        CHECK: memref.load %[[X]][%[[I]]]
        CHECK: memref.store %{{.*}}, %[[Y]][%[[I]]]
        """,
    )


def test_memory_of_its_own_does_not_alias(passes: Any, check: Any) -> None:
    kind = "memref<64xf32>"
    nest = generic(["d0"] * 3, "p", f"%x, %a : {kind}, {kind}", f"%b : {kind}", BODY)
    body = f"%a = memref.alloc() : {kind}\n%b = memref.alloc() : {kind}\n{nest}"
    text = function(f"%x: {kind}", body).replace("@f(", "@main_graph(")
    check(
        passes(text, "hip-outline-kernels").text,
        """
        CHECK: func.func private @kernel_0(
        CHECK-SAME: memref<?xf32> {llvm.noalias, llvm.readonly}, %{{.*}}: memref<?xf32> {llvm.noalias, llvm.readonly}
        CHECK-SAME: memref<?xf32> {llvm.noalias}
        """,
    )


def test_broadcast_row_keeps_two_loops(passes: Any, check: Any) -> None:
    wide, row = "memref<?x?x64xf32>", "memref<64xf32>"
    nest = generic(["d0, d1, d2", "d2", "d0, d1, d2"], "ppp", f"%x, %w : {wide}, {row}", f"%y : {wide}", BODY)
    check(
        passes(function(f"%x: {wide}, %w: {row}, %y: {wide}", nest), "hip-outline-kernels").text,
        """
        CHECK: func.func private @kernel_0
        CHECK: scf.for
        CHECK: scf.for %[[J:.*]] = %c0 to %c64
        CHECK-NOT: scf.for
        CHECK: memref.load %arg1[%[[J]]]
        """,
    )


def test_reduction_of_rows_runs_in_registers(passes: Any, check: Any) -> None:
    body = (
        "{\n^bb0(%p: f32, %sum: f32):\n  %s = arith.addf %p, %sum fastmath<reassoc> : f32\n  linalg.yield %s : f32\n}"
    )
    nest = generic(["d0, d1", "d0"], "pr", "%x : memref<?x64xf32>", "%y : memref<?xf32>", body)
    check(
        passes(function("%x: memref<?x64xf32>, %y: memref<?xf32>", nest), "hip-outline-kernels").text,
        """
        CHECK: func.func private @kernel_0
        CHECK: scf.for
        CHECK: %[[START:.*]] = memref.load
        CHECK: %[[TOTAL:.*]] = scf.for {{.*}} iter_args(%{{.*}} = %[[START]]) -> (f32)
        CHECK: arith.addf {{.*}} fastmath<reassoc>
        CHECK: memref.store %[[TOTAL]]
        """,
    )


def test_equal_computations_share_a_kernel(passes: Any, check: Any) -> None:
    kind, other = "memref<?x64xf32>", "memref<4x?xf32>"
    first = generic(["d0, d1"] * 3, "pp", f"%x, %x : {kind}, {kind}", f"%y : {kind}", BODY)
    second = generic(["d0, d1"] * 3, "pp", f"%v, %v : {other}, {other}", f"%w : {other}", BODY)
    third = second.replace("addf", "mulf")
    arguments = f"%x: {kind}, %y: {kind}, %v: {other}, %w: {other}"
    check(
        passes(function(arguments, f"{first}\n{second}\n{third}"), "hip-outline-kernels").text,
        """
        CHECK: kernel = @kernel_0
        CHECK: kernel = @kernel_0
        CHECK: kernel = @kernel_1
        CHECK-NOT: @kernel_2
        """,
    )


def test_map_that_is_not_linear_is_refused(passes: Any) -> None:
    body = BODY.replace("%q: f32, ", "").replace("%p, %q", "%p, %p")
    nest = generic(["d0 floordiv 2", "d0"], "p", "%x : memref<4xf32>", "%y : memref<8xf32>", body)
    with pytest.raises(HipCompilerError, match="not linear"):
        passes(function("%x: memref<4xf32>, %y: memref<8xf32>", nest), "hip-outline-kernels")


ADD = "%s = arith.addf %p, %out fastmath<reassoc> : f32"
MAXIMUM = "%s = arith.maximumf %p, %out : f32"


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)])
def test_reductions(compile_text: Any, graph_interface: Any, axes: tuple[int, ...]) -> None:
    kept = [axis for axis in range(3) if axis not in axes]
    kind = "x".join("?" for _ in kept)
    result = f"memref<{kind}{'x' if kept else ''}f32>"
    names = ["a", "b", "c"]
    header = graph_interface({"x": ("f4", names)}, {n: ("f4", [names[a] for a in kept]) for n in ("sum", "max")})
    iterators = "".join("r" if axis in axes else "p" for axis in range(3))
    maps = ["d0, d1, d2", ", ".join(f"d{axis}" for axis in kept)]
    parts = []
    for name, step, start in (("sum", ADD, "0.0"), ("max", MAXIMUM, "0xFF800000")):
        body = f"{{\n^bb0(%p: f32, %out: f32):\n  {step}\n  linalg.yield %s : f32\n}}"
        sizes = ", ".join(f"%n{axis}" for axis in kept)
        parts.append(
            f"%{name} = memref.alloc({sizes}) : {result}\n%start_{name} = arith.constant {start} : f32\n"
            f"linalg.fill ins(%start_{name} : f32) outs(%{name} : {result})\n"
            + generic(maps, iterators, "%x : memref<?x?x?xf32>", f"%{name} : {result}", body)
        )
    dims = "\n".join(
        f"%c{axis} = arith.constant {axis} : index\n%n{axis} = memref.dim %x, %c{axis} : memref<?x?x?xf32>"
        for axis in range(3)
    )
    text = (
        f"{header} {{\nfunc.func @main_graph(%ctx: !hip.context, %x: memref<?x?x?xf32>) -> ({result}, {result}) {{\n"
        f"{dims}\n" + "\n".join(parts) + f"\nreturn %sum, %max : {result}, {result}\n}}\n}}"
    )
    session = compile_text(text)
    for extents in ((3, 40, 17), (1, 1, 1), (2, 16, 5), (9, 3, 64), (0, 4, 4)):
        x = np.random.default_rng(3).normal(size=extents).astype(np.float32)
        found = session.run({"x": x})
        np.testing.assert_allclose(found["sum"], x.sum(axes, dtype=np.float64), rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(found["max"], x.max(axes, initial=-np.inf))


@pytest.mark.parametrize("order", [(0, 2, 1), (1, 0, 2), (2, 1, 0), (2, 0, 1), (1, 2, 0)])
def test_transposes(compile_text: Any, graph_interface: Any, order: tuple[int, ...]) -> None:
    names = ["a", "b", "c"]
    header = graph_interface({"x": ("f4", names)}, {"y": ("f4", [names[axis] for axis in order])})
    kind = "memref<?x?x?xf32>"
    body = "{\n^bb0(%p: f32, %out: f32):\n  linalg.yield %p : f32\n}"
    source = ", ".join(f"d{order.index(axis)}" for axis in range(3))
    dims = "\n".join(
        f"%c{axis} = arith.constant {axis} : index\n%n{axis} = memref.dim %x, %c{axis} : {kind}" for axis in range(3)
    )
    sizes = ", ".join(f"%n{axis}" for axis in order)
    text = (
        f"{header} {{\nfunc.func @main_graph(%ctx: !hip.context, %x: {kind}) -> {kind} {{\n{dims}\n"
        f"%y = memref.alloc({sizes}) : {kind}\n"
        + generic([source, "d0, d1, d2"], "ppp", f"%x : {kind}", f"%y : {kind}", body)
        + f"\nreturn %y : {kind}\n}}\n}}"
    )
    session = compile_text(text)
    for extents in ((3, 40, 17), (16, 32, 48), (1, 20, 5), (2, 3, 0)):
        x = np.random.default_rng(3).normal(size=extents).astype(np.float32)
        np.testing.assert_array_equal(session.run({"x": x})["y"], x.transpose(order))


def test_captured_memref_index_and_strided_window(run_text: Any, graph_interface: Any) -> None:
    """Gathers rows by a table read in the body, adds the column number, over a window with constant offsets."""
    header = graph_interface({"x": ("f4", ["r", 12]), "rows": ("i8", ["n"])}, {"y": ("f4", ["n", 5])})
    text = f"""{header} {{
    func.func @main_graph(%ctx: !hip.context, %x: memref<?x12xf32>, %rows: memref<?xi64>) -> memref<?x5xf32> {{
      %zero = arith.constant 0 : index
      %n = memref.dim %rows, %zero : memref<?xi64>
      %y = memref.alloc(%n) : memref<?x5xf32>
      %window = memref.subview %x[0, 1] [1, 11] [1, 1] : memref<?x12xf32> to memref<11xf32, strided<[1], offset: 1>>
      linalg.generic {{indexing_maps = [affine_map<(i, j) -> (j * 2 + 1)>, affine_map<(i, j) -> (i, j)>],
                      iterator_types = ["parallel", "parallel"]}}
        ins(%window : memref<11xf32, strided<[1], offset: 1>>) outs(%y : memref<?x5xf32>) {{
      ^bb0(%first: f32, %out: f32):
        %i = linalg.index 0 : index
        %j = linalg.index 1 : index
        %wide = memref.load %rows[%i] : memref<?xi64>
        %row = arith.index_cast %wide : i64 to index
        %picked = memref.load %x[%row, %j] : memref<?x12xf32>
        %narrow = arith.index_cast %j : index to i32
        %column = arith.sitofp %narrow : i32 to f32
        %sum = arith.addf %picked, %column : f32
        %total = arith.addf %sum, %first : f32
        linalg.yield %total : f32
      }}
      return %y : memref<?x5xf32>
    }}
    }}"""
    x = np.random.default_rng(3).normal(size=(6, 12)).astype(np.float32)
    rows = np.array([5, 0, 3, 3], np.int64)
    expected = (x[rows, :5] + np.arange(5, dtype=np.float32)) + x[0, 2:12:2]
    np.testing.assert_array_equal(run_text(text, {"x": x, "rows": rows})["y"], expected)


def test_static_reductions_and_long_rows(run_text: Any, graph_interface: Any) -> None:
    """Static extents: a row too long to leave to one thread, a column sum, a sum of everything."""
    x = np.random.default_rng(3).normal(size=(3, 5000)).astype(np.float32)
    shape = [3, 5000]
    header = graph_interface(
        {"x": ("f4", shape), "w": ("f4", [3])}, {"y": ("f4", shape), "columns": ("f4", [5000]), "all": ("f4", [])}
    )
    body = (
        "{\n^bb0(%p: f32, %out: f32):\n  %s = arith.addf %p, %out fastmath<reassoc> : f32\n  linalg.yield %s : f32\n}"
    )
    kind = "memref<3x5000xf32>"
    row = "memref<5000xf32>"
    text = f"""{header} {{
    func.func @main_graph(%ctx: !hip.context, %x: {kind}, %w: memref<3xf32>) -> ({kind}, {row}, memref<f32>) {{
      %zero = arith.constant 0.0 : f32
      %y = memref.alloc() : {kind}
      {generic(["d0, d1", "d0", "d0, d1"], "pp", f"%x, %w : {kind}, memref<3xf32>", f"%y : {kind}", BODY)}
      %columns = memref.alloc() : memref<5000xf32>
      linalg.fill ins(%zero : f32) outs(%columns : memref<5000xf32>)
      {generic(["d0, d1", "d1"], "rp", f"%x : {kind}", "%columns : memref<5000xf32>", body)}
      %all = memref.alloc() : memref<f32>
      linalg.fill ins(%zero : f32) outs(%all : memref<f32>)
      {generic(["d0, d1", ""], "rr", f"%x : {kind}", "%all : memref<f32>", body)}
      return %y, %columns, %all : {kind}, memref<5000xf32>, memref<f32>
    }}
    }}"""
    w = np.array([1, 2, 3], np.float32)
    found = run_text(text, {"x": x, "w": w})
    np.testing.assert_array_equal(found["y"], x + w[:, None])
    np.testing.assert_allclose(found["columns"], x.sum(0, dtype=np.float64), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found["all"], x.sum(dtype=np.float64), rtol=1e-4, atol=1e-3)


def test_memory_read_in_the_body_may_be_what_is_written(passes: Any, check: Any) -> None:
    text = """
    func.func @main_graph(%ctx: !hip.context) {
      %y = memref.alloc() : memref<64xf32>
      linalg.generic {indexing_maps = [affine_map<(d) -> (d)>], iterator_types = ["parallel"]}
          outs(%y : memref<64xf32>) {
      ^bb0(%out: f32):
        %zero = arith.constant 0 : index
        %first = memref.load %y[%zero] : memref<64xf32>
        linalg.yield %first : f32
      }
      return
    }"""
    check(
        passes(text, "hip-outline-kernels").text,
        "CHECK: func.func private @kernel_0(%{{.*}}: memref<?xf32>, %{{.*}}: memref<64xf32>, %{{.*}}: index",
    )
