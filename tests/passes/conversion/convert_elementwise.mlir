// RUN: hip-compiler opt -p "hip-add-context-arg,convert-onnx-to-hip,canonicalize,cse" %s

// Equal symbols are equal extents: no check, no copy, one loop nest per operator.
// CHECK: hip.interface = "{{.*}}inputs{{.*}}x{{.*}}outputs
// CHECK-LABEL: func.func @main_graph
// CHECK-SAME: (%{{.*}}: !hip.context, %[[X:.*]]: tensor<?x4xf32>, %[[Y:.*]]: tensor<?x4xf32>, %[[ROW:.*]]: tensor<4xf32>)
// CHECK-NOT: hip.check
// CHECK: %[[SUM:.*]] = linalg.generic
// CHECK-SAME: ins(%[[X]], %[[Y]] :
// CHECK: arith.addf
// CHECK: linalg.generic {indexing_maps = [#{{.*}}, #[[ROWMAP:.*]], #{{.*}}]
// CHECK: ins(%[[SUM]], %[[ROW]]
// CHECK: arith.mulf
module attributes {onnx.opset = {ai.onnx = 17 : i64}} {
  func.func @main_graph(
      %x: tensor<?x4xf32> {onnx.name = "x", onnx.dims = ["n", ""]},
      %y: tensor<?x4xf32> {onnx.name = "y", onnx.dims = ["n", ""]},
      %row: tensor<4xf32> {onnx.name = "row"}) -> (tensor<?x4xf32> {onnx.name = "z"}) {
    %0 = "onnx.Add"(%x, %y) : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
    %1 = "onnx.Mul"(%0, %row) : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
    return %1 : tensor<?x4xf32>
  }
}
