// y = activation(alpha * a x b + bias) + residual for matrices of any shape, either operand transposed, batches broadcast.
#include "hipc_math.h"
#include "hipc_tiles.h"

using namespace hipc;

namespace {

template <class T>
DEVICE void matmul(const T *a, const T *b, T *y, i64 m, i64 n, i64 k, i32 trans_a, i32 trans_b, Space a_batch,
                   Space b_batch, i64 batches, Epilogue epilogue) {
  i64 across = ceil_div(n, (i64)TILE), first_row = block() / across * TILE, first_column = block() % across * TILE;
  for (i64 batch = block_y(); batch < batches; batch += blocks_y()) {
    const T *a_at = a + offset_of(a_batch, batch), *b_at = b + offset_of(b_batch, batch);
    i64 a_fast = trans_a ? m : k, b_fast = trans_b ? k : n, y_first = batch * m * n;
    Operand<T> A{a_at, m, trans_a ? 1 : k, trans_a ? m : 1, a_fast % EACH == 0 && is_aligned(a_at, 16)};
    Operand<T> B{b_at, n, trans_b ? k : 1, trans_b ? 1 : n, b_fast % EACH == 0 && is_aligned(b_at, 16)};
    multiply_tiles<T>(A, B, first_row, first_column, k, [=](i64 row, i64 column, f32 sum) {
      i64 at = y_first + row * n + column;
      if (row < m && column < n) y[at] = finish<T>(epilogue, sum, at, column);
    });
  }
}

// float64 and everything that is too small for tiles: one thread an element.
template <class T>
DEVICE void matmul_plain(const T *a, const T *b, const T *bias, const T *residual, T *y, i64 m, i64 n, i64 k,
                         i32 trans_a, i32 trans_b, Space a_batch, Space b_batch, i64 batches, f64 alpha) {
  for (i64 at = global_thread(); at < batches * m * n; at += global_threads()) {
    i64 batch = at / (m * n), row = at / n % m, column = at % n;
    const T *from_a = a + offset_of(a_batch, batch) + (trans_a ? row : row * k);
    const T *from_b = b + offset_of(b_batch, batch) + (trans_b ? column * k : column);
    Compute<T> sum = 0;
    for (i64 d = 0; d < k; d++) sum += widen(from_a[trans_a ? d * m : d]) * widen(from_b[trans_b ? d : d * n]);
    if constexpr (is_float<T>) sum *= (Compute<T>)alpha;
    if (bias) sum += widen(bias[column]);
    if (residual) sum += widen(residual[at]);
    y[at] = narrow<T>(sum);
  }
}

} // namespace

#define DEFINE(WORD, T)                                                                                                \
  KERNEL(256) matmul_##WORD(const T *a, const T *b, T *y, i64 m, i64 n, i64 k, i32 trans_a, i32 trans_b,               \
                            Space a_batch, Space b_batch, i64 batches, Epilogue epilogue) {                            \
    matmul<T>(a, b, y, m, n, k, trans_a, trans_b, a_batch, b_batch, batches, epilogue);                                \
  }
HIPC_FLOATS(DEFINE)
#undef DEFINE

#define DEFINE(WORD, T)                                                                                                \
  KERNEL(256) matmul_plain_##WORD(const T *a, const T *b, const T *bias, const T *residual, T *y, i64 m, i64 n, i64 k, \
                                  i32 trans_a, i32 trans_b, Space a_batch, Space b_batch, i64 batches, f64 alpha) {    \
    matmul_plain<T>(a, b, bias, residual, y, m, n, k, trans_a, trans_b, a_batch, b_batch, batches, alpha);             \
  }
DEFINE(f64, f64) DEFINE(i32, i32) DEFINE(u32, u32) DEFINE(i64, i64) DEFINE(u64, u64)
