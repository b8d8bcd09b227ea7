// Activations of matmul and conv in float64.
#pragma once
#include "gemm.h"

namespace hipc {

inline double activate(Activation activation, double x, double alpha, double beta) {
  switch (activation) {
  case ACT_NONE:
    return x;
  case ACT_RELU:
    return x < 0 ? 0 : x;
  case ACT_GELU:
    return 0.5 * x * (1 + erf(x * 0.70710678118654752));
  case ACT_GELU_TANH:
    return 0.5 * x * (1 + tanh(0.79788456080286536 * (x + 0.044715 * x * x * x)));
  case ACT_SILU:
    return x / (1 + exp(-x));
  case ACT_SIGMOID:
    return 1 / (1 + exp(-x));
  case ACT_TANH:
    return tanh(x);
  case ACT_HARD_SWISH: {
    double gate = x / 6 + 0.5;
    return x * (gate < 0 ? 0 : gate > 1 ? 1 : gate);
  }
  case ACT_HARD_SIGMOID: {
    double gate = alpha * x + beta;
    return gate < 0 ? 0 : gate > 1 ? 1 : gate;
  }
  case ACT_LEAKY_RELU:
    return x < 0 ? x * alpha : x;
  case ACT_CLIP:
    return x < alpha ? alpha : x > beta ? beta : x;
  }
}

} // namespace hipc
