// RUN: hip-compiler opt --split-input-file --generic -p canonicalize %s

// CHECK: "func.func"
// CHECK-SAME: sym_name = "same"
func.func private @same()

// -----

// CHECK: // -----
// CHECK: "func.func"
// CHECK-SAME: sym_name = "same"
func.func private @same()
