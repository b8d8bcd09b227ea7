// RUN: hip-compiler opt -p "hip-add-context-arg,convert-onnx-to-hip,canonicalize,cse" %s

// Extents that nobody knows to be equal are checked, and a run-time 1 is read at index 0.
// CHECK-LABEL: func.func @main_graph
// CHECK: %[[M:.*]] = tensor.dim %[[Y:.*]], %
// CHECK: "hip.check"({{.*}}) {message = "extents m and 4 do not broadcast"}
// CHECK: linalg.generic
// CHECK: linalg.index 0
// CHECK: arith.select
// CHECK: tensor.extract %[[Y]]
// CHECK: arith.addf
module attributes {onnx.opset = {ai.onnx = 17 : i64}} {
  func.func @main_graph(
      %x: tensor<4xf32> {onnx.name = "x", onnx.dims = [""]},
      %y: tensor<?xf32> {onnx.name = "y", onnx.dims = ["m"]}) -> (tensor<4xf32> {onnx.name = "z"}) {
    %0 = "onnx.Add"(%x, %y) : (tensor<4xf32>, tensor<?xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
