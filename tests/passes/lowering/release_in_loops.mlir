// RUN: hip-compiler opt -p hip-lower-allocs %s

// Memory that an iteration takes is freed at its end, except for what goes on to the next one.
// CHECK-LABEL: func.func @main_graph
// CHECK: %[[MARK:.*]] = "hip.mark"() : () -> index
// CHECK: scf.for
// CHECK:   %[[BYTES:.*]] = "hip.alloc"
// CHECK:   %[[NEW:.*]] = memref.view %[[BYTES]]
// CHECK:   %[[KEPT:.*]] = "hip.as_argument"(%[[NEW]])
// CHECK:   "hip.release"(%[[MARK]], %[[KEPT]])
// CHECK:   scf.yield %[[NEW]]
func.func @main_graph(%ctx: !hip.context, %x: memref<?xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%s = %x) -> (memref<?xf32>) {
    %d = memref.dim %s, %c0 : memref<?xf32>
    %e = arith.addi %d, %c1 : index
    %new = memref.alloc(%e) : memref<?xf32>
    "hip.softmax"(%new, %new) {axis = 0 : i64, log = false} : (memref<?xf32>, memref<?xf32>) -> ()
    scf.yield %new : memref<?xf32>
  }
  return
}
