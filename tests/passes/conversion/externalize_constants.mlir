// RUN: hip-compiler opt -p hip-externalize-constants %s

// Each gets a place at a multiple of 64 bytes; what nobody reads is gone.
// CHECK-LABEL: func.func @main_graph
// CHECK: "hip.get_constant"() {offset = 0 : i64} : () -> tensor<3xf32>
// CHECK: "hip.get_constant"() {offset = 64 : i64} : () -> tensor<2xi64>
// CHECK-NOT: hip.constant
func.func @main_graph() -> (tensor<3xf32>, tensor<2xi64>) {
  %a = "hip.constant"() {value = dense<[1.0, 2.0, 3.0]> : tensor<3xf32>} : () -> tensor<3xf32>
  %unused = "hip.constant"() {value = dense<7> : tensor<100xi8>} : () -> tensor<100xi8>
  %b = "hip.constant"() {value = dense<[4, 5]> : tensor<2xi64>} : () -> tensor<2xi64>
  return %a, %b : tensor<3xf32>, tensor<2xi64>
}
