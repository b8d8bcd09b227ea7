// RUN: hip-compiler opt -p "hip-add-context-arg,convert-onnx-to-hip,canonicalize,cse" %s

// A chain that computes a shape is followed at compile time; nothing of it is left but a view.
// CHECK-LABEL: func.func @main_graph
// CHECK-NOT: tensor.from_elements
// CHECK-NOT: linalg
// CHECK-NOT: hip.gather
// CHECK: tensor.expand_shape
// CHECK-SAME: tensor<?x?x2x4xf32>
// CHECK-NOT: linalg
// CHECK: return
module attributes {onnx.opset = {ai.onnx = 17 : i64}} {
  func.func @main_graph(%x: tensor<?x?x8xf32> {onnx.name = "x", onnx.dims = ["b", "s", ""]})
      -> (tensor<?x?x2x4xf32> {onnx.name = "y"}) {
    %shape = "onnx.Shape"(%x) : (tensor<?x?x8xf32>) -> tensor<3xi64>
    %zero = "onnx.Constant"() {value = dense<0> : tensor<1xi64>} : () -> tensor<1xi64>
    %one = "onnx.Constant"() {value = dense<1> : tensor<1xi64>} : () -> tensor<1xi64>
    %tail = "onnx.Constant"() {value = dense<[2, 4]> : tensor<2xi64>} : () -> tensor<2xi64>
    %b = "onnx.Gather"(%shape, %zero) {axis = 0 : i64} : (tensor<3xi64>, tensor<1xi64>) -> tensor<1xi64>
    %s = "onnx.Gather"(%shape, %one) {axis = 0 : i64} : (tensor<3xi64>, tensor<1xi64>) -> tensor<1xi64>
    %target = "onnx.Concat"(%b, %s, %tail) {axis = 0 : i64}
      : (tensor<1xi64>, tensor<1xi64>, tensor<2xi64>) -> tensor<4xi64>
    %y = "onnx.Reshape"(%x, %target) : (tensor<?x?x8xf32>, tensor<4xi64>) -> tensor<?x?x2x4xf32>
    return %y : tensor<?x?x2x4xf32>
  }
}
