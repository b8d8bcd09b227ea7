// hipc_pad, hipc_reverse_sequence, hipc_one_hot. Elements move by their size.
#include "hipc_ops.h"

using namespace hipc;

namespace {

enum PadMode : int64_t { CONSTANT, REFLECT, EDGE, WRAP };

// Position in [0, extent) that an output position reads, or -1 for the padding value.
HIPC_INLINE int64_t padded_source(int64_t position, int64_t extent, int64_t mode) {
  if (position >= 0 && position < extent) return position;
  switch (mode) {
  case EDGE:
    return position < 0 ? 0 : extent - 1;
  case WRAP: {
    int64_t rest = position % extent;
    return rest < 0 ? rest + extent : rest;
  }
  case REFLECT: {
    // Mirrored about the first and last element, as often as needed.
    if (extent == 1) return 0;
    int64_t period = 2 * (extent - 1), rest = position % period;
    if (rest < 0) rest += period;
    return rest < extent ? rest : period - rest;
  }
  default:
    return -1;
  }
}

struct PadPlan {
  int32_t rank;
  int64_t mode, begin[HIPC_MAX_RANK], extent[HIPC_MAX_RANK], stride[HIPC_MAX_RANK];
};

// One line of the output along the last axis.
template <class T> void pad_line(const PadPlan &plan, const T *base, T *to, int64_t width, T value) {
  int32_t last = plan.rank - 1;
  int64_t extent = plan.extent[last], begin = plan.begin[last];
  if (!base) {
    for (int64_t i = 0; i < width; i++) to[i] = value;
    return;
  }
  // Output positions [first, stop) read the line as it is.
  int64_t first = min(max(begin, (int64_t)0), width), stop = max(min(begin + extent, width), first);
  auto outside = [&](int64_t i) {
    int64_t source = padded_source(i - begin, extent, plan.mode);
    to[i] = source < 0 ? value : base[source];
  };
  for (int64_t i = 0; i < first; i++) outside(i);
  if (stop > first) memcpy(to + first, base + (first - begin), (size_t)(stop - first) * sizeof(T));
  for (int64_t i = stop; i < width; i++) outside(i);
}

} // namespace

HIPC_EXPORT int32_t hipc_pad(hipc_context *context, const hipc_tensor *x, const hipc_tensor *pads,
                             const hipc_tensor *value, hipc_tensor *y, int64_t mode) {
  HIPC_TRY(check_contiguous(context, "pad", x, pads, value, y));
  if (pads->dtype != I64) return unsupported_dtype(context, "pad", pads->dtype);
  if (y->rank != x->rank || elements(pads) != 2 * x->rank)
    return hipc_error(context, HIPC_ERROR_SHAPE, "pad needs two pads for each of the %d axes", x->rank);
  if (value && elements(value) != 1) return hipc_error(context, HIPC_ERROR_SHAPE, "pad: the value is not one element");
  PadPlan plan;
  plan.rank = x->rank;
  plan.mode = mode;
  int64_t stride = 1;
  for (int32_t i = x->rank - 1; i >= 0; i--) {
    const int64_t *amounts = data<int64_t>(pads);
    plan.begin[i] = amounts[i];
    plan.extent[i] = x->shape[i];
    plan.stride[i] = stride;
    stride *= x->shape[i];
    if (y->shape[i] != x->shape[i] + amounts[i] + amounts[i + x->rank])
      return hipc_error(context, HIPC_ERROR_SHAPE, "pad: output axis %d has extent %lld, input and pads make %lld", i,
                        (long long)y->shape[i], (long long)(x->shape[i] + amounts[i] + amounts[i + x->rank]));
    if (x->shape[i] == 0 && y->shape[i] != 0 && mode != CONSTANT)
      return hipc_error(context, HIPC_ERROR_VALUE, "pad: axis %d is empty and has nothing to repeat", i);
  }
  if (elements(y) == 0) return HIPC_OK;
  return dispatch_bytes(context, "pad", x->dtype, [&]<class T>() {
    T fill{};
    if (value) fill = *data<T>(value);
    const T *from = data<T>(x);
    T *to = data<T>(y);
    if (x->rank == 0) {
      *to = *from;
      return HIPC_OK;
    }
    int32_t last = x->rank - 1;
    int64_t width = y->shape[last];
    parallel_for(context, elements(y) / width, width, [=](int64_t begin, int64_t end) {
      Walk<1> walk(last, y->shape);
      walk.seek(begin);
      for (int64_t line = begin; line < end; line++, walk.next()) {
        int64_t offset = 0;
        bool inside = true;
        for (int32_t i = 0; i < last; i++) {
          int64_t source = padded_source(walk.index[i] - plan.begin[i], plan.extent[i], plan.mode);
          inside = inside && source >= 0;
          offset += source * plan.stride[i];
        }
        pad_line<T>(plan, inside ? from + offset : nullptr, to + line * width, width, fill);
      }
    });
    return HIPC_OK;
  });
}

HIPC_EXPORT int32_t hipc_reverse_sequence(hipc_context *context, const hipc_tensor *x, const hipc_tensor *lengths,
                                          hipc_tensor *y, int64_t batch_axis, int64_t time_axis) {
  const char *op = "reverse_sequence";
  HIPC_TRY(check_same_shape(context, op, x, y));
  HIPC_TRY(check_contiguous(context, op, x, lengths, y));
  if (x->rank < 2 || batch_axis + time_axis != 1 || batch_axis < 0 || time_axis < 0)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s: batch and time must be the first two axes", op);
  if (lengths->dtype != I64) return unsupported_dtype(context, op, lengths->dtype);
  int64_t batch = x->shape[batch_axis], time = x->shape[time_axis], inner = extent(x, 2, x->rank);
  if (elements(lengths) != batch)
    return hipc_error(context, HIPC_ERROR_SHAPE, "%s needs one length per sequence", op);
  const int64_t *length = data<int64_t>(lengths);
  for (int64_t b = 0; b < batch; b++)
    if (length[b] < 0 || length[b] > time)
      return hipc_error(context, HIPC_ERROR_VALUE, "%s: length %lld is outside [0, %lld]", op, (long long)length[b],
                        (long long)time);
  if (elements(x) == 0) return HIPC_OK;
  return dispatch_bytes(context, op, x->dtype, [&]<class T>() {
    const T *from = data<T>(x);
    T *to = data<T>(y);
    bool time_first = time_axis == 0;
    int64_t second = x->shape[1];
    parallel_for(context, batch * time, inner, [=](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; block++) {
        int64_t t = time_first ? block / second : block % second, b = time_first ? block % second : block / second;
        int64_t source = t < length[b] ? length[b] - 1 - t : t;
        int64_t origin = time_first ? source * second + b : b * second + source;
        memcpy(to + block * inner, from + origin * inner, (size_t)inner * sizeof(T));
      }
    });
    return HIPC_OK;
  });
}

// An index outside [-depth, depth) makes a line of off values, as ONNX defines it.
HIPC_EXPORT int32_t hipc_one_hot(hipc_context *context, const hipc_tensor *indices, const hipc_tensor *values,
                                 hipc_tensor *y, int64_t axis) {
  HIPC_TRY(check_contiguous(context, "one_hot", indices, values, y));
  HIPC_TRY(check_axis(context, "one_hot", axis, y->rank, &axis));
  Rows rows = rows_of(y, axis);
  if (elements(values) != 2 || elements(indices) != rows.outer * rows.inner || y->rank != indices->rank + 1)
    return hipc_error(context, HIPC_ERROR_SHAPE, "one_hot: the output does not have the extents of indices and depth");
  if (elements(y) == 0) return HIPC_OK;
  return dispatch_index(context, "one_hot", indices->dtype, [&]<class I>() {
    return dispatch_bytes(context, "one_hot", y->dtype, [&]<class T>() {
      const I *index = data<I>(indices);
      T off = data<T>(values)[0], on = data<T>(values)[1];
      T *to = data<T>(y);
      parallel_for(context, rows.outer, rows.length * rows.inner, [=](int64_t begin, int64_t end) {
        for (int64_t o = begin; o < end; o++) {
          T *block = to + o * rows.length * rows.inner;
          for (int64_t i = 0; i < rows.length * rows.inner; i++) block[i] = off;
          for (int64_t j = 0; j < rows.inner; j++) {
            int64_t place = from_front(index[o * rows.inner + j], rows.length);
            if (place >= 0 && place < rows.length) block[place * rows.inner + j] = on;
          }
        }
      });
      return HIPC_OK;
    });
  });
}
