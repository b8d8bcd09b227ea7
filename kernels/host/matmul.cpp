// hip.matmul: y = activation(alpha * a @ b + bias) + residual, leading dimensions broadcast.
#include "matmul.h"

using namespace hipc;

namespace {

// Rows for which it does not pay to bring an unpacked b into panels.
constexpr int64_t FEW_ROWS = 6;

// Rows [r0, r1) of matrix a as float, row-major with row length `ld`.
void copy_a(const MatMul &op, int64_t offset, int64_t r0, int64_t r1, float *to, int64_t ld) {
  if (op.trans_a && op.a->dtype == F32)
    return transpose(data<float>(op.a) + offset + r0, op.m, to + r0 * ld, ld, op.k, r1 - r0);
  for (int64_t r = r0; r < r1; r++) {
    if (!op.trans_a) load_floats(op.a->dtype, op.a->data, offset + r * op.k, op.k, to + r * ld);
    else
      for (int64_t k = 0; k < op.k; k++) load_floats(op.a->dtype, op.a->data, offset + k * op.m + r, 1, to + r * ld + k);
  }
}

// Panel `panel` of matrix b as float, zero-padded.
void pack_b(const MatMul &op, int64_t offset, int64_t panel, float *to) {
  int64_t n = panel * PANEL, columns = min<int64_t>(PANEL, op.n - n);
  if (op.trans_b && op.b->dtype == F32) {
    transpose(data<float>(op.b) + offset + n * op.k, op.k, to, PANEL, columns, op.k);
  } else if (op.trans_b) {
    for (int64_t j = 0; j < columns; j++)
      for (int64_t k = 0; k < op.k; k++) load_floats(op.b->dtype, op.b->data, offset + (n + j) * op.k + k, 1, to + k * PANEL + j);
  } else {
    for (int64_t k = 0; k < op.k; k++) load_floats(op.b->dtype, op.b->data, offset + k * op.n + n, columns, to + k * PANEL);
  }
  if (columns < PANEL)
    for (int64_t k = 0; k < op.k; k++) memset(to + k * PANEL + columns, 0, (size_t)(PANEL - columns) * sizeof(float));
}

// Few rows by a transposed b: every element of y is a dot product of contiguous rows.
void dot_rows(const MatMul &op, const Product &p, const float *b, int64_t n0, int64_t n1) {
  for (int64_t m = 0; m < p.m; m++) {
    const float *a = p.a + m * p.lda;
    for (int64_t n = n0; n < n1; n++) {
      const float *row = b + n * op.k;
      vfloat sum[2] = {};
      int64_t k = 0;
      for (; k + 2 * LANES <= op.k; k += 2 * LANES) {
        sum[0] += load(a + k) * load(row + k);
        sum[1] += load(a + k + LANES) * load(row + k + LANES);
      }
      float rest = 0;
      for (; k < op.k; k++) rest += a[k] * row[k];
      ((float *)p.y)[m * p.ldy + n] = (reduce_add(sum[0] + sum[1]) + rest) * p.epilogue.alpha;
    }
  }
}

// How one call is computed, and the scratch it takes.
struct Plan {
  bool copies_a, packs_b, dots;
  int64_t lda, panels;
  int64_t a_floats, b_floats;  // of one copy
};

Plan plan_of(const MatMul &op) {
  Plan plan{};
  bool is_float = op.a->dtype == F32;
  plan.panels = ceil_div(op.n, PANEL);
  bool few = op.m <= FEW_ROWS && is_float;
  // The dot products finish in y themselves, and know no more than a scale.
  bool plain = !op.bias && !op.residual && op.activation == ACT_NONE;
  plan.dots = few && plain && op.trans_b && !op.packed;
  bool direct_b = few && !op.trans_b && !op.packed && op.n % PANEL == 0;
  plan.packs_b = !is_float ? true : !op.packed && !plan.dots && !direct_b;
  // A copy of a costs as much as a few columns of y.
  plan.copies_a = op.trans_a || !is_float || (rows_collide(op.k) && op.m > 1 && op.n >= 256);
  plan.lda = plan.copies_a ? padded_row(op.k) : op.k;
  plan.a_floats = plan.copies_a ? round_up(op.m * plan.lda, 16) : 0;
  plan.b_floats = plan.packs_b ? plan.panels * op.k * PANEL : 0;
  return plan;
}

Product product_of(const MatMul &op, const Plan &plan, int64_t y_offset) {
  Product p{};
  p.m = op.m, p.n = op.n, p.k = op.k, p.lda = plan.lda, p.ldy = op.n;
  p.panel_stride = plan.packs_b || op.packed ? op.k * PANEL : PANEL;
  p.ldb = plan.packs_b || op.packed ? PANEL : op.n;
  p.y = (char *)op.y->data + y_offset * element_size(op.y->dtype);
  Epilogue &e = p.epilogue;
  e.alpha = (float)op.alpha;
  e.activation = op.activation;
  e.activation_alpha = (float)op.activation_alpha;
  e.activation_beta = (float)op.activation_beta;
  e.dtype = op.y->dtype;
  e.column_bias = op.bias ? op.bias->data : nullptr;
  e.residual = op.residual ? (char *)op.residual->data + y_offset * element_size(op.y->dtype) : nullptr;
  return p;
}

// Packed b of half precision: panels only need conversion.
void load_panel(const MatMul &op, int64_t offset, int64_t panel, float *to) {
  if (op.packed) load_floats(op.b->dtype, op.b->data, panel * op.k * PANEL, op.k * PANEL, to);
  else pack_b(op, offset, panel, to);
}

// One product with all threads.
void run_shared(hipc_context *context, const MatMul &op, const Plan &plan, const Offsets &at, float *scratch) {
  Product p = product_of(op, plan, at.y);
  float *a_copy = scratch, *b_copy = scratch + plan.a_floats;
  p.a = plan.copies_a ? a_copy : data<float>(op.a) + at.a;
  p.b = plan.packs_b ? b_copy : data<float>(op.b) + at.b;
  if (plan.copies_a)
    parallel_for(context, op.m, op.k, [&](int64_t r0, int64_t r1) { copy_a(op, at.a, r0, r1, a_copy, plan.lda); });
  if (plan.packs_b)
    parallel_for(context, plan.panels, op.k * PANEL, [&](int64_t p0, int64_t p1) {
      for (int64_t panel = p0; panel < p1; panel++) load_panel(op, at.b, panel, b_copy + panel * op.k * PANEL);
    });
  if (plan.dots)
    parallel_for(context, op.n, op.m * op.k, [&](int64_t n0, int64_t n1) { dot_rows(op, p, p.b, n0, n1); });
  else multiply(context, p);
}

// One product on one thread.
void run_alone(const MatMul &op, const Plan &plan, const Offsets &at, float *scratch) {
  Product p = product_of(op, plan, at.y);
  float *a_copy = scratch, *b_copy = scratch + plan.a_floats;
  p.a = plan.copies_a ? a_copy : data<float>(op.a) + at.a;
  p.b = plan.packs_b ? b_copy : data<float>(op.b) + at.b;
  if (plan.copies_a) copy_a(op, at.a, 0, op.m, a_copy, plan.lda);
  if (plan.packs_b)
    for (int64_t panel = 0; panel < plan.panels; panel++) load_panel(op, at.b, panel, b_copy + panel * op.k * PANEL);
  if (plan.dots) dot_rows(op, p, p.b, 0, op.n);
  else if (op.m > 0) multiply_panels(p, 0, op.m, 0, plan.panels);
}

int32_t run_floats(hipc_context *context, MatMul &op) {
  // One b for all matrices of a: they are one tall matrix.
  if (op.b_matrices == 1 && !op.trans_a && op.a_matrices == op.y_matrices) {
    op.m *= op.y_matrices;
    op.a_matrices = op.y_matrices = 1;
  }
  Plan plan = plan_of(op);
  int64_t threads = hipc_num_threads(context), floats = plan.a_floats + plan.b_floats;
  // Matrices side by side when there is one for every thread and copies of them stay in its cache.
  bool side_by_side = op.y_matrices >= threads && op.y_matrices > 1 && floats <= (1 << 19);
  float *scratch = nullptr;
  if (floats > 0) {
    scratch = (float *)hipc_scratch(context, (side_by_side ? threads : 1) * floats * (int64_t)sizeof(float));
    if (!scratch) return HIPC_ERROR_MEMORY;
  }
  if (!side_by_side) {
    MatMulWalk walk(op);
    for (int64_t i = 0; i < op.y_matrices; i++) run_shared(context, op, plan, walk.at(i), scratch);
    return HIPC_OK;
  }
  parallel_for_threads(context, op.y_matrices, op.m * op.n * op.k / 16 + floats + 1,
                       [&](int64_t begin, int64_t end, int32_t thread) {
                         MatMulWalk walk(op);
                         for (int64_t i = begin; i < end; i++) run_alone(op, plan, walk.at(i), scratch + thread * floats);
                       });
  return HIPC_OK;
}

} // namespace

HIPC_EXPORT int32_t hipc_matmul(hipc_context *context, const hipc_tensor *a, const hipc_tensor *b,
                                const hipc_tensor *bias, const hipc_tensor *residual, hipc_tensor *y, int64_t trans_a,
                                int64_t trans_b, double alpha, int64_t activation, int64_t packed, int64_t n,
                                double activation_alpha, double activation_beta) {
  MatMul op{};
  op.a = a, op.b = b, op.bias = bias, op.residual = residual, op.y = y;
  op.trans_a = trans_a, op.trans_b = trans_b && !packed, op.packed = packed;
  op.alpha = alpha, op.activation = (Activation)activation;
  op.activation_alpha = activation_alpha, op.activation_beta = activation_beta;
  if (int32_t status = read_matmul(context, op, n)) return status;
  if (elements(y) == 0) return HIPC_OK;
  if (a->dtype == F32 || a->dtype == F16 || a->dtype == BF16) return run_floats(context, op);
  return matmul_plain(context, op);
}
