// RUN: not hip-compiler opt -p convert-onnx-to-hip %s

// CHECK: HIPC0302: @main_graph has no context argument
// CHECK: do: run hip-add-context-arg before this pass
func.func @main_graph(%x: tensor<2xf32> {onnx.name = "x"}) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}
