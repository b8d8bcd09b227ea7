// RUN: hip-compiler opt --split-input-file -p "hip-add-context-arg,convert-onnx-to-hip,canonicalize,cse" %s

// Branches with results of different extents: the result's extent is known at run time only.
// CHECK: %[[C:.*]] = arith.cmpi ne
// CHECK: %[[R:.*]] = scf.if %[[C]] -> (tensor<?xf32>) {
// CHECK:   tensor.insert_slice
// CHECK:   scf.yield
// CHECK: } else {
// CHECK:   linalg.generic
// CHECK:   scf.yield
// CHECK: return %[[R]] : tensor<?xf32>
module attributes {onnx.opset = {ai.onnx = 17 : i64}} {
  func.func @main_graph(%x: tensor<?xf32> {onnx.name = "x", onnx.dims = ["N"]}, %c: tensor<i1> {onnx.name = "c"}) -> !onnx.unknown {
    %r = "onnx.If"(%c) ({
      %a = "onnx.Relu"(%x) : (tensor<?xf32>) -> tensor<?xf32>
      "onnx.Yield"(%a) : (tensor<?xf32>) -> ()
    }, {
      %a = "onnx.Concat"(%x, %x) {axis = 0 : i64} : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
      "onnx.Yield"(%a) : (tensor<?xf32>) -> ()
    }) {region_names = ["else_branch", "then_branch"]} : (tensor<i1>) -> !onnx.unknown
    return %r : !onnx.unknown
  }
}
// -----

// A counted loop: state of one shape is overwritten in place, slices go where they belong.
// CHECK: %[[TRIP:.*]] = arith.maxsi
// CHECK: %[[STATE:.*]] = bufferization.alloc_tensor() copy(%{{.*}}) : tensor<4xf32>
// CHECK: %[[ALL:.*]] = tensor.empty(%[[TRIP]]) : tensor<?xi64>
// CHECK: scf.for %[[I:.*]] = %{{.*}} to %[[TRIP]] step %{{.*}} iter_args(%[[S:.*]] = %[[STATE]], %[[A:.*]] = %[[ALL]])
// CHECK:   %[[NEXT:.*]] = linalg.generic
// CHECK:   %[[MORE:.*]] = tensor.insert_slice %{{.*}} into %[[A]][%[[I]]] [1] [1]
// CHECK:   %[[NEW:.*]] = bufferization.materialize_in_destination %[[NEXT]] in %[[S]]
// CHECK:   scf.yield %[[NEW]], %[[MORE]]
module attributes {onnx.opset = {ai.onnx = 17 : i64}} {
  func.func @main_graph(%x: tensor<4xf32> {onnx.name = "x"}, %n: tensor<i64> {onnx.name = "n"}) -> (!onnx.unknown, !onnx.unknown) {
    %none = "onnx.NoValue"() : () -> none
    %r:2 = "onnx.Loop"(%n, %none, %x) ({
    ^bb0(%i: tensor<i64>, %go: tensor<i1>, %s: tensor<4xf32>):
      %a = "onnx.Add"(%s, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      "onnx.Yield"(%go, %a, %i) : (tensor<i1>, tensor<4xf32>, tensor<i64>) -> ()
    }) {region_names = ["body"]} : (tensor<i64>, none, tensor<4xf32>) -> (!onnx.unknown, !onnx.unknown)
    return %r#0, %r#1 : !onnx.unknown, !onnx.unknown
  }
}
// -----

// A loop that ends by its condition, with state that grows: every iteration has a new tensor.
// CHECK: %[[STATE:.*]] = bufferization.alloc_tensor() copy(%{{.*}}) : tensor<?xf32>
// CHECK: scf.while (%[[S:.*]] = %[[STATE]], %[[I:.*]] = %{{.*}}, %[[GO:.*]] = %{{.*}}) : (tensor<?xf32>, index, i1)
// CHECK:   scf.condition(%[[GO]]) %[[S]], %[[I]]
// CHECK: } do {
// CHECK: ^bb0(%[[T:.*]]: tensor<?xf32>, %[[J:.*]]: index):
// CHECK:   %[[OLD:.*]] = tensor.dim %[[T]]
// CHECK:   %[[LONGER:.*]] = tensor.insert_slice %{{.*}} into %{{[a-z_0-9]+}}[%[[OLD]]]
// CHECK:   %[[K:.*]] = arith.addi %[[J]]
// CHECK:   scf.yield %[[LONGER]], %[[K]]
module attributes {onnx.opset = {ai.onnx = 17 : i64}} {
  func.func @main_graph(%x: tensor<1xf32> {onnx.name = "x"}, %c: tensor<i1> {onnx.name = "c"}) -> !onnx.unknown {
    %none = "onnx.NoValue"() : () -> none
    %r = "onnx.Loop"(%none, %c, %x) ({
    ^bb0(%i: tensor<i64>, %go: tensor<i1>, %s: tensor<?xf32>):
      %a = "onnx.Concat"(%s, %x) {axis = 0 : i64} : (tensor<?xf32>, tensor<1xf32>) -> tensor<?xf32>
      %l = "onnx.Size"(%a) : (tensor<?xf32>) -> tensor<i64>
      %k = "onnx.Constant"() {value = dense<9> : tensor<i64>} : () -> tensor<i64>
      %m = "onnx.Less"(%l, %k) : (tensor<i64>, tensor<i64>) -> tensor<i1>
      "onnx.Yield"(%m, %a) : (tensor<i1>, tensor<?xf32>) -> ()
    }) {region_names = ["body"]} : (none, tensor<i1>, tensor<1xf32>) -> !onnx.unknown
    return %r : !onnx.unknown
  }
}
