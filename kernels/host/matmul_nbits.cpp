// hip.matmul_nbits: y = a x (weights - zero) * scale + bias, with weights of 2, 4 or 8 bits.
//
// Packed weights run on the integer kernels where the accuracy level and the CPU allow it. Otherwise one row multiplies
// the weights as they are unpacked, and several rows a panel that is unpacked to float32 first.
#include "matmul_nbits.h"
#include "hipc_ops.h"

using namespace hipc;

namespace {

constexpr const char *OP = "matmul_nbits";
constexpr int64_t INTEGER_LEVEL = 4;

// Weights as the model stores them: [n][blocks][block * bits / 8], lowest bits first.
struct RawWeights {
  const uint8_t *bytes;
  const hipc_tensor *scales, *zeros;
  int64_t n, k, bits, block, blocks;

  static int64_t field(const uint8_t *bytes, int64_t at, int64_t bits) {
    return bytes[at * bits / 8] >> (at * bits % 8) & ((1 << bits) - 1);
  }
  float zero(int64_t column, int64_t b) const {
    if (!zeros) return (float)(1 << (bits - 1));
    float value;
    if (is_byte(zeros)) return (float)field(data<uint8_t>(zeros) + column * ceil_div(blocks * bits, 8), b, bits);
    load_floats(zeros->dtype, zeros->data, column * blocks + b, 1, &value);
    return value;
  }
  // Column `column` at stride PANEL.
  void unpack(int64_t column, float *to) const {
    const uint8_t *from = bytes + column * blocks * (block * bits / 8);
    for (int64_t b = 0; b < blocks; b++) {
      float scale, offset = zero(column, b);
      load_floats(scales->dtype, scales->data, column * blocks + b, 1, &scale);
      for (int64_t i = b * block; i < min(k, (b + 1) * block); i++)
        to[i * PANEL] = ((float)field(from + b * (block * bits / 8), i - b * block, bits) - offset) * scale;
    }
  }
  static bool is_byte(const hipc_tensor *tensor) { return element_size(tensor->dtype) == 1; }
};

constexpr int VECTORS = STRIP / LANES;

// Fields of one word per column, less the middle of their range.
template <int BITS> HIPC_INLINE vfloat centred(vint word, int t, int f) {
  int shift = 8 * t + BITS * f;
#if defined(__AVX512F__)
  if constexpr (BITS == 4) {
    const vfloat table = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
    return (vfloat)__builtin_ia32_permvarsf512(table, word >> shift);
  }
#endif
  vint value = (word >> shift & ((1 << BITS) - 1)) - (1 << (BITS - 1));
  return __builtin_convertvector(value, vfloat);
}

HIPC_INLINE vint load_words(const uint8_t *from) {
  typedef vint unaligned __attribute__((aligned(4), may_alias));
  return *(const unaligned *)from;
}

// y[0..STRIP) of one row; `sums` holds the sum of the row's elements per block.
template <int BITS>
void float_row(const PackedWeights &w, const float *a, const float *sums, int64_t strip, float *y) {
  constexpr int PER_WORD = 32 / BITS, CHAINS = VECTORS >= 4 ? 1 : 4 / VECTORS;
  const uint8_t *words = w.strip_words(strip);
  const float *scale = w.strip_scales(strip), *zero = w.strip_zeros(strip);
  const int64_t count = w.block * BITS / 32;
  vfloat total[VECTORS] = {};
  for (int64_t b = 0; b < w.blocks; b++) {
    vfloat sum[VECTORS][CHAINS] = {};
    for (int64_t g = 0; g < count; g++, words += STRIP * 4, a += PER_WORD) {
      __builtin_prefetch(words + 2048);
#pragma clang loop unroll(full)
      for (int v = 0; v < VECTORS; v++) {
        vint word = load_words(words + v * LANES * 4);
#pragma clang loop unroll(full)
        for (int i = 0; i < PER_WORD; i++) sum[v][i % CHAINS] += centred<BITS>(word, i % 4, i / 4) * a[i];
      }
    }
    for (int v = 0; v < VECTORS; v++) {
      vfloat all = sum[v][0];
      for (int i = 1; i < CHAINS; i++) all += sum[v][i];
      if (zero) all -= (load(zero + b * STRIP + v * LANES) - (float)(1 << (BITS - 1))) * sums[b];
      total[v] += all * load(scale + b * STRIP + v * LANES);
    }
  }
  for (int v = 0; v < VECTORS; v++) store(y + v * LANES, total[v]);
}

// A panel of float32 weights, [k][PANEL].
template <int BITS> void unpack_panel(const PackedWeights &w, int64_t panel, float *to) {
  constexpr int PER_WORD = 32 / BITS;
  const int64_t count = w.block * BITS / 32;
  for (int half = 0; half < 2; half++) {
    int64_t strip = 2 * panel + half;
    const uint8_t *words = w.strip_words(strip);
    const float *scales = w.strip_scales(strip), *zeros = w.strip_zeros(strip);
    float *column = to + half * STRIP;
    for (int64_t b = 0; b < w.blocks; b++) {
      for (int v = 0; v < VECTORS; v++) {
        vfloat scale = load(scales + b * STRIP + v * LANES), offset = {};
        if (zeros) offset = load(zeros + b * STRIP + v * LANES) - (float)(1 << (BITS - 1));
        float *row = column + b * w.block * PANEL + v * LANES;
        for (int64_t g = 0; g < count; g++, row += PER_WORD * PANEL) {
          vint word = load_words(words + (b * count + g) * STRIP * 4 + v * LANES * 4);
#pragma clang loop unroll(full)
          for (int i = 0; i < PER_WORD; i++) store(row + i * PANEL, (centred<BITS>(word, i % 4, i / 4) - offset) * scale);
        }
      }
    }
  }
}

// Calls body.operator()<BITS>().
template <class Body> void with_bits(int64_t bits, Body &&body) {
  if (bits == 2) body.template operator()<2>();
  else if (bits == 4) body.template operator()<4>();
  else body.template operator()<8>();
}

// Rows as floats of a length, zeros beyond k.
void copy_row(const LeftRows &a, int64_t m, int64_t k, int64_t length, float *to) {
  load_floats(a.dtype, a.data, m * k, k, to);
  for (int64_t i = k; i < length; i++) to[i] = 0;
}

// Parts of the scratch of the integer kernels.
struct IntegerPlan {
  ScratchPlan plan;
  int64_t values, scales, sums, rows;

  IntegerPlan(const PackedWeights &w, int64_t m, int64_t threads) {
    values = plan.add(m * w.padded_k()), scales = plan.add(m * w.blocks * 4), sums = plan.add(m * w.blocks * 4);
    rows = plan.add(threads * round_up(w.padded_k(), 16) * 4);
  }
};

void run_integers(hipc_context *context, const PackedWeights &w, const LeftRows &a, const Product &p, char *scratch) {
  if constexpr (HAS_INT8_PRODUCT) {
    int64_t threads = hipc_num_threads(context), length = w.padded_k();
    IntegerPlan parts_of(w, p.m, threads);
    QuantizedRows q{(int8_t *)(scratch + parts_of.values), (float *)(scratch + parts_of.scales),
                    (int32_t *)(scratch + parts_of.sums)};
    parallel_for_threads(context, p.m, length, [&](int64_t begin, int64_t end, int32_t thread) {
      float *row = (float *)(scratch + parts_of.rows) + thread * round_up(length, 16);
      for (int64_t m = begin; m < end; m++) {
        bool direct = a.dtype == F32 && length == p.k;
        if (!direct) copy_row(a, m, p.k, length, row);
        quantize_row(w, direct ? (const float *)a.data + m * p.k : row, q, m);
      }
    });
    int64_t panels = ceil_div(p.n, PANEL), wanted = ceil_div(2 * threads, panels);
    int64_t parts = min(max<int64_t>(wanted, 1), ceil_div(p.m, INT8_ROWS));
    parallel_for(context, parts * panels, ceil_div(p.m, parts) * p.k / 8 + p.k * w.bits * 2 + PANEL, [&](int64_t begin, int64_t end) {
      alignas(64) float tile[INT8_ROWS * PANEL];
      for (int64_t task = begin; task < end; task++) {
        int64_t panel = task / parts, m = p.m * (task % parts) / parts, last = p.m * (task % parts + 1) / parts;
        for (; m < last; m += INT8_ROWS) {
          int64_t rows = min<int64_t>(INT8_ROWS, last - m);
          int8_tile(w, q, m, rows, panel, tile);
          finish(p, tile, PANEL, rows, min<int64_t>(PANEL, p.n - panel * PANEL), m, panel * PANEL);
        }
      }
    });
  }
}

void run_row(hipc_context *context, const PackedWeights &w, const LeftRows &a, const Product &p, float *row) {
  int64_t length = w.padded_k();
  float *sums = row + length;
  copy_row(a, 0, p.k, length, row);
  for (int64_t b = 0; b < w.blocks; b++) {
    sums[b] = 0;
    for (int64_t i = 0; i < w.block; i++) sums[b] += row[b * w.block + i];
  }
  parallel_for(context, ceil_div(p.n, PANEL), p.k * 8, [&](int64_t begin, int64_t end) {
    alignas(64) float tile[PANEL];
    for (int64_t panel = begin; panel < end; panel++) {
      with_bits(w.bits, [&]<int BITS>() {
        for (int half = 0; half < 2; half++) float_row<BITS>(w, row, sums, 2 * panel + half, tile + half * STRIP);
      });
      finish(p, tile, PANEL, 1, min<int64_t>(PANEL, p.n - panel * PANEL), 0, panel * PANEL);
    }
  });
}

// Floats of the scratch of run_panels: copies of the rows, then a panel for each thread.
struct PanelPlan {
  bool copies;
  int64_t lda, rows, panel, threads;

  PanelPlan(hipc_context *context, int32_t dtype, const Product &p, int64_t padded_k) {
    copies = dtype != F32 || rows_collide(p.k);
    lda = copies ? padded_row(p.k) : p.k;
    rows = copies ? round_up(p.m * lda, 16) : 0, panel = padded_k * PANEL, threads = hipc_num_threads(context);
  }
  int64_t bytes() const { return (rows + threads * panel) * (int64_t)sizeof(float); }
};

// Panels unpacked by unpack(panel, to), one at a time on each thread, times all rows.
template <class Unpack>
void run_panels(hipc_context *context, const LeftRows &a, Product p, const PanelPlan &plan, float *scratch, Unpack &&unpack) {
  p.lda = plan.lda;
  if (plan.copies)
    parallel_for(context, p.m, p.k, [&](int64_t begin, int64_t end) {
      for (int64_t m = begin; m < end; m++) copy_row(a, m, p.k, p.k, scratch + m * p.lda);
    });
  p.a = plan.copies ? scratch : (const float *)a.data;
  p.panel_stride = 0, p.ldb = PANEL;
  int64_t panels = ceil_div(p.n, PANEL);
  parallel_for_threads(context, panels, (p.m + 4) * p.k * 2, [&](int64_t begin, int64_t end, int32_t thread) {
    Product own = p;
    float *weights = scratch + plan.rows + thread * plan.panel;
    own.b = weights;
    for (int64_t panel = begin; panel < end; panel++) {
      unpack(panel, weights);
      multiply_panels(own, 0, p.m, panel, panel + 1);
    }
  });
}

bool runs_on_integers(int64_t level) { return HAS_INT8_PRODUCT && level == INTEGER_LEVEL; }

int32_t wrong(hipc_context *context, const char *what, const hipc_tensor *tensor, int64_t expected) {
  return hipc_error(context, HIPC_ERROR_SHAPE, "matmul_nbits: %s has %lld elements of %s, expected %lld", what,
                    (long long)elements(tensor), dtype_name(tensor->dtype), (long long)expected);
}

bool is_half_or_float(int32_t dtype) { return dtype == F32 || dtype == F16 || dtype == BF16; }

} // namespace

int64_t hipc::quantized_scratch(hipc_context *context, const PackedWeights &w, int32_t dtype, const Product &p,
                                int64_t level) {
  if (runs_on_integers(level)) return IntegerPlan(w, p.m, hipc_num_threads(context)).plan.bytes;
  if (p.m == 1) return (w.padded_k() + w.blocks) * (int64_t)sizeof(float);
  return PanelPlan(context, dtype, p, w.padded_k()).bytes();
}

void hipc::multiply_quantized(hipc_context *context, const PackedWeights &w, const LeftRows &a, const Product &p, int64_t level,
                              char *scratch) {
  if (runs_on_integers(level)) return run_integers(context, w, a, p, scratch);
  if (p.m == 1) return run_row(context, w, a, p, (float *)scratch);
  PanelPlan plan(context, a.dtype, p, w.padded_k());
  run_panels(context, a, p, plan, (float *)scratch, [&](int64_t panel, float *to) {
    with_bits(w.bits, [&]<int BITS>() { unpack_panel<BITS>(w, panel, to); });
  });
}

HIPC_EXPORT int32_t hipc_matmul_nbits(hipc_context *context, const hipc_tensor *a, const hipc_tensor *w,
                                      const hipc_tensor *scales, const hipc_tensor *zeros, const hipc_tensor *bias,
                                      hipc_tensor *y, int64_t n, int64_t k, int64_t bits, int64_t block, int64_t level,
                                      int64_t packed) {
  HIPC_TRY(check_contiguous(context, OP, a, w, scales, zeros, bias, y));
  if (!is_half_or_float(a->dtype) || y->dtype != a->dtype || (bias && bias->dtype != a->dtype))
    return unsupported_dtype(context, OP, a->dtype);
  if ((bits != 2 && bits != 4 && bits != 8) || block < 16 || block % 16 || n <= 0 || k <= 0)
    return hipc_error(context, HIPC_ERROR_VALUE, "matmul_nbits: %lld bits in blocks of %lld, %lld x %lld", (long long)bits,
                      (long long)block, (long long)k, (long long)n);
  if (a->rank < 1 || a->shape[a->rank - 1] != k) return wrong(context, "a", a, k);
  int64_t m = extent(a, 0, a->rank - 1), blocks = ceil_div(k, block);
  int64_t columns = packed ? round_up(n, PANEL) : n, cells = columns * blocks;
  if (elements(y) != m * n) return wrong(context, "y", y, m * n);
  if (elements(w) * element_size(w->dtype) != cells * block * bits / 8) return wrong(context, "the weights", w, cells * block * bits / 8);
  if (elements(scales) != cells) return wrong(context, "scales", scales, cells);
  if (bias && elements(bias) != n) return wrong(context, "bias", bias, n);
  bool byte_zeros = zeros && element_size(zeros->dtype) == 1;
  int64_t expected_zeros = byte_zeros ? n * ceil_div(blocks * bits, 8) : cells;
  if (zeros && elements(zeros) != expected_zeros) return wrong(context, "zero points", zeros, expected_zeros);
  if (!is_half_or_float(scales->dtype) || (packed && scales->dtype != F32)) return unsupported_dtype(context, OP, scales->dtype);
  if (zeros && !byte_zeros && (!is_half_or_float(zeros->dtype) || (packed && zeros->dtype != F32)))
    return unsupported_dtype(context, OP, zeros->dtype);
  if (m == 0) return HIPC_OK;
  Product p{};
  p.m = m, p.n = n, p.k = k, p.y = y->data, p.ldy = n;
  p.epilogue.dtype = y->dtype;
  p.epilogue.column_bias = bias ? bias->data : nullptr;
  LeftRows rows{a->data, a->dtype};
  if (!packed) {
    RawWeights raw{data<uint8_t>(w), scales, zeros, n, k, bits, block, blocks};
    PanelPlan plan(context, a->dtype, p, k);
    float *scratch = (float *)hipc_scratch(context, plan.bytes());
    if (!scratch) return out_of_memory(context, OP);
    run_panels(context, rows, p, plan, scratch, [&](int64_t panel, float *to) {
      int64_t first = panel * PANEL, count = min<int64_t>(PANEL, n - first);
      if (count < PANEL) memset(to, 0, (size_t)(k * PANEL) * sizeof(float));
      for (int64_t j = 0; j < count; j++) raw.unpack(first + j, to + j);
    });
    return HIPC_OK;
  }
  PackedWeights weights{data<uint8_t>(w), data<float>(scales), zeros ? data<float>(zeros) : nullptr, n, k, bits, block, blocks};
  char *scratch = (char *)hipc_scratch(context, quantized_scratch(context, weights, a->dtype, p, level));
  if (!scratch) return out_of_memory(context, OP);
  multiply_quantized(context, weights, rows, p, level, scratch);
  return HIPC_OK;
}
