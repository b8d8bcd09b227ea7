// RUN: not hip-compiler opt -p "hip-add-context-arg,convert-onnx-to-hip" %s

// CHECK: HIPC0200: 2 nodes cannot be compiled
// CHECK: /decode: ImageDecoder opset 20 (uint8): pictures are decoded before the model
// CHECK: /sine: Sin opset 20 (int32): element type int32 is not defined for it
module attributes {onnx.opset = {ai.onnx = 20 : i64}} {
  func.func @main_graph(%x: tensor<8xui8> {onnx.name = "x"}, %i: tensor<2xi32> {onnx.name = "i"})
      -> (tensor<*xui8> {onnx.name = "y"}, tensor<2xi32> {onnx.name = "z"}) {
    %0 = "onnx.ImageDecoder"(%x) : (tensor<8xui8>) -> tensor<*xui8> loc("/decode")
    %1 = "onnx.Sin"(%i) : (tensor<2xi32>) -> tensor<2xi32> loc("/sine")
    return %0, %1 : tensor<*xui8>, tensor<2xi32>
  }
}
