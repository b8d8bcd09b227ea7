// RUN: hip-compiler opt --split-input-file -p onnx-fuse-epilogues %s

// Bias, activation and residual sum join a product whose result has no other user.
// CHECK-LABEL: func.func @main_graph
// CHECK-NOT: onnx.MatMul
// CHECK: "onnx.Linear"(%[[X:.*]], %[[W:.*]], %[[BIAS:.*]], %[[R:.*]]) {activation = "gelu_tanh"
// CHECK-SAME: domain = "hip"
// CHECK-NOT: onnx.Add
// CHECK: return
func.func @main_graph(%x: tensor<?x2xf32>, %r: tensor<?x3xf32>) -> tensor<?x3xf32> {
  %w = "onnx.Constant"() {value = dense<1.0> : tensor<2x3xf32>} : () -> tensor<2x3xf32>
  %b = "onnx.Constant"() {value = dense<2.0> : tensor<3xf32>} : () -> tensor<3xf32>
  %0 = "onnx.MatMul"(%x, %w) : (tensor<?x2xf32>, tensor<2x3xf32>) -> tensor<?x3xf32>
  %1 = "onnx.Add"(%b, %0) : (tensor<3xf32>, tensor<?x3xf32>) -> tensor<?x3xf32>
  %2 = "onnx.Gelu"(%1) {approximate = "tanh"} : (tensor<?x3xf32>) -> tensor<?x3xf32>
  %3 = "onnx.Add"(%2, %r) : (tensor<?x3xf32>, tensor<?x3xf32>) -> tensor<?x3xf32>
  return %3 : tensor<?x3xf32>
}

// -----

// A product that somebody else reads stays as it is.
// CHECK-LABEL: func.func @main_graph
// CHECK: "onnx.Conv"(%{{.*}}, %{{.*}}) {strides = array<i64: 1, 1>}
// CHECK: "onnx.Relu"
func.func @main_graph(%x: tensor<1x1x2x2xf32>) -> (tensor<*xf32>, tensor<*xf32>) {
  %w = "onnx.Constant"() {value = dense<1.0> : tensor<1x1x1x1xf32>} : () -> tensor<1x1x1x1xf32>
  %0 = "onnx.Conv"(%x, %w) {strides = array<i64: 1, 1>} : (tensor<1x1x2x2xf32>, tensor<1x1x1x1xf32>) -> tensor<*xf32>
  %1 = "onnx.Relu"(%0) : (tensor<*xf32>) -> tensor<*xf32>
  return %0, %1 : tensor<*xf32>, tensor<*xf32>
}
