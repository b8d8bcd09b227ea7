// hipc_gather_packed: rows of a table that is stored once, as the packed right-hand side of a product: row r of the table
// is column r of the product's matrix. Tied embeddings need no second copy.
#include "hipc_ops.h"
#include "matmul_nbits.h"

using namespace hipc;

namespace {

constexpr const char *OP = "gather_packed";

void read_floats(const float *panels, int64_t k, int64_t row, float *to) {
  const float *from = panels + row / PANEL * k * PANEL + row % PANEL;
  for (int64_t c = 0; c < k; c++) to[c] = from[c * PANEL];
}

void read_levels(const PackedWeights &w, int64_t row, float *to) {
  int64_t strip = row / STRIP, lane = row % STRIP, per_word = 32 / w.bits, words = w.block / per_word;
  const uint8_t *from = w.strip_words(strip) + lane * 4;
  for (int64_t b = 0; b < w.blocks; b++) {
    float scale = w.strip_scales(strip)[b * STRIP + lane];
    float zero = w.zeros ? w.strip_zeros(strip)[b * STRIP + lane] : (float)(1 << (w.bits - 1));
    for (int64_t g = 0; g < words; g++, from += STRIP * 4)
      for (int64_t i = 0; i < per_word; i++) {
        int64_t at = b * w.block + g * per_word + i;
        int32_t level = from[i % 4] >> (w.bits * (i / 4)) & ((1 << w.bits) - 1);
        if (at < w.k) to[at] = ((float)level - zero) * scale;
      }
  }
}

} // namespace

HIPC_EXPORT int32_t hipc_gather_packed(hipc_context *context, const hipc_tensor *table, const hipc_tensor *indices,
                                       const hipc_tensor *scales, const hipc_tensor *zeros, hipc_tensor *y, int64_t n,
                                       int64_t k, int64_t bits, int64_t block, int64_t zeros_outside) {
  HIPC_TRY(check_contiguous(context, OP, table, indices, scales, zeros, y));
  int64_t blocks = bits ? ceil_div(k, block) : 0, columns = round_up(n, PANEL), cells = columns * blocks;
  int64_t count = elements(indices), wanted = bits ? cells * block * bits / 8 : columns * k;
  bool fits = elements(table) == wanted && elements(y) == count * k && (!bits == !scales);
  fits = fits && (!scales || (elements(scales) == cells && scales->dtype == F32));
  fits = fits && (!zeros || (elements(zeros) == cells && zeros->dtype == F32));
  if (!fits || (!bits && table->dtype != F32))
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: not a table of %lld rows of %lld", OP, (long long)n, (long long)k);
  PackedWeights weights{data<uint8_t>(table), scales ? data<float>(scales) : nullptr, zeros ? data<float>(zeros) : nullptr,
                        n, k, bits, block, blocks};
  int64_t length = round_up(k, 16);
  float *scratch = (float *)hipc_scratch(context, hipc_num_threads(context) * length * (int64_t)sizeof(float));
  if (!scratch) return out_of_memory(context, OP);
  return dispatch_index(context, OP, indices->dtype, [&]<class I>() {
    const I *at = data<I>(indices);
    for (int64_t i = 0; i < count && !zeros_outside; i++) {
      int64_t row = from_front(at[i], n);
      if (row < 0 || row >= n)
        return hipc_error(context, HIPC_ERROR_INDEX, "index %lld is outside [-%lld, %lld)", (long long)at[i], (long long)n,
                          (long long)n);
    }
    parallel_for_threads(context, count, k * 4, [&](int64_t begin, int64_t end, int32_t thread) {
      float *to = scratch + thread * length;
      for (int64_t i = begin; i < end; i++) {
        int64_t row = from_front(at[i], n);
        if (row < 0 || row >= n) memset(to, 0, (size_t)k * sizeof(float));
        else if (bits) read_levels(weights, row, to);
        else read_floats(data<float>(table), k, row, to);
        store_floats(y->dtype, y->data, i * k, k, to);
      }
    });
    return (int32_t)HIPC_OK;
  });
}
