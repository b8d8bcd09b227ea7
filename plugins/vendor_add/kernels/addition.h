// What the kernels are told, on the host and on GPUs alike. Compiled for both: no headers, no fixed-width names.
#pragma once

constexpr int MAX_AXES = 8;

// out[i] = a[i] + b[i] over the axes of `out`, the last one innermost; a step is 0 along a broadcast axis.
struct Addition {
  const float *a, *b;
  float *out;
  int rank;
  long long shape[MAX_AXES], a_step[MAX_AXES], b_step[MAX_AXES];
};
