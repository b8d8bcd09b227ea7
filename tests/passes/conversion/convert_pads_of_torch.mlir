// RUN: hip-compiler opt -p "hip-add-context-arg,convert-onnx-to-hip,canonicalize,cse" %s

// PyTorch's exporter turns the pads round: as rows of two, backwards, transposed. The extents stay known.
// CHECK-LABEL: func.func @main_graph
// CHECK: hip.pad
// CHECK-SAME: -> tensor<?x3x7x6xf32>
// CHECK: return
module attributes {onnx.opset = {ai.onnx = 17 : i64}} {
  func.func @main_graph(%x: tensor<?x3x4x5xf32> {onnx.name = "x", onnx.dims = ["b", "", "", ""]})
      -> (tensor<?x?x?x?xf32> {onnx.name = "y"}) {
    %pads = "onnx.Constant"() {value = dense<[0, 1, 1, 2, 0, 0, 0, 0]> : tensor<8xi64>} : () -> tensor<8xi64>
    %rows = "onnx.Constant"() {value = dense<[-1, 2]> : tensor<2xi64>} : () -> tensor<2xi64>
    %all = "onnx.Constant"() {value = dense<-1> : tensor<1xi64>} : () -> tensor<1xi64>
    %first = "onnx.Constant"() {value = dense<0> : tensor<1xi64>} : () -> tensor<1xi64>
    %end = "onnx.Constant"() {value = dense<-9223372036854775807> : tensor<1xi64>} : () -> tensor<1xi64>
    %0 = "onnx.Reshape"(%pads, %rows) {allowzero = 0 : i64} : (tensor<8xi64>, tensor<2xi64>) -> tensor<4x2xi64>
    %1 = "onnx.Slice"(%0, %all, %end, %first, %all)
      : (tensor<4x2xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<4x2xi64>
    %2 = "onnx.Transpose"(%1) {perm = array<i64: 1, 0>} : (tensor<4x2xi64>) -> tensor<2x4xi64>
    %3 = "onnx.Reshape"(%2, %all) {allowzero = 0 : i64} : (tensor<2x4xi64>, tensor<1xi64>) -> tensor<8xi64>
    %y = "onnx.Pad"(%x, %3) {mode = "edge"} : (tensor<?x3x4x5xf32>, tensor<8xi64>) -> tensor<?x?x?x?xf32>
    return %y : tensor<?x?x?x?xf32>
  }
}
