// RUN: hip-compiler opt --locations -p cse %s

// CHECK: "onnx.Add"
// CHECK-SAME: loc([[NAME:#loc[0-9]*]])
// CHECK: [[NAME]] = loc("/encoder/Add")
func.func @f(%x: tensor<?xf32>) -> tensor<?xf32> {
  %0 = "onnx.Add"(%x, %x) : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32> loc("/encoder/Add")
  return %0 : tensor<?xf32>
}
