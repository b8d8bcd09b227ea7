// hipc_resize, hipc_resize_extents. A resize is one pass per axis whose extent or coordinates change. A pass is a table of
// taps, source positions with weights, applied to every line of the axis.
#include "resizing.h"

using namespace hipc;

namespace {

using Options = ResizeOptions;
using Axis = ResizeAxis;

// Taps of every output position of an axis. `outside[i]`: position i takes the extrapolation value.
template <class C> struct Taps {
  int64_t count;
  int64_t *source; // [out][count]
  C *weight;       // [out][count]
  bool *outside;   // [out]
};

template <class C> void fill_all(const Options &options, const Axis &axis, Taps<C> taps) {
  for (int64_t i = 0; i < axis.out; i++)
    taps.outside[i] = fill_taps(options, axis, i, taps.count, taps.source + i * taps.count, taps.weight + i * taps.count);
}

// ---- passes -----------------------------------------------------------------------------------------------------
// Moves elements of any type: for nearest.
template <class T>
void move_pass(hipc_context *context, const T *from, T *to, Rows rows, int64_t out, Taps<float> taps, T extrapolation) {
  if (rows.inner == 1) {
    parallel_for(context, rows.outer, out, [=](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; o++)
        for (int64_t i = 0; i < out; i++)
          to[o * out + i] = taps.outside[i] ? extrapolation : from[o * rows.length + taps.source[i]];
    });
    return;
  }
  parallel_for(context, rows.outer * out, rows.inner + 2, [=](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; task++) {
      int64_t o = task / out, i = task % out;
      T *target = to + task * rows.inner;
      if (taps.outside[i])
        for (int64_t j = 0; j < rows.inner; j++) target[j] = extrapolation;
      else
        memcpy(target, from + (o * rows.length + taps.source[i]) * rows.inner, (size_t)rows.inner * sizeof(T));
    }
  });
}

template <class C>
HIPC_INLINE void weighted_lines(const C *base, C *target, int64_t inner, const int64_t *source, const C *weight,
                                int64_t count) {
  if (count == 2) {
    const C *a = base + source[0] * inner, *b = base + source[1] * inner;
    C wa = weight[0], wb = weight[1];
    for (int64_t j = 0; j < inner; j++) target[j] = a[j] * wa + b[j] * wb;
    return;
  }
  for (int64_t j = 0; j < inner; j++) target[j] = 0;
  for (int64_t k = 0; k < count; k++) {
    const C *line = base + source[k] * inner;
    C w = weight[k];
    for (int64_t j = 0; j < inner; j++) target[j] += line[j] * w;
  }
}

// One line along an axis that is the last.
template <class C>
HIPC_INLINE void blend_line(const C *base, C *line, int64_t out, const Taps<C> &taps, C extrapolation) {
  if (taps.count == 2) {
    for (int64_t i = 0; i < out; i++) {
      C value = base[taps.source[2 * i]] * taps.weight[2 * i] + base[taps.source[2 * i + 1]] * taps.weight[2 * i + 1];
      line[i] = taps.outside[i] ? extrapolation : value;
    }
    return;
  }
  for (int64_t i = 0; i < out; i++) {
    const int64_t *source = taps.source + i * taps.count;
    const C *weight = taps.weight + i * taps.count;
    C sum = 0;
    for (int64_t k = 0; k < taps.count; k++) sum += base[source[k]] * weight[k];
    line[i] = taps.outside[i] ? extrapolation : sum;
  }
}

template <class C>
void blend_pass(hipc_context *context, const C *from, C *to, Rows rows, int64_t out, Taps<C> taps, C extrapolation) {
  int64_t cost = taps.count * 2;
  if (rows.inner == 1) {
    parallel_for(context, rows.outer, out * cost, [=](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; o++)
        blend_line(from + o * rows.length, to + o * out, out, taps, extrapolation);
    });
    return;
  }
  parallel_for(context, rows.outer * out, rows.inner * cost, [=](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; task++) {
      int64_t o = task / out, i = task % out;
      C *target = to + task * rows.inner;
      if (taps.outside[i])
        for (int64_t j = 0; j < rows.inner; j++) target[j] = extrapolation;
      else
        weighted_lines(from + o * rows.length * rows.inner, target, rows.inner, taps.source + i * taps.count,
                       taps.weight + i * taps.count, taps.count);
    }
  });
}

// What a resize does, decided before any element moves.
struct Plan {
  int32_t rank, passes, axis[HIPC_MAX_RANK];
  Axis axes[HIPC_MAX_RANK];
  int64_t largest; // elements of the largest intermediate result
};

Plan plan_passes(const Options &options, const hipc_tensor *x, const Axis *axes) {
  Plan plan{};
  plan.rank = x->rank;
  int64_t size = elements(x);
  // The last axis first: enlarging it before the others would repeat its work.
  for (int32_t i = x->rank - 1; i >= 0; i--) {
    plan.axes[i] = axes[i];
    if (is_identity(axes[i], options)) continue;
    plan.axis[plan.passes++] = i;
    size = size / axes[i].in * axes[i].out;
    plan.largest = max(plan.largest, size);
  }
  return plan;
}

// Runs pass(from, to, rows, axis) for every pass through two buffers; the first reads `x`, the last writes `y`.
template <class C, class Pass>
void run_passes(const Plan &plan, const hipc_tensor *x, const C *from, C *to, C *first, C *second, Pass &&pass) {
  int64_t shape[HIPC_MAX_RANK];
  for (int32_t i = 0; i < plan.rank; i++) shape[i] = x->shape[i];
  const C *source = from;
  for (int32_t n = 0; n < plan.passes; n++) {
    int32_t axis = plan.axis[n];
    Rows rows{1, shape[axis], 1};
    for (int32_t i = 0; i < plan.rank; i++)
      if (i != axis) (i < axis ? rows.outer : rows.inner) *= shape[i];
    C *target = n == plan.passes - 1 ? to : n % 2 ? second : first;
    pass(source, target, rows, axis);
    shape[axis] = plan.axes[axis].out;
    source = target;
  }
}

// Rounded to the nearest number of the type, at its limits where it lies beyond them.
template <class T, class C> HIPC_INLINE T saturated(C value) {
  if constexpr (TypeInfo<T>::is_float) {
    return (T)value;
  } else {
    double rounded = nearbyint((double)value), low = (double)lowest<T>(), high = (double)highest<T>();
    if (!(rounded > low)) return lowest<T>();
    return rounded >= high ? highest<T>() : (T)rounded;
  }
}

template <class T> struct Blend {
  using Type = Compute<T>;
};
template <> struct Blend<uint8_t> { using Type = float; };
template <> struct Blend<int8_t> { using Type = float; };
template <> struct Blend<uint16_t> { using Type = float; };
template <> struct Blend<int16_t> { using Type = float; };
template <> struct Blend<int32_t> { using Type = double; };
template <> struct Blend<uint32_t> { using Type = double; };
template <> struct Blend<int64_t> { using Type = double; };
template <> struct Blend<uint64_t> { using Type = double; };

// Scratch: taps of the longest axis table, then two intermediate buffers.
struct Layout {
  ScratchPlan scratch;
  int64_t source[HIPC_MAX_RANK], weight[HIPC_MAX_RANK], outside[HIPC_MAX_RANK], count[HIPC_MAX_RANK];

  Layout(const Options &options, const Plan &plan) {
    for (int32_t n = 0; n < plan.passes; n++) {
      int32_t axis = plan.axis[n];
      int64_t out = plan.axes[axis].out;
      count[axis] = taps_of(options, plan.axes[axis]);
      source[axis] = scratch.add(out * count[axis] * 8);
      weight[axis] = scratch.add(out * count[axis] * 8);
      outside[axis] = scratch.add(out);
    }
  }
  template <class C> Taps<C> taps(char *memory, int32_t axis) const {
    return {count[axis], (int64_t *)(memory + source[axis]), (C *)(memory + weight[axis]),
            (bool *)(memory + outside[axis])};
  }
};

template <class T>
int32_t resize_nearest(hipc_context *context, const Options &options, const Plan &plan, const hipc_tensor *x,
                       hipc_tensor *y, T extrapolation) {
  Layout layout(options, plan);
  int64_t buffers[2];
  for (int64_t &buffer : buffers) buffer = layout.scratch.add(plan.passes > 1 ? plan.largest * (int64_t)sizeof(T) : 0);
  char *memory = (char *)hipc_scratch(context, max(layout.scratch.bytes, (int64_t)64));
  if (!memory) return out_of_memory(context, "resize");
  run_passes<T>(plan, x, data<T>(x), data<T>(y), (T *)(memory + buffers[0]), (T *)(memory + buffers[1]),
                [&](const T *from, T *to, Rows rows, int32_t axis) {
                  Taps<float> taps = layout.taps<float>(memory, axis);
                  fill_all(options, plan.axes[axis], taps);
                  move_pass(context, from, to, rows, plan.axes[axis].out, taps, extrapolation);
                });
  return HIPC_OK;
}

template <class T>
int32_t resize_blend(hipc_context *context, const Options &options, const Plan &plan, const hipc_tensor *x,
                     hipc_tensor *y) {
  using C = typename Blend<T>::Type;
  constexpr bool direct = __is_same(T, C);
  Layout layout(options, plan);
  int64_t buffers[2], wide_in = 0, wide_out = 0, count_in = elements(x), count_out = elements(y);
  for (int64_t &buffer : buffers) buffer = layout.scratch.add(plan.passes > 1 ? plan.largest * (int64_t)sizeof(C) : 0);
  if (!direct) wide_in = layout.scratch.add(count_in * (int64_t)sizeof(C));
  if (!direct) wide_out = layout.scratch.add(count_out * (int64_t)sizeof(C));
  char *memory = (char *)hipc_scratch(context, layout.scratch.bytes);
  if (!memory) return out_of_memory(context, "resize");
  const C *from = direct ? (const C *)x->data : (const C *)(memory + wide_in);
  C *to = direct ? (C *)y->data : (C *)(memory + wide_out);
  if constexpr (!direct) {
    const T *narrow = data<T>(x);
    C *wide = (C *)(memory + wide_in);
    for (int64_t i = 0; i < count_in; i++) wide[i] = (C)widen(narrow[i]);
  }
  run_passes<C>(plan, x, from, to, (C *)(memory + buffers[0]), (C *)(memory + buffers[1]),
                [&](const C *source, C *target, Rows rows, int32_t axis) {
                  Taps<C> taps = layout.template taps<C>(memory, axis);
                  fill_all(options, plan.axes[axis], taps);
                  blend_pass(context, source, target, rows, plan.axes[axis].out, taps, (C)options.extrapolation);
                });
  if constexpr (!direct) {
    T *narrow = data<T>(y);
    parallel_for(context, count_out, 4, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) narrow[i] = saturated<T>(to[i]);
    });
  }
  return HIPC_OK;
}

// Nearest moves elements by size; only the extrapolation value needs their type.
int32_t dispatch_nearest(hipc_context *context, const Options &options, const Plan &plan, const hipc_tensor *x,
                         hipc_tensor *y, int32_t dtype) {
  if (options.coordinate != TF_CROP_AND_RESIZE)
    return dispatch_bytes(context, "resize", dtype,
                          [&]<class T>() { return resize_nearest<T>(context, options, plan, x, y, T{}); });
  return dispatch_number(context, "resize", dtype, [&]<class T>() {
    return resize_nearest<T>(context, options, plan, x, y, saturated<T>((typename Blend<T>::Type)options.extrapolation));
  });
}

} // namespace

HIPC_EXPORT int32_t hipc_resize(hipc_context *context, const hipc_tensor *x, const hipc_tensor *scales,
                                const hipc_tensor *roi, hipc_tensor *y, int64_t mode, int64_t coordinate,
                                int64_t nearest, double cubic_coeff_a, int64_t exclude_outside,
                                double extrapolation_value, int64_t antialias, int64_t is_unsigned) {
  HIPC_TRY(check_contiguous(context, "resize", x, scales, roi, y));
  Options options{mode, coordinate, nearest, cubic_coeff_a, extrapolation_value, exclude_outside != 0, antialias != 0};
  Axis axes[HIPC_MAX_RANK];
  HIPC_TRY(check_resize(context, options, x, scales, roi, y));
  HIPC_TRY(read_axes(context, options, x, scales ? data<float>(scales) : nullptr, roi ? data<float>(roi) : nullptr, y, axes));
  if (elements(y) == 0) return HIPC_OK;
  Plan plan = plan_passes(options, x, axes);
  int32_t dtype = signed_as(x->dtype, is_unsigned);
  if (plan.passes == 0) {
    if (element_size(dtype) == 0) return unsupported_dtype(context, "resize", dtype);
    memcpy(y->data, x->data, (size_t)(elements(x) * element_size(dtype)));
    return HIPC_OK;
  }
  if (mode == RESIZE_NEAREST) return dispatch_nearest(context, options, plan, x, y, dtype);
  return dispatch_number(context, "resize", dtype,
                         [&]<class T>() { return resize_blend<T>(context, options, plan, x, y); });
}

HIPC_EXPORT int32_t hipc_resize_extents(hipc_context *context, const hipc_tensor *x, const hipc_tensor *scales,
                                        hipc_tensor *y) {
  const char *op = "resize_extents";
  HIPC_TRY(check_contiguous(context, op, scales, y));
  if (scales->dtype != F32 || y->dtype != I64 || elements(scales) != x->rank || elements(y) != x->rank)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s needs one float scale for each of the %d axes", op, x->rank);
  for (int32_t i = 0; i < x->rank; i++) {
    double extent = floor((double)x->shape[i] * (double)data<float>(scales)[i]);
    if (!(extent >= 0 && extent < 0x1p53))
      return hipc_error(context, HIPC_ERROR_VALUE, "%s: the scale of axis %d makes no extent", op, i);
    data<int64_t>(y)[i] = (int64_t)extent;
  }
  return HIPC_OK;
}
