// hipc_layer_norm, hipc_layer_norm_stats, hipc_rms_norm, hipc_instance_norm, hipc_group_norm: rows of one mean and one
// variance. Half precision accumulates in float.
#include "hipc_ops.h"

using namespace hipc;

namespace {

template <class T> HIPC_INLINE Compute<T> sum_of(const T *x, int64_t count) {
#pragma clang fp reassociate(on)
  Compute<T> sum = 0;
  for (int64_t i = 0; i < count; i++) sum += widen(x[i]);
  return sum;
}

template <class T> HIPC_INLINE Compute<T> sum_of_squares(const T *x, int64_t count) {
#pragma clang fp reassociate(on)
  Compute<T> sum = 0;
  for (int64_t i = 0; i < count; i++) sum += widen(x[i]) * widen(x[i]);
  return sum;
}

// (x - mean) * inverse + offset has mean 0 and variance 1; `offset` holds what rounding took from the mean.
template <class C> struct Moments {
  C mean, inverse, offset;
};

// Two passes: the variance of numbers far from zero keeps its digits. The second pass also finds how far the rounded
// mean is off.
template <class T> HIPC_INLINE Moments<Compute<T>> moments_of(const T *x, int64_t count, double epsilon) {
  using C = Compute<T>;
  C size = (C)count, mean = sum_of(x, count) / size, squares = 0, distances = 0;
  {
#pragma clang fp reassociate(on)
    for (int64_t i = 0; i < count; i++) {
      C distance = widen(x[i]) - mean;
      distances += distance;
      squares += distance * distance;
    }
  }
  C error = distances / size, inverse = (C)1 / sqrt_of(squares / size - error * error + (C)epsilon);
  return {mean, inverse, -error * inverse};
}

template <class T> HIPC_INLINE Moments<Compute<T>> root_mean_square_of(const T *x, int64_t count, double epsilon) {
  using C = Compute<T>;
  return {0, (C)1 / sqrt_of(sum_of_squares(x, count) / (C)count + (C)epsilon), 0};
}

// Writes a parameter, broadcast to the last `rank` extents, as arithmetic numbers; `fill` where it is absent.
template <class C>
int32_t spread_parameter(hipc_context *context, const char *op, const hipc_tensor *parameter, int32_t rank,
                         const int64_t *shape, int64_t count, C fill, C *out) {
  if (!parameter) {
    for (int64_t i = 0; i < count; i++) out[i] = fill;
    return HIPC_OK;
  }
  // Leading extents of 1 may exceed the normalised axes.
  int32_t skip = 0;
  while (parameter->rank - skip > rank && parameter->shape[skip] == 1) skip++;
  int32_t own = parameter->rank - skip;
  bool fits = own <= rank;
  for (int32_t i = 0; fits && i < own; i++) {
    int64_t extent = parameter->shape[skip + i];
    fits = extent == 1 || extent == shape[rank - own + i];
  }
  if (!fits)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: scale or bias does not broadcast to the normalised axes", op);
  if (count == 0) return HIPC_OK;
  return dispatch_float(context, op, parameter->dtype, [&]<class P>() {
    const P *in = data<P>(parameter);
    if (elements(parameter) == count) {
      for (int64_t i = 0; i < count; i++) out[i] = (C)widen(in[i]);
      return (int32_t)HIPC_OK;
    }
    Walk<1> walk(rank, shape);
    walk.broadcast(0, own, parameter->shape + skip, parameter->strides + skip);
    walk.seek(0);
    for (int64_t i = 0; i < count; i++, walk.next()) out[i] = (C)widen(in[walk.offsets[0]]);
    return (int32_t)HIPC_OK;
  });
}

void store_float(const hipc_tensor *tensor, int64_t position, double value) {
  switch (tensor->dtype) {
  case F64: data<double>(tensor)[position] = value; break;
  case F16: data<f16>(tensor)[position] = f16((float)value); break;
  case BF16: data<bf16>(tensor)[position] = bf16((float)value); break;
  default: data<float>(tensor)[position] = (float)value;
  }
}

// One row, standardised, times scale, plus bias; a NULL bias adds nothing.
template <class T>
HIPC_INLINE void write_row(const T *x, T *y, int64_t count, Moments<Compute<T>> moments, const Compute<T> *scale,
                           const Compute<T> *bias) {
  if (bias)
    for (int64_t i = 0; i < count; i++)
      y[i] = (T)(((widen(x[i]) - moments.mean) * moments.inverse + moments.offset) * scale[i] + bias[i]);
  else
    for (int64_t i = 0; i < count; i++) y[i] = (T)(((widen(x[i]) - moments.mean) * moments.inverse + moments.offset) * scale[i]);
}

enum class Center { mean, zero };

int32_t normalise_rows(hipc_context *context, const char *op, Center center, const hipc_tensor *x,
                       const hipc_tensor *scale, const hipc_tensor *bias, hipc_tensor *y, hipc_tensor *mean,
                       hipc_tensor *inverse, int64_t axis, double epsilon) {
  HIPC_TRY(check_same_shape(context, op, x, y));
  HIPC_TRY(check_contiguous(context, op, x, scale, bias, y, mean, inverse));
  HIPC_TRY(check_axis(context, op, axis, x->rank, &axis));
  int32_t first = x->rank ? (int32_t)axis : 0, rank = x->rank - first;
  int64_t rows = extent(x, 0, first), length = extent(x, first, x->rank);
  if (mean && (elements(mean) != rows || elements(inverse) != rows))
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: mean and inverse deviation need one element per row", op);
  return dispatch_float(context, op, x->dtype, [&]<class T>() -> int32_t {
    using C = Compute<T>;
    ScratchPlan plan;
    int64_t scale_at = plan.add(length * (int64_t)sizeof(C)), bias_at = plan.add(length * (int64_t)sizeof(C));
    char *scratch = (char *)hipc_scratch(context, max(plan.bytes, (int64_t)64));
    if (!scratch) return out_of_memory(context, op);
    C *wide_scale = (C *)(scratch + scale_at), *wide_bias = bias ? (C *)(scratch + bias_at) : nullptr;
    const int64_t *tail = x->shape + first;
    HIPC_TRY(spread_parameter<C>(context, op, scale, rank, tail, length, 1, wide_scale));
    if (bias) HIPC_TRY(spread_parameter<C>(context, op, bias, rank, tail, length, 0, wide_bias));
    const T *in = data<T>(x);
    T *out = data<T>(y);
    parallel_for(context, rows, length * 4, [=](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; row++) {
        const T *line = in + row * length;
        Moments<C> moments = center == Center::mean ? moments_of(line, length, epsilon)
                                                    : root_mean_square_of(line, length, epsilon);
        write_row(line, out + row * length, length, moments, wide_scale, wide_bias);
        if (mean) {
          store_float(mean, row, (double)moments.mean);
          store_float(inverse, row, (double)moments.inverse);
        }
      }
    });
    return HIPC_OK;
  });
}

// Rows are groups of channels; scale and bias have one number per channel, or one per group.
int32_t normalise_groups(hipc_context *context, const char *op, const hipc_tensor *x, const hipc_tensor *scale,
                         const hipc_tensor *bias, hipc_tensor *y, int64_t groups, double epsilon) {
  HIPC_TRY(check_same_shape(context, op, x, y));
  HIPC_TRY(check_contiguous(context, op, x, scale, bias, y));
  if (x->rank < 2) return hipc_error(context, HIPC_ERROR_SHAPE, "%s needs a batch axis and a channel axis", op);
  int64_t channels = x->shape[1], spatial = extent(x, 2, x->rank);
  if (groups < 1 || channels % groups)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: %lld channels do not divide into %lld groups", op,
                      (long long)channels, (long long)groups);
  int64_t parameters = elements(scale);
  if ((parameters != channels && parameters != groups) || elements(bias) != parameters)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: scale and bias need one number per channel or per group", op);
  if (elements(x) == 0) return HIPC_OK;
  bool per_channel = parameters == channels;
  return dispatch_float(context, op, x->dtype, [&]<class T>() -> int32_t {
    using C = Compute<T>;
    ScratchPlan plan;
    int64_t scale_at = plan.add(parameters * (int64_t)sizeof(C)), bias_at = plan.add(parameters * (int64_t)sizeof(C));
    char *scratch = (char *)hipc_scratch(context, plan.bytes);
    if (!scratch) return out_of_memory(context, op);
    C *wide_scale = (C *)(scratch + scale_at), *wide_bias = (C *)(scratch + bias_at);
    HIPC_TRY(spread_parameter<C>(context, op, scale, 1, &parameters, parameters, 1, wide_scale));
    HIPC_TRY(spread_parameter<C>(context, op, bias, 1, &parameters, parameters, 0, wide_bias));
    const T *in = data<T>(x);
    T *out = data<T>(y);
    int64_t width = channels / groups, length = width * spatial;
    parallel_for(context, x->shape[0] * groups, length * 4, [=](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; row++) {
        Moments<C> moments = moments_of(in + row * length, length, epsilon);
        for (int64_t c = 0; c < width; c++) {
          int64_t group = row % groups, parameter = per_channel ? group * width + c : group;
          C factor = moments.inverse * wide_scale[parameter];
          C shift = moments.offset * wide_scale[parameter] + wide_bias[parameter];
          const T *from = in + row * length + c * spatial;
          T *to = out + row * length + c * spatial;
          for (int64_t i = 0; i < spatial; i++) to[i] = (T)((widen(from[i]) - moments.mean) * factor + shift);
        }
      }
    });
    return HIPC_OK;
  });
}

} // namespace

HIPC_EXPORT int32_t hipc_layer_norm(hipc_context *context, const hipc_tensor *x, const hipc_tensor *scale,
                                    const hipc_tensor *bias, hipc_tensor *y, int64_t axis, double epsilon) {
  return normalise_rows(context, "layer_norm", Center::mean, x, scale, bias, y, nullptr, nullptr, axis, epsilon);
}

HIPC_EXPORT int32_t hipc_layer_norm_stats(hipc_context *context, const hipc_tensor *x, const hipc_tensor *scale,
                                          const hipc_tensor *bias, hipc_tensor *y, hipc_tensor *mean,
                                          hipc_tensor *inv_std, int64_t axis, double epsilon) {
  return normalise_rows(context, "layer_norm_stats", Center::mean, x, scale, bias, y, mean, inv_std, axis, epsilon);
}

HIPC_EXPORT int32_t hipc_rms_norm(hipc_context *context, const hipc_tensor *x, const hipc_tensor *scale,
                                  hipc_tensor *y, int64_t axis, double epsilon) {
  return normalise_rows(context, "rms_norm", Center::zero, x, scale, nullptr, y, nullptr, nullptr, axis, epsilon);
}

HIPC_EXPORT int32_t hipc_instance_norm(hipc_context *context, const hipc_tensor *x, const hipc_tensor *scale,
                                       const hipc_tensor *bias, hipc_tensor *y, double epsilon) {
  // Zero channels are zero groups of one; the check below wants at least one.
  int64_t channels = x->rank > 1 ? max(x->shape[1], (int64_t)1) : 1;
  return normalise_groups(context, "instance_norm", x, scale, bias, y, channels, epsilon);
}

HIPC_EXPORT int32_t hipc_group_norm(hipc_context *context, const hipc_tensor *x, const hipc_tensor *scale,
                                    const hipc_tensor *bias, hipc_tensor *y, int64_t groups, double epsilon) {
  return normalise_groups(context, "group_norm", x, scale, bias, y, groups, epsilon);
}
