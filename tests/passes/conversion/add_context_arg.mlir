// RUN: hip-compiler opt -p hip-add-context-arg %s

// The context comes first, and every use of an argument keeps its argument.
// CHECK: func.func @main_graph(%[[CTX:.*]]: !hip.context, %[[X:.*]]: tensor<2xf32> {onnx.name = "x"}, %[[Y:.*]]: tensor<3xi64>)
// CHECK: "onnx.Shape"(%[[X]])
// CHECK: return %[[Y]]
func.func @main_graph(%x: tensor<2xf32> {onnx.name = "x"}, %y: tensor<3xi64>) -> tensor<3xi64> {
  %0 = "onnx.Shape"(%x) : (tensor<2xf32>) -> tensor<1xi64>
  return %y : tensor<3xi64>
}

// CHECK: func.func private @declared(tensor<1xf32>)
func.func private @declared(tensor<1xf32>)
