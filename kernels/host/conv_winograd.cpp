// Convolution by kernels of 3 x 3, stride 1, with Winograd's minimal filtering F(4 x 4, 3 x 3): tiles of 6 x 6 of the input
// become 36 numbers each, which 36 small matrix products combine over the channels, and of which 4 x 4 outputs are made.
// A quarter of the multiplications. Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015.
//
// The polynomial points are 0, +-3/4, +-3/2 and infinity: errors are about three times those of the direct sum, where the
// usual 0, +-1, +-2 give ten times. Whoever changes them changes hip_compiler/core/passes/winograd.py, too.
#include "conv.h"

using namespace hipc;

namespace {

constexpr int OUT = 4, TILE = 6, POINTS = TILE * TILE;
constexpr float P = 0.75f, Q = 1.5f, PP = P * P, QQ = Q * Q;

// Floats of transformed input and products that are made together.
constexpr int64_t TOGETHER = 1 << 20;
constexpr int64_t BLOCK_ROWS = 168;

// The input side: to[i] for the six points.
HIPC_INLINE void to_points(const vfloat *d, vfloat *to) {
  vfloat e = d[4] - QQ * d[2], o = P * (d[3] - QQ * d[1]), f = d[4] - PP * d[2], g = Q * (d[3] - PP * d[1]);
  to[0] = d[4] - (PP + QQ) * d[2] + PP * QQ * d[0];
  to[1] = e + o;
  to[2] = e - o;
  to[3] = f + g;
  to[4] = f - g;
  to[5] = d[5] - (PP + QQ) * d[3] + PP * QQ * d[1];
}

// The output side: four sums of six points.
HIPC_INLINE void from_points(const vfloat *m, vfloat *to) {
  vfloat sum1 = m[1] + m[2], sum2 = m[3] + m[4], difference1 = P * (m[1] - m[2]), difference2 = Q * (m[3] - m[4]);
  to[0] = m[0] + sum1 + sum2;
  to[1] = difference1 + difference2;
  to[2] = PP * sum1 + QQ * sum2;
  to[3] = PP * difference1 + QQ * difference2 + m[5];
}

// Tiles of one image. Tile rows are handled `together`; each thread works on whole vectors of tiles, so a row of tiles
// may spill over into what comes after it, which is written later, or is no tile.
struct Tiles {
  int64_t rows, columns, together;
  int64_t vectors;  // floats of a row of tiles, whole vectors
  int64_t ld;       // floats between channels, and between filters

  explicit Tiles(const Conv &conv) {
    rows = ceil_div(conv.out[1], (int64_t)OUT), columns = ceil_div(conv.out[2], (int64_t)OUT);
    int64_t fit = max<int64_t>(1, TOGETHER / (POINTS * (conv.channels + conv.filters) * columns));
    together = ceil_div(rows, ceil_div(rows, fit));
    vectors = round_up(columns, LANES);
    ld = round_up(together * columns + LANES, PANEL);
    if (rows_collide(ld)) ld += PANEL;
  }
};

// Input rows of one channel under `count` rows of tiles, each as its six horizontal points: [row][point][tile].
void transform_rows(const Conv &conv, const Tiles &tiles, const float *x, int64_t first_row, int64_t count, float *line,
                    float *phases, float *to) {
  int64_t width = conv.in[2], stored = tiles.vectors + LANES, pad = conv.pads[2];
  int64_t from = max<int64_t>(0, -pad), end = min(width, OUT * stored - pad);
  for (int64_t i = 0; i < OUT * stored; i++) line[i] = 0;
  for (int64_t r = 0; r < OUT * count + TILE - OUT; r++, to += TILE * tiles.vectors) {
    int64_t row = first_row + r - conv.pads[1];
    if (row < 0 || row >= conv.in[1]) {
      for (int64_t i = 0; i < TILE * tiles.vectors; i++) to[i] = 0;
      continue;
    }
    for (int64_t i = from; i < end; i++) line[i + pad] = x[row * width + i];
    float *__restrict p0 = phases, *__restrict p1 = p0 + stored, *__restrict p2 = p1 + stored, *__restrict p3 = p2 + stored;
    for (int64_t t = 0; t < stored; t++)
      p0[t] = line[4 * t], p1[t] = line[4 * t + 1], p2[t] = line[4 * t + 2], p3[t] = line[4 * t + 3];
    for (int64_t t = 0; t < tiles.vectors; t += LANES) {
      vfloat d[TILE] = {load(p0 + t), load(p1 + t), load(p2 + t), load(p3 + t), load(p0 + t + 1), load(p1 + t + 1)};
      vfloat points[TILE];
      to_points(d, points);
      for (int j = 0; j < TILE; j++) store(to + j * tiles.vectors + t, points[j]);
    }
  }
}

// All points of the tiles of one channel, from the horizontal ones; points are `plane` floats apart.
void transform_columns(const Tiles &tiles, const float *from, int64_t count, float *to, int64_t plane) {
  int64_t row = TILE * tiles.vectors;
  for (int64_t tile = 0; tile < count; tile++, from += OUT * row, to += tiles.columns)
    for (int j = 0; j < TILE; j++)
      for (int64_t t = 0; t < tiles.vectors; t += LANES) {
        vfloat d[TILE], points[TILE];
        for (int i = 0; i < TILE; i++) d[i] = load(from + i * row + j * tiles.vectors + t);
        to_points(d, points);
        for (int i = 0; i < TILE; i++) store(to + (i * TILE + j) * plane + t, points[i]);
      }
}

// Four lines of outputs from the points of one row of tiles; points are `plane` floats apart, lines `width`.
void transform_back(const Tiles &tiles, const float *from, int64_t plane, float *parts, float *lines, int64_t width) {
  for (int64_t t = 0; t < tiles.vectors; t += LANES) {
    vfloat half[OUT][TILE];
    for (int j = 0; j < TILE; j++) {
      vfloat m[TILE], sums[OUT];
      for (int i = 0; i < TILE; i++) m[i] = load(from + (i * TILE + j) * plane + t);
      from_points(m, sums);
      for (int i = 0; i < OUT; i++) half[i][j] = sums[i];
    }
    for (int i = 0; i < OUT; i++) {
      vfloat sums[OUT];
      from_points(half[i], sums);
      for (int j = 0; j < OUT; j++) store(parts + (i * OUT + j) * tiles.vectors + t, sums[j]);
    }
  }
  for (int i = 0; i < OUT; i++) {
    const float *__restrict p0 = parts + i * OUT * tiles.vectors, *__restrict p1 = p0 + tiles.vectors;
    const float *__restrict p2 = p1 + tiles.vectors, *__restrict p3 = p2 + tiles.vectors;
    float *__restrict line = lines + i * width;
    for (int64_t t = 0; t < tiles.vectors; t++)
      line[4 * t] = p0[t], line[4 * t + 1] = p1[t], line[4 * t + 2] = p2[t], line[4 * t + 3] = p3[t];
  }
}

// Bias, activation and residual for pixels [first, first + count) of one filter, which lie in y.
void finish_pixels(const Product &p, int64_t filter, int64_t first, int64_t count) {
  float *y = (float *)p.y + filter * p.ldy + first;
  int64_t whole = count / PANEL * PANEL, left = count - whole;
  if (whole) finish(p, y, p.ldy, 1, whole, filter, first);
  if (left) {
    // In place, numbers after the last would be touched.
    alignas(64) float rest[PANEL];
    memcpy(rest, y + whole, (size_t)left * sizeof(float));
    finish(p, rest, PANEL, 1, left, filter, first + whole);
  }
}

} // namespace

int32_t hipc::conv_winograd(hipc_context *context, const Conv &conv) {
  Tiles tiles(conv);
  int64_t channels = conv.channels, filters = conv.filters, lda = conv.w->shape[2], threads = hipc_num_threads(context);
  int64_t stored = tiles.vectors + LANES, width = round_up(OUT * tiles.vectors, PANEL) + PANEL;
  int64_t x_floats = OUT * stored * 2 + (OUT * tiles.together + TILE - OUT) * TILE * tiles.vectors;
  int64_t y_floats = OUT * OUT * tiles.vectors + OUT * width;
  int64_t own = round_up(max(x_floats, y_floats), 16), v_plane = channels * tiles.ld, m_plane = filters * tiles.ld;
  float *memory = (float *)hipc_scratch(context, (POINTS * (v_plane + m_plane) + threads * own) * (int64_t)sizeof(float));
  if (!memory) return HIPC_ERROR_MEMORY;
  float *v = memory, *m = v + POINTS * v_plane, *scratch = m + POINTS * m_plane;
  for (int64_t image = 0; image < conv.images; image++) {
    const float *x = data<float>(conv.x) + image * channels * conv.in_size;
    Product whole = conv_product(conv, image, 0);
    for (int64_t first = 0; first < tiles.rows; first += tiles.together) {
      int64_t count = min(tiles.together, tiles.rows - first), number = count * tiles.columns;
      int64_t panels = ceil_div(number, PANEL), blocks = ceil_div(filters, BLOCK_ROWS);
      parallel_for_threads(context, channels, number * POINTS * 4, [=, &conv, &tiles](int64_t begin, int64_t end, int32_t thread) {
        float *line = scratch + thread * own, *phases = line + OUT * stored, *rows = phases + OUT * stored;
        for (int64_t c = begin; c < end; c++) {
          transform_rows(conv, tiles, x + c * conv.in_size, OUT * first, count, line, phases, rows);
          transform_columns(tiles, rows, count, v + c * tiles.ld, v_plane);
          // What fills the last panel is multiplied, too: left as it is, it may hold numbers that are slow to compute with.
          for (int64_t point = 0; point < POINTS; point++)
            for (int64_t i = number; i < panels * PANEL; i++) v[point * v_plane + c * tiles.ld + i] = 0;
        }
      });
      int64_t cost = filters / blocks * channels * panels * (PANEL / 16);
      parallel_for(context, POINTS * blocks, cost, [=, &conv, &tiles](int64_t begin, int64_t end) {
        for (int64_t task = begin; task < end; task++) {
          int64_t point = task / blocks, block = task % blocks;
          Product p{};
          p.m = filters, p.n = number, p.k = channels;
          p.a = data<float>(conv.w) + point * filters * lda, p.lda = lda;
          p.b = v + point * v_plane, p.panel_stride = PANEL, p.ldb = tiles.ld;
          p.y = m + point * m_plane, p.ldy = tiles.ld;
          multiply_panels(p, filters * block / blocks, filters * (block + 1) / blocks, 0, panels);
        }
      });
      parallel_for_threads(context, filters, number * POINTS * 3, [=, &conv, &tiles](int64_t begin, int64_t end, int32_t thread) {
        float *parts = scratch + thread * own, *lines = parts + OUT * OUT * tiles.vectors;
        int64_t wide = conv.out[2], from = OUT * first, to = min(conv.out[1], OUT * (first + count));
        for (int64_t filter = begin; filter < end; filter++) {
          float *y = (float *)whole.y + filter * whole.ldy;
          for (int64_t point = 0; point < POINTS; point++)
            store(m + point * m_plane + filter * tiles.ld + number, vfloat{});
          for (int64_t tile = 0; tile < count; tile++) {
            transform_back(tiles, m + filter * tiles.ld + tile * tiles.columns, m_plane, parts, lines, width);
            int64_t row = from + OUT * tile, last = min<int64_t>(OUT, to - row);
            for (int64_t i = 0; i < last; i++) memcpy(y + (row + i) * wide, lines + i * width, (size_t)wide * sizeof(float));
          }
          finish_pixels(whole, filter, from * wide, (to - from) * wide);
        }
      });
    }
  }
  return HIPC_OK;
}
