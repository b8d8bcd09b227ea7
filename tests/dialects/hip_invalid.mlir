// RUN: not hip-compiler opt %s

// CHECK: HIPC0303:
// CHECK: 'hip.softmax': unknown attribute 'axs'; did you mean 'axis'?
func.func @f(%x: tensor<4xf32>, %out: tensor<4xf32>) {
  %0 = "hip.softmax"(%x, %out) {axs = 0 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}
