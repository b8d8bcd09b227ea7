// RUN: not hip-compiler opt -p 'cse,func.func(canonicalise)' %s

// CHECK: HIPC0301: nothing registers a pass or pipeline 'canonicalise'
// CHECK-NEXT: {{^}}  cse,func.func(canonicalise)
// CHECK-NEXT: {{^}}                ^
// CHECK-NEXT: where: --pass-pipeline
// CHECK: do: did you mean 'canonicalize'?
func.func private @f()
