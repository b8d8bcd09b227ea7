// RUN: hip-compiler opt %s

// Tensor form: one result per destination. Memref form: none.
// CHECK-LABEL: func.func @softmax
// CHECK-SAME: !hip.context
// CHECK: "hip.softmax"(%arg1, %arg2) {axis = 1 : i64, log = false} : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK: "hip.softmax"(%arg3, %arg3) {axis = 0 : i64} : (memref<4xf32>, memref<4xf32>) -> ()
func.func @softmax(%ctx: !hip.context, %x: tensor<?x4xf32>, %out: tensor<?x4xf32>, %m: memref<4xf32>) -> tensor<?x4xf32> {
  %0 = "hip.softmax"(%x, %out) {axis = 1 : i64, log = false} : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  "hip.softmax"(%m, %m) {axis = 0 : i64} : (memref<4xf32>, memref<4xf32>) -> ()
  return %0 : tensor<?x4xf32>
}
