// Micro-kernels and loops of the float32 matrix product.
//
// A tile of y, ROWS x (VECTORS * LANES), is held in registers while one row of a panel and one column of a are multiplied
// in each step. The tile size fills the register file: 28 of 32 registers with AVX-512, 12 of 16 with AVX2 and SSE.
#include "gemm.h"

using namespace hipc;

namespace {

#if defined(__AVX512F__)
constexpr int ROWS = 14, VECTORS = 2;
#elif defined(__aarch64__)
constexpr int ROWS = 6, VECTORS = 4;
#else
constexpr int ROWS = 6, VECTORS = 2;
#endif
constexpr int WIDTH = VECTORS * LANES;
static_assert(PANEL % WIDTH == 0);

// Depth of a block: a panel block of 64 kB and the tile's rows of a stay in the second-level cache.
constexpr int64_t DEPTH = 512;
// Rows of a block: the block of a (rows x DEPTH) stays in the second-level cache while panels pass.
constexpr int64_t BLOCK_ROWS = 168;

// c[M][WIDTH] (+)= a[M][k] x b[k][WIDTH].
// Few rows take panels from memory as fast as it gives them, and have to ask for them earlier.
template <int M>
__attribute__((noinline)) void tile_kernel(const float *a, int64_t lda, const float *b, int64_t ldb, int64_t k, float *c,
                                           int64_t ldc, bool accumulate) {
  vfloat sum[M][VECTORS];
  for (int i = 0; i < M; i++)
    for (int j = 0; j < VECTORS; j++) sum[i][j] = accumulate ? load(c + i * ldc + j * LANES) : vfloat{};
  // One pointer per three rows: the others are one and two row lengths away, which addressing modes reach.
  constexpr int GROUPS = (M + 2) / 3, AHEAD = 32;
  const float *rows[GROUPS];
  for (int g = 0; g < GROUPS; g++) rows[g] = a + 3 * g * lda;
  // Unrolling this loop makes the largest tile spill.
#pragma clang loop unroll(disable)
  for (int64_t step = 0; step < k; step++) {
    vfloat row[VECTORS];
    for (int j = 0; j < VECTORS; j++) row[j] = load(b + j * LANES);
    __builtin_prefetch(b + AHEAD * ldb);
    if constexpr (WIDTH > 16) __builtin_prefetch(b + AHEAD * ldb + 16);
    b += ldb;
#pragma clang loop unroll(full)
    for (int i = 0; i < M; i++) {
      float value = rows[i / 3][(i % 3) * lda + step];
      for (int j = 0; j < VECTORS; j++) sum[i][j] += value * row[j];
    }
  }
  for (int i = 0; i < M; i++)
    for (int j = 0; j < VECTORS; j++) store(c + i * ldc + j * LANES, sum[i][j]);
}

// One row by one panel: several partial sums hide the latency of the multiply-add.
void row_kernel(const float *a, const float *b, int64_t ldb, int64_t k, float *c) {
  constexpr int PER_PANEL = PANEL / LANES, SPLIT = PER_PANEL >= 8 ? 1 : 8 / PER_PANEL;
  vfloat sum[SPLIT][PER_PANEL] = {};
  int64_t step = 0;
  for (; step + SPLIT <= k; step += SPLIT, b += SPLIT * ldb)
#pragma clang loop unroll(full)
    for (int s = 0; s < SPLIT; s++) {
      vfloat value = splat(a[step + s]);
      __builtin_prefetch(b + (s + 32) * ldb);
      __builtin_prefetch(b + (s + 32) * ldb + 16);
      for (int j = 0; j < PER_PANEL; j++) sum[s][j] += value * load(b + s * ldb + j * LANES);
    }
  for (; step < k; step++, b += ldb)
    for (int j = 0; j < PER_PANEL; j++) sum[0][j] += splat(a[step]) * load(b + j * LANES);
  for (int j = 0; j < PER_PANEL; j++) {
    vfloat total = sum[0][j];
    for (int s = 1; s < SPLIT; s++) total += sum[s][j];
    store(c + j * LANES, total);
  }
}

using TileKernel = void (*)(const float *, int64_t, const float *, int64_t, int64_t, float *, int64_t, bool);

// rows <= ROWS rows by a whole panel.
void tile_product(int rows, const float *a, int64_t lda, const float *b, int64_t ldb, int64_t k, float *c, int64_t ldc,
                  bool accumulate) {
  static constexpr TileKernel kernels[] = {
      tile_kernel<1>,  tile_kernel<2>,  tile_kernel<3>,  tile_kernel<4>,  tile_kernel<5>, tile_kernel<6>,
#if defined(__AVX512F__)
      tile_kernel<7>,  tile_kernel<8>,  tile_kernel<9>,  tile_kernel<10>, tile_kernel<11>, tile_kernel<12>,
      tile_kernel<13>, tile_kernel<14>,
#endif
  };
  static_assert(sizeof kernels / sizeof *kernels == ROWS);
  for (int column = 0; column < PANEL; column += WIDTH)
    kernels[rows - 1](a, lda, b + column, ldb, k, c + column, ldc, accumulate);
}

template <Activation A> HIPC_INLINE vfloat activate(const Epilogue &e, vfloat x) {
  switch (A) {
  case ACT_NONE:
    return x;
  case ACT_RELU:
    return at_least(x, vfloat{});
  case ACT_GELU:
    return 0.5f * x * (1.0f + verf(x * 0.70710678f));
  case ACT_GELU_TANH:
    return 0.5f * x * (1.0f + vtanh(0.79788456f * (x + 0.044715f * x * x * x)));
  case ACT_SILU:
    return x / (1.0f + vexp(-x));
  case ACT_SIGMOID:
    return vsigmoid(x);
  case ACT_TANH:
    return vtanh(x);
  case ACT_HARD_SWISH:
    return x * at_most(at_least(x * (1.0f / 6) + 0.5f, vfloat{}), splat(1));
  case ACT_HARD_SIGMOID:
    return at_most(at_least(x * e.activation_alpha + e.activation_beta, vfloat{}), splat(1));
  case ACT_LEAKY_RELU:
    return x < 0.0f ? x * e.activation_alpha : x;
  case ACT_CLIP:
    return at_most(at_least(x, splat(e.activation_alpha)), splat(e.activation_beta));
  }
}

template <Activation A>
void finish_with(const Product &p, float *tile, int64_t ld, int64_t rows, int64_t columns, int64_t m, int64_t n) {
  const Epilogue &e = p.epilogue;
  bool in_place = (void *)tile == (void *)((float *)p.y + m * p.ldy + n);
  float bias[PANEL] = {}, converted[PANEL] = {};
  for (int64_t first = 0; first < columns; first += PANEL) {
    int64_t count = min<int64_t>(PANEL, columns - first);
    if (e.column_bias) load_floats(e.dtype, e.column_bias, n + first, count, bias);
    for (int64_t i = 0; i < rows; i++) {
      float *row = tile + i * ld + first, offset = 0;
      int64_t y = (m + i) * p.ldy + n + first;
      if (e.row_bias) load_floats(e.dtype, e.row_bias, m + i, 1, &offset);
      const float *residual = nullptr;
      if (e.residual && in_place) {
        residual = (const float *)e.residual + y;
      } else if (e.residual) {
        load_floats(e.dtype, e.residual, y, count, converted);
        residual = converted;
      }
      for (int j = 0; j < PANEL; j += LANES) {
        vfloat x = activate<A>(e, load(row + j) * e.alpha + load(bias + j) + offset);
        store(row + j, residual ? x + load(residual + j) : x);
      }
      if (!in_place) store_floats(e.dtype, p.y, y, count, row);
    }
  }
}

bool is_identity(const Epilogue &e) {
  return e.alpha == 1 && e.activation == ACT_NONE && !e.column_bias && !e.row_bias && !e.residual;
}

// Rows [m0, m1) in tiles of nearly equal height.
template <class Body> HIPC_INLINE void for_tiles(int64_t m0, int64_t m1, Body &&body) {
  int64_t count = ceil_div(m1 - m0, ROWS);
  for (int64_t tile = 0; tile < count; tile++) {
    int64_t each = (m1 - m0) / count, left = (m1 - m0) % count;
    int64_t m = m0 + tile * each + min(tile, left);
    body(m, (int)(each + (tile < left)));
  }
}

// A panel whose products cannot be kept in y while they grow: the last, ragged one, and y of half precision.
void multiply_through_tile(const Product &p, int64_t m0, int64_t m1, int64_t panel) {
  alignas(64) float tile[ROWS * PANEL];
  const float *b = p.b + panel * p.panel_stride;
  int64_t n = panel * PANEL;
  int columns = (int)min<int64_t>(PANEL, p.n - n);
  if (m1 - m0 == 1) {
    row_kernel(p.a + m0 * p.lda, b, p.ldb, p.k, tile);
    return finish(p, tile, PANEL, 1, columns, m0, n);
  }
  for_tiles(m0, m1, [&](int64_t m, int rows) {
    tile_product(rows, p.a + m * p.lda, p.lda, b, p.ldb, p.k, tile, PANEL, false);
    finish(p, tile, PANEL, rows, columns, m, n);
  });
}

} // namespace

void hipc::finish(const Product &p, float *tile, int64_t ld, int64_t rows, int64_t columns, int64_t m, int64_t n) {
  switch (p.epilogue.activation) {
#define HIPC_FINISH(A)                                                                                                  \
  case A:                                                                                                               \
    return finish_with<A>(p, tile, ld, rows, columns, m, n);
    HIPC_FINISH(ACT_NONE)
    HIPC_FINISH(ACT_RELU)
    HIPC_FINISH(ACT_GELU)
    HIPC_FINISH(ACT_GELU_TANH)
    HIPC_FINISH(ACT_SILU)
    HIPC_FINISH(ACT_SIGMOID)
    HIPC_FINISH(ACT_TANH)
    HIPC_FINISH(ACT_HARD_SWISH)
    HIPC_FINISH(ACT_HARD_SIGMOID)
    HIPC_FINISH(ACT_LEAKY_RELU)
    HIPC_FINISH(ACT_CLIP)
#undef HIPC_FINISH
  }
}

void hipc::multiply_panels(const Product &p, int64_t m0, int64_t m1, int64_t p0, int64_t p1) {
  int64_t whole = p.epilogue.dtype == F32 && m1 - m0 > 1 ? min(p1, p.n / PANEL) : p0;
  bool plain = is_identity(p.epilogue);
  int64_t blocks = max<int64_t>(ceil_div(p.k, DEPTH + DEPTH / 4), 1);
  for (int64_t block = 0; block < blocks && p0 < whole; block++) {
    int64_t k0 = p.k * block / blocks, k1 = p.k * (block + 1) / blocks;
    for (int64_t panel = p0; panel < whole; panel++) {
      const float *b = p.b + panel * p.panel_stride + k0 * p.ldb;
      for_tiles(m0, m1, [&](int64_t m, int rows) {
        float *y = (float *)p.y + m * p.ldy + panel * PANEL;
        tile_product(rows, p.a + m * p.lda + k0, p.lda, b, p.ldb, k1 - k0, y, p.ldy, block > 0);
        if (block == blocks - 1 && !plain) finish(p, y, p.ldy, rows, PANEL, m, panel * PANEL);
      });
    }
  }
  for (int64_t panel = max(p0, whole); panel < p1; panel++) multiply_through_tile(p, m0, m1, panel);
}

void hipc::multiply(hipc_context *context, const Product &p) {
  int64_t panels = ceil_div(p.n, PANEL);
  if (p.m == 0 || panels == 0) return;
  // Few panels: smaller blocks of rows, so that every thread gets some.
  int64_t wanted = ceil_div(2 * hipc_num_threads(context), panels);
  int64_t blocks = max(ceil_div(p.m, BLOCK_ROWS), min(wanted, ceil_div(p.m, ROWS)));
  // A multiply-add of a vector counts as one operation of the cost model's plain loops; reading a panel from memory takes
  // as long as some 16 rows of its product.
  int64_t cost = (ceil_div(p.m, blocks) + 16) * p.k * (PANEL / 16) + PANEL;
  parallel_for(context, blocks * panels, cost, [&](int64_t begin, int64_t end) {
    while (begin < end) {
      int64_t block = begin / panels, p0 = begin % panels, p1 = min(panels, p0 + end - begin);
      multiply_panels(p, p.m * block / blocks, p.m * (block + 1) / blocks, p0, p1);
      begin += p1 - p0;
    }
  });
}

void hipc::load_floats(int32_t dtype, const void *from, int64_t offset, int64_t count, float *to) {
  if (dtype == F32) {
    memcpy(to, (const float *)from + offset, (size_t)count * sizeof(float));
  } else if (dtype == F16) {
    for (int64_t i = 0; i < count; i++) to[i] = ((const f16 *)from)[offset + i];
  } else {
    for (int64_t i = 0; i < count; i++) to[i] = ((const bf16 *)from)[offset + i];
  }
}

void hipc::store_floats(int32_t dtype, void *to, int64_t offset, int64_t count, const float *from) {
  if (dtype == F32) {
    memcpy((float *)to + offset, from, (size_t)count * sizeof(float));
  } else if (dtype == F16) {
    for (int64_t i = 0; i < count; i++) ((f16 *)to)[offset + i] = (f16)from[i];
  } else {
    for (int64_t i = 0; i < count; i++) ((bf16 *)to)[offset + i] = (bf16)from[i];
  }
}

void hipc::transpose(const float *from, int64_t ldf, float *to, int64_t ldt, int64_t rows, int64_t columns) {
  typedef float four __attribute__((vector_size(16)));
  typedef float four_unaligned __attribute__((vector_size(16), aligned(4), may_alias));
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    int64_t c = 0;
    for (; c + 4 <= columns; c += 4) {
      four x[4];
      for (int i = 0; i < 4; i++) x[i] = *(const four_unaligned *)(from + (r + i) * ldf + c);
      four low01 = __builtin_shufflevector(x[0], x[1], 0, 4, 1, 5), high01 = __builtin_shufflevector(x[0], x[1], 2, 6, 3, 7);
      four low23 = __builtin_shufflevector(x[2], x[3], 0, 4, 1, 5), high23 = __builtin_shufflevector(x[2], x[3], 2, 6, 3, 7);
      float *t = to + c * ldt + r;
      *(four_unaligned *)t = __builtin_shufflevector(low01, low23, 0, 1, 4, 5);
      *(four_unaligned *)(t + ldt) = __builtin_shufflevector(low01, low23, 2, 3, 6, 7);
      *(four_unaligned *)(t + 2 * ldt) = __builtin_shufflevector(high01, high23, 0, 1, 4, 5);
      *(four_unaligned *)(t + 3 * ldt) = __builtin_shufflevector(high01, high23, 2, 3, 6, 7);
    }
    for (; c < columns; c++)
      for (int i = 0; i < 4; i++) to[c * ldt + r + i] = from[(r + i) * ldf + c];
  }
  for (; r < rows; r++)
    for (int64_t c = 0; c < columns; c++) to[c * ldt + r] = from[r * ldf + c];
}
