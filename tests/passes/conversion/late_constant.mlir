// RUN: not hip-compiler opt -p verify-no-constant-carriers %s

// CHECK: HIPC0306: 1 hip.constant made after hip-externalize-constants
// CHECK: at loc("/late")
// CHECK: AfterConvertOnnxToHip
func.func @main_graph() -> tensor<1xf32> {
  %a = "hip.constant"() {value = dense<1.0> : tensor<1xf32>} : () -> tensor<1xf32> loc("/late")
  return %a : tensor<1xf32>
}
