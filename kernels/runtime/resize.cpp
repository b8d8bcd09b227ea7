// hipc_resize and hipc_resize_extents on GPUs. Scales and regions are read on the host: they are constants as a rule.
#include "../host/resizing.h"
#include "gpu.h"
#include "shared/resizing.h"

using namespace hipc;

namespace {

constexpr const char *OP = "resize";

// The axes, from numbers that lie on the device.
int32_t read_values(hipc_context *context, const ResizeOptions &options, const hipc_tensor *x, const hipc_tensor *scales,
                    const hipc_tensor *roi, const hipc_tensor *y, ResizeAxis *axes) {
  HIPC_TRY(check_resize(context, options, x, scales, roi, y));
  float scale_buffer[HIPC_MAX_RANK], roi_buffer[2 * HIPC_MAX_RANK];
  const float *own = nullptr, *region = roi_buffer;
  if (scales) own = x->rank ? (const float *)host_view(context, scales->data, scale_buffer, 4 * x->rank) : scale_buffer;
  if (options.coordinate == TF_CROP_AND_RESIZE && x->rank)
    region = (const float *)host_view(context, roi->data, roi_buffer, 8 * x->rank);
  if ((scales && !own) || !region) return HIPC_ERROR_INTERNAL;
  return read_axes(context, options, x, own, region, y, axes);
}

// The type that numbers are blended in.
bool is_double(int32_t dtype) { return dtype == F64 || dtype == I32 || dtype == U32 || dtype == I64 || dtype == U64; }

// The extrapolation value as an element's bits, rounded and within the limits of its type.
uint64_t element_bits(int32_t dtype, double value) {
  double whole = __builtin_rint(value);
  auto clamped = [&](double low, double high) { return !(whole > low) ? low : whole >= high ? high : whole; };
  switch (dtype) {
  case F64: return bit_cast<uint64_t>(value);
  case F32: return bit_cast<uint32_t>((float)value);
  case F16: return f32_to_f16((float)value);
  case BF16: return f32_to_bf16((float)value);
  case U8: return (uint8_t)clamped(0, 255);
  case I8: return (uint8_t)(int8_t)clamped(-128, 127);
  case U16: return (uint16_t)clamped(0, 65535);
  case I16: return (uint16_t)(int16_t)clamped(-32768, 32767);
  case I32: return (uint32_t)(int32_t)clamped(-2147483648.0, 2147483647.0);
  case U32: return (uint32_t)clamped(0, 4294967295.0);
  case I64: return whole >= 0x1p63 ? INT64_MAX : (uint64_t)(int64_t)clamped(-0x1p63, 0x1p63);
  default: return whole >= 0x1p64 ? UINT64_MAX : (uint64_t)clamped(0, 0x1p64);
  }
}

// Axes that change, the last one first: enlarging it before the others would repeat its work.
struct Passes {
  int32_t count, axis[HIPC_MAX_RANK];
  int64_t largest;  // elements of the largest result between them
};

Passes passes_of(const ResizeOptions &options, const hipc_tensor *x, const ResizeAxis *axes) {
  Passes passes{};
  int64_t size = elements(x);
  for (int32_t i = x->rank - 1; i >= 0; i--) {
    if (is_identity(axes[i], options)) continue;
    passes.axis[passes.count++] = i;
    size = size / axes[i].in * axes[i].out;
    passes.largest = max(passes.largest, size);
  }
  return passes;
}

int32_t nearest(hipc_context *context, const hipc_tensor *x, hipc_tensor *y, const ResizeAxis *axes, const Passes &passes,
                const ResizeTable *tables, uint64_t extrapolation) {
  ResizeAxes all{};
  all.rank = x->rank;
  for (int32_t i = 0; i < x->rank; i++) all.in[i] = axes[i].in, all.out[i] = axes[i].out;
  for (int32_t n = 0; n < passes.count; n++)
    all.source[passes.axis[n]] = tables[n].source, all.outside[passes.axis[n]] = tables[n].outside;
  return launch(context, kernel_name_of_size("resize_nearest", element_size(x->dtype)), over(context, elements(y)), x->data, y->data,
                all, elements(y), extrapolation);
}

int32_t blend(hipc_context *context, const hipc_tensor *x, hipc_tensor *y, int32_t dtype, const ResizeAxis *axes,
              const Passes &passes, const ResizeTable *tables, void *const *buffers, double extrapolation) {
  int64_t shape[HIPC_MAX_RANK];
  for (int32_t i = 0; i < x->rank; i++) shape[i] = x->shape[i];
  int32_t between = is_double(dtype) ? F64 : F32;
  const void *from = x->data;
  for (int32_t n = 0; n < passes.count; n++) {
    int32_t axis = passes.axis[n];
    bool last = n == passes.count - 1;
    ResizePass pass{from, last ? y->data : buffers[n % 2], 1, axes[axis].in, axes[axis].out, 1, extrapolation,
                    n ? between : dtype, last ? dtype : between};
    for (int32_t i = 0; i < x->rank; i++)
      if (i != axis) (i < axis ? pass.outer : pass.inner) *= shape[i];
    HIPC_TRY(launch(context, kernel_name("resize_blend", between), over(context, pass.outer * pass.out * pass.inner), pass, tables[n]));
    shape[axis] = pass.out;
    from = pass.to;
  }
  return HIPC_OK;
}

} // namespace

HIPC_EXPORT int32_t hipc_resize(hipc_context *context, const hipc_tensor *x, const hipc_tensor *scales,
                                const hipc_tensor *roi, hipc_tensor *y, int64_t mode, int64_t coordinate,
                                int64_t nearest_mode, double cubic_coeff_a, int64_t exclude_outside,
                                double extrapolation_value, int64_t antialias, int64_t is_unsigned) {
  HIPC_TRY(check_contiguous(context, OP, x, scales, roi, y));
  ResizeOptions options{mode, coordinate, nearest_mode, cubic_coeff_a, extrapolation_value, exclude_outside != 0, antialias != 0};
  ResizeAxis axes[HIPC_MAX_RANK];
  HIPC_TRY(read_values(context, options, x, scales, roi, y, axes));
  int32_t dtype = signed_as(x->dtype, is_unsigned);
  int64_t size = element_size(dtype);
  if (size == 0 || y->dtype != x->dtype) return unsupported_dtype(context, OP, x->dtype);
  if (elements(y) == 0) return HIPC_OK;
  Passes passes = passes_of(options, x, axes);
  if (passes.count == 0) return hipc_copy(context, y->data, x->data, elements(x) * size);
  bool moves = mode == RESIZE_NEAREST, any_type = moves && coordinate != TF_CROP_AND_RESIZE;
  if (!any_type && !*dtype_word(dtype)) return unsupported_dtype(context, OP, x->dtype);
  ScratchPlan plan;
  int64_t places[HIPC_MAX_RANK][3], buffers_at[2] = {};
  ResizeTable tables[HIPC_MAX_RANK];
  for (int32_t n = 0; n < passes.count; n++) {
    const ResizeAxis &axis = axes[passes.axis[n]];
    tables[n].count = taps_of(options, axis);
    places[n][0] = plan.add(axis.out * tables[n].count * 8);
    places[n][1] = plan.add(axis.out * tables[n].count * 8);
    places[n][2] = plan.add(axis.out);
  }
  if (!moves && passes.count > 1)
    for (int64_t &buffer : buffers_at) buffer = plan.add(passes.largest * (is_double(dtype) ? 8 : 4));
  char *scratch = (char *)device_scratch(context, plan.bytes);
  if (!scratch) return out_of_memory(context, OP);
  for (int32_t n = 0; n < passes.count; n++) {
    const ResizeAxis &axis = axes[passes.axis[n]];
    tables[n].source = (int64_t *)(scratch + places[n][0]), tables[n].weight = (double *)(scratch + places[n][1]);
    tables[n].outside = (uint8_t *)(scratch + places[n][2]);
    HIPC_TRY(launch(context, "resize_table", over(context, axis.out), tables[n], options, axis));
  }
  if (moves) return nearest(context, x, y, axes, passes, tables, any_type ? 0 : element_bits(dtype, extrapolation_value));
  void *const buffers[] = {scratch + buffers_at[0], scratch + buffers_at[1]};
  return blend(context, x, y, dtype, axes, passes, tables, buffers, extrapolation_value);
}

HIPC_EXPORT int32_t hipc_resize_extents(hipc_context *context, const hipc_tensor *x, const hipc_tensor *scales,
                                        hipc_tensor *y) {
  const char *op = "resize_extents";
  HIPC_TRY(check_contiguous(context, op, scales, y));
  if (scales->dtype != F32 || y->dtype != I64 || elements(scales) != x->rank || elements(y) != x->rank)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s needs one float scale for each of the %d axes", op, x->rank);
  float buffer[HIPC_MAX_RANK];
  const float *own = x->rank ? (const float *)host_view(context, scales->data, buffer, 4 * x->rank) : buffer;
  if (!own) return HIPC_ERROR_INTERNAL;
  for (int32_t i = 0; i < x->rank; i++) {
    double extent = __builtin_floor((double)x->shape[i] * (double)own[i]);
    if (!(extent >= 0 && extent < 0x1p53))
      return hipc_error(context, HIPC_ERROR_VALUE, "%s: the scale of axis %d makes no extent", op, i);
    HIPC_TRY(hipc_write(context, data<int64_t>(y) + i, (int64_t)extent, 8));
  }
  return HIPC_OK;
}
