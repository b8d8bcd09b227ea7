// hipc_det: elimination with partial pivoting, in double.
#include "hipc_ops.h"

using namespace hipc;

namespace {

// Destroys the matrix.
double determinant(double *a, int64_t n) {
  double product = 1;
  for (int64_t k = 0; k < n; k++) {
    int64_t pivot = k;
    for (int64_t i = k + 1; i < n; i++)
      if (fabs(a[i * n + k]) > fabs(a[pivot * n + k])) pivot = i;
    if (pivot != k) {
      for (int64_t j = k; j < n; j++) {
        double held = a[k * n + j];
        a[k * n + j] = a[pivot * n + j];
        a[pivot * n + j] = held;
      }
      product = -product;
    }
    double diagonal = a[k * n + k];
    product *= diagonal;
    if (diagonal == 0) return product;
    for (int64_t i = k + 1; i < n; i++) {
      double factor = a[i * n + k] / diagonal;
      for (int64_t j = k + 1; j < n; j++) a[i * n + j] -= factor * a[k * n + j];
    }
  }
  return product;
}

} // namespace

HIPC_EXPORT int32_t hipc_det(hipc_context *context, const hipc_tensor *x, hipc_tensor *y) {
  HIPC_TRY(check_contiguous(context, "det", x, y));
  if (x->rank < 2 || x->shape[x->rank - 1] != x->shape[x->rank - 2])
    return hipc_error(context, HIPC_ERROR_SHAPE, "det needs square matrices");
  int64_t n = x->shape[x->rank - 1], batch = extent(x, 0, x->rank - 2);
  if (elements(y) != batch) return hipc_error(context, HIPC_ERROR_SHAPE, "det writes one number for each matrix");
  return dispatch_float(context, "det", x->dtype, [&]<class T>() -> int32_t {
    int64_t stride = round_up(n * n, 8);
    double *memory = (double *)hipc_scratch(context, max(hipc_num_threads(context) * stride, (int64_t)8) * 8);
    if (!memory) return out_of_memory(context, "det");
    const T *from = data<T>(x);
    T *to = data<T>(y);
    parallel_for_threads(context, batch, n * n * n, [=](int64_t begin, int64_t end, int32_t thread) {
      double *matrix = memory + thread * stride;
      for (int64_t b = begin; b < end; b++) {
        for (int64_t i = 0; i < n * n; i++) matrix[i] = (double)widen(from[b * n * n + i]);
        to[b] = (T)(Compute<T>)determinant(matrix, n);
      }
    });
    return HIPC_OK;
  });
}
