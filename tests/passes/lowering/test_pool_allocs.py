"""`hip-pool-allocs` on text, and its plans."""

from __future__ import annotations

from typing import Any

import numpy as np

COPY = (
    'linalg.generic {indexing_maps = [affine_map<(d) -> (d)>, affine_map<(d) -> (d)>], iterator_types = ["parallel"]}'
    " ins(%IN : memref<SIZExf32>) outs(%OUT : memref<SIZExf32>) {\n"
    "^bb0(%in: f32, %out: f32):\n  linalg.yield %in : f32\n}"
)


def copy(source: str, target: str, size: str) -> str:
    return COPY.replace("%IN", source).replace("%OUT", target).replace("SIZE", size)


def test_static_buffers_share_offsets(passes: Any, check: Any) -> None:
    chain = "\n".join(
        f"%b{step} = memref.alloc() : memref<100xf32>\n"
        f'"test.touch"({f"%b{step - 1}" if step else "%x"}, %b{step}) : (memref<100xf32>, memref<100xf32>) -> ()'
        for step in range(6)
    )
    text = f"""
    func.func @main_graph(%ctx: !hip.context, %x: memref<100xf32>, %y: memref<100xf32>) {{
      {chain}
      {copy("%b5", "%y", "100")}
      return
    }}"""
    lowered = passes(text, "hip-pool-allocs")
    check(
        lowered.text,
        """
        CHECK-DAG: %[[BYTES:.*]] = arith.constant 896 : index
        CHECK: %[[POOL:.*]] = "hip.get_pool"(%[[BYTES]]) {domain = 0 : i64} : (index) -> memref<?xi8>
        CHECK: memref.view %[[POOL]]
        CHECK-NOT: memref.alloc
        CHECK-NOT: hip.get_pool
        """,
    )
    plan = lowered.reports["arena"]["functions"]["main_graph"]["static"]
    assert plan == {"peak": 896, "bound": 896, "ratio": 1.0, "buffers": 6}


def test_dynamic_buffers_are_packed_by_their_common_extent(passes: Any, check: Any) -> None:
    text = """
    func.func @main_graph(%ctx: !hip.context, %x: memref<?x64xf32>, %y: memref<?x64xf32>) {
      %zero = arith.constant 0 : index
      %n = memref.dim %x, %zero : memref<?x64xf32>
      %wide = memref.alloc(%n) : memref<?x256xf32>
      "test.touch"(%x, %wide) : (memref<?x64xf32>, memref<?x256xf32>) -> ()
      %m = memref.dim %wide, %zero : memref<?x256xf32>
      %narrow = memref.alloc(%m) : memref<?x64xf32>
      "test.touch"(%wide, %narrow) : (memref<?x256xf32>, memref<?x64xf32>) -> ()
      %again = memref.alloc(%n) : memref<?x256xf32>
      "test.touch"(%narrow, %again) : (memref<?x64xf32>, memref<?x256xf32>) -> ()
      %flag = memref.alloc(%n) : memref<?xi8>
      "test.touch"(%again, %flag) : (memref<?x256xf32>, memref<?xi8>) -> ()
      "test.touch"(%flag, %y) : (memref<?xi8>, memref<?x64xf32>) -> ()
      return
    }"""
    lowered = passes(text, "hip-pool-allocs,canonicalize,cse")
    check(
        lowered.text,
        """
        CHECK-DAG: %[[N:.*]] = memref.dim %arg1
        CHECK-DAG: %[[UNITS:.*]] = arith.constant 1280 : index
        CHECK: %[[PROPORTIONAL:.*]] = arith.muli %[[N]], %[[UNITS]]
        CHECK: arith.andi
        CHECK: %[[POOL:.*]] = "hip.get_pool"
        CHECK: memref.view %[[POOL]]{{.*}} to memref<?x256xf32>
        CHECK: memref.view %[[POOL]]{{.*}} to memref<?x64xf32>
        CHECK: memref.view %[[POOL]][%[[PROPORTIONAL]]][%[[N]]] : memref<?xi8> to memref<?xi8>
        CHECK-NOT: memref.alloc
        """,
    )
    dynamic = lowered.reports["arena"]["functions"]["main_graph"]["dynamic"]
    assert [group["peak"] for group in dynamic] == [1280, 1]
    assert all(group["ratio"] == 1.0 for group in dynamic)


def test_size_known_late_gets_a_domain_where_it_is_known(passes: Any, check: Any) -> None:
    text = """
    func.func @main_graph(%ctx: !hip.context, %x: memref<8xf32>, %y: memref<8xf32>) {
      %count = memref.alloc() : memref<i64>
      "test.count"(%x, %count) : (memref<8xf32>, memref<i64>) -> ()
      %wide = memref.load %count[] : memref<i64>
      %n = arith.index_cast %wide : i64 to index
      %found = memref.alloc(%n) : memref<1x?xi64>
      "test.find"(%x, %found) : (memref<8xf32>, memref<1x?xi64>) -> ()
      "test.touch"(%found, %y) : (memref<1x?xi64>, memref<8xf32>) -> ()
      return
    }"""
    lowered = passes(text, "hip-pool-allocs")
    check(
        lowered.text,
        """
        CHECK: "hip.get_pool"{{.*}}domain = 0
        CHECK: "test.count"
        CHECK: %[[N:.*]] = arith.index_cast
        CHECK: "hip.get_pool"{{.*}}domain = 1
        CHECK: memref.view{{.*}}[%[[N]]] : memref<?xi8> to memref<1x?xi64>
        """,
    )
    assert lowered.reports["arena"]["functions"]["main_graph"]["late"] == 1


def test_views_keep_their_buffer_alive(passes: Any) -> None:
    text = f"""
    func.func @main_graph(%ctx: !hip.context, %x: memref<64xf32>, %y: memref<64xf32>) {{
      %a = memref.alloc() : memref<64xf32>
      {copy("%x", "%a", "64")}
      %view = memref.expand_shape %a [[0, 1]] output_shape [8, 8] : memref<64xf32> into memref<8x8xf32>
      %b = memref.alloc() : memref<64xf32>
      {copy("%x", "%b", "64")}
      {copy("%b", "%y", "64")}
      "test.touch"(%view, %y) : (memref<8x8xf32>, memref<64xf32>) -> ()
      return
    }}"""
    plan = passes(text, "hip-pool-allocs").reports["arena"]["functions"]["main_graph"]["static"]
    assert plan["peak"] == 512


def test_untouched_buffers_go(passes: Any, check: Any) -> None:
    text = """
    func.func @main_graph(%ctx: !hip.context) {
      %a = memref.alloc() : memref<64xf32>
      %view = memref.cast %a : memref<64xf32> to memref<?xf32>
      return
    }"""
    check(passes(text, "hip-pool-allocs").text, "CHECK: func.func\nCHECK-NOT: memref\nCHECK: return")


LOOP = """
func.func @body(%ctx: !hip.context, %x: memref<64xf32>, %n: index) -> memref<64xf32> {{
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %last = scf.for %i = %zero to %n step %one iter_args(%state = %x) -> (memref<64xf32>) {{
    %inside = memref.alloc() : memref<64xf32>
    "test.touch"(%state, %inside) : (memref<64xf32>, memref<64xf32>) -> ()
    %next = memref.alloc() : memref<64xf32>
    "test.touch"(%inside, %next) : (memref<64xf32>, memref<64xf32>) -> ()
    scf.yield %next : memref<64xf32>
  }}
  return %last : memref<64xf32>
}}"""


def test_what_goes_around_in_a_loop_is_not_pooled(passes: Any, check: Any) -> None:
    check(
        passes(LOOP.format(), "hip-pool-allocs,hip-lower-allocs").text,
        """
        CHECK: %[[POOL:.*]] = "hip.get_pool"
        CHECK: scf.for
        CHECK: memref.view %[[POOL]]
        CHECK: %[[HEAP:.*]] = "hip.alloc"
        CHECK: memref.view %[[HEAP]]
        CHECK: scf.yield
        """,
    )


def test_division_stays_behind_the_check_of_its_divisor(passes: Any, check: Any) -> None:
    text = """
    func.func @main_graph(%ctx: !hip.context, %x: memref<?x?xf32>, %y: memref<?xf32>) {
      %zero = arith.constant 0 : index
      %one = arith.constant 1 : index
      %n = memref.dim %x, %zero : memref<?x?xf32>
      %m = memref.dim %x, %one : memref<?x?xf32>
      %positive = arith.cmpi sgt, %m, %zero : index
      "hip.check"(%positive) {message = "no columns"} : (i1) -> ()
      %share = arith.divsi %n, %m : index
      %a = memref.alloc(%share) : memref<?xf32>
      "test.touch"(%x, %a) : (memref<?x?xf32>, memref<?xf32>) -> ()
      "test.touch"(%a, %y) : (memref<?xf32>, memref<?xf32>) -> ()
      return
    }"""
    check(
        passes(text, "hip-pool-allocs").text,
        'CHECK: arith.cmpi\nCHECK: "hip.check"\nCHECK: arith.divsi\nCHECK: "hip.get_pool"',
    )


ADD = """linalg.generic {indexing_maps = [MAPS, affine_map<(i, j) -> (i, j)>],
                iterator_types = ["parallel", "parallel"]}
    ins(INPUTS) outs(OUTPUT) {
^bb0(%p: f32, %q: f32, %out: f32):
  %sum = arith.addf %p, %q : f32
  linalg.yield %sum : f32
}"""
IN_ORDER, TRANSPOSED = "affine_map<(i, j) -> (i, j)>", "affine_map<(i, j) -> (j, i)>"


def add(a: str, b: str, out: str, order: str = IN_ORDER) -> str:
    kind = "memref<8x8xf32>"
    text = ADD.replace("MAPS", f"{IN_ORDER}, {order}").replace("INPUTS", f"{a}, {b} : {kind}, {kind}")
    return f"{out} = memref.alloc() : {kind}\n" + text.replace("OUTPUT", f"{out} : {kind}")


def sums(header: str, body: str) -> str:
    kind = "memref<8x8xf32>"
    return f"""{header} {{
    func.func @main_graph(%ctx: !hip.context, %x: {kind}) -> {kind} {{
      {body}
      return %y : {kind}
    }}
    }}"""


def test_elementwise_chain_needs_one_buffer(passes: Any, run_text: Any, graph_interface: Any) -> None:
    header = graph_interface({"x": ("f4", [8, 8])}, {"y": ("f4", [8, 8])})
    body = "\n".join([add("%x", "%x", "%a"), add("%a", "%x", "%b"), add("%b", "%b", "%c"), add("%c", "%x", "%y")])
    text = sums(header, body)
    plan = passes(text, "hip-use-output-allocator,hip-pool-allocs").reports["arena"]["functions"]["main_graph"]
    assert plan["static"]["peak"] == 256
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    np.testing.assert_array_equal(run_text(text, {"x": x})["y"], 7 * x)


def test_what_is_still_needed_is_not_written_over(passes: Any, run_text: Any, graph_interface: Any) -> None:
    header = graph_interface({"x": ("f4", [8, 8])}, {"y": ("f4", [8, 8])})
    # %a is read transposed while %b is written, and %b is read after %c is.
    body = [add("%x", "%x", "%a"), add("%a", "%a", "%b", TRANSPOSED), add("%b", "%x", "%c"), add("%c", "%b", "%y")]
    text = sums(header, "\n".join(body))
    plan = passes(text, "hip-use-output-allocator,hip-pool-allocs").reports["arena"]["functions"]["main_graph"]
    assert plan["static"]["peak"] == 512
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    b = 2 * x + 2 * x.T
    np.testing.assert_array_equal(run_text(text, {"x": x})["y"], 2 * b + x)
