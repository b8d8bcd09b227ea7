// RUN: hip-compiler opt -p 'builtin.module(func.func(canonicalize),cse)' %s

// CHECK-LABEL: func.func @folds
// CHECK-NEXT: return %arg0 : i32
func.func @folds(%x: i32) -> i32 {
  %zero = arith.constant 0 : i32
  %sum = arith.addi %x, %zero : i32
  return %sum : i32
}

// CHECK-LABEL: func.func @shares
// CHECK: arith.mulf
// CHECK-NOT: arith.mulf
// CHECK: return
func.func @shares(%x: f32) -> f32 {
  %a = arith.mulf %x, %x : f32
  %b = arith.mulf %x, %x : f32
  %c = arith.addf %a, %b : f32
  return %c : f32
}
