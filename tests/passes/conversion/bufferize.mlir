// RUN: hip-compiler opt --split-input-file -p hip-bufferize %s

// A destination made by tensor.empty becomes a buffer; inputs are read only.
// CHECK-LABEL: func.func @fresh
// CHECK: %[[IN:.*]] = bufferization.to_buffer %{{.*}} read_only
// CHECK: %[[OUT:.*]] = memref.alloc(%{{.*}}) : memref<?x4xf32>
// CHECK: "hip.softmax"(%[[IN]], %[[OUT]])
// CHECK-SAME: -> ()
// CHECK: bufferization.to_tensor %[[OUT]] restrict
func.func @fresh(%x: tensor<?x4xf32>, %n: index) -> tensor<?x4xf32> {
  %e = tensor.empty(%n) : tensor<?x4xf32>
  %0 = "hip.softmax"(%x, %e) {axis = 1 : i64} : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}

// -----

// Any other destination is copied: its old contents may have other readers.
// CHECK-LABEL: func.func @kept
// CHECK: memref.alloc
// CHECK: memref.copy
// CHECK: "hip.softmax"
func.func @kept(%x: tensor<4xf32>, %d: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = "hip.softmax"(%x, %d) {axis = 0 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0, %d : tensor<4xf32>, tensor<4xf32>
}

// -----

// Case C5: two results with one destination, as CSE leaves it, are two buffers.
// CHECK-LABEL: func.func @apart
// CHECK: %[[A:.*]] = memref.alloc
// CHECK: %[[B:.*]] = memref.alloc
// CHECK: "hip.topk"(%{{.*}}, %[[A]], %[[B]])
func.func @apart(%x: tensor<4xi64>) -> (tensor<2xi64>, tensor<2xi64>) {
  %e = tensor.empty() : tensor<2xi64>
  %0:2 = "hip.topk"(%x, %e, %e) {axis = 0 : i64, resultSegmentSizes = array<i32: 1, 1>}
    : (tensor<4xi64>, tensor<2xi64>, tensor<2xi64>) -> (tensor<2xi64>, tensor<2xi64>)
  return %0#0, %0#1 : tensor<2xi64>, tensor<2xi64>
}

// -----

// A slice with gaps is copied for whoever reads dense rows, and stays a view for loops.
// CHECK-LABEL: func.func @gaps
// CHECK: %[[VIEW:.*]] = tensor.extract_slice
// CHECK: %[[COPY:.*]] = linalg.copy {{.*}}ins(%[[VIEW]]
// CHECK: bufferization.to_buffer %[[COPY]] read_only
func.func @gaps(%x: tensor<?x?xf32>, %n: index, %m: index) -> tensor<?x?xf32> {
  %s = tensor.extract_slice %x[0, 1] [%n, %m] [1, 1] : tensor<?x?xf32> to tensor<?x?xf32>
  %e = tensor.empty(%n, %m) : tensor<?x?xf32>
  %0 = "hip.softmax"(%s, %e) {axis = 1 : i64} : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}
