// What operator files share beyond hipc_host.h: rows along an axis, index checks, scratch layout, vectorisable exp.
#pragma once
#include "hipc_host.h"

namespace hipc {

// ---- guards -----------------------------------------------------------------------------------------------------
// Ends the operator with a status other than HIPC_OK.
#define HIPC_TRY(EXPRESSION)                                                                                            \
  do {                                                                                                                  \
    int32_t hipc_try_status = (EXPRESSION);                                                                             \
    if (hipc_try_status != HIPC_OK) return hipc_try_status;                                                             \
  } while (0)

template <class... Tensors> int32_t check_contiguous(hipc_context *context, const char *op, const Tensors *...tensors) {
  if ((... && (!tensors || is_contiguous(tensors)))) return HIPC_OK;
  return hipc_error(context, HIPC_ERROR_UNSUPPORTED, "%s needs operands without gaps", op);
}

inline int32_t check_same_shape(hipc_context *context, const char *op, const hipc_tensor *x, const hipc_tensor *y) {
  if (same_shape(x, y)) return HIPC_OK;
  return hipc_error(context, HIPC_ERROR_SHAPE, "%s: shapes of input and output differ", op);
}

inline int32_t check_axis(hipc_context *context, const char *op, int64_t axis, int64_t rank, int64_t *normal) {
  // A scalar is one row of one element.
  *normal = normal_axis(axis, rank ? rank : 1);
  if (*normal >= 0) return HIPC_OK;
  return hipc_error(context, HIPC_ERROR_VALUE, "%s: axis %lld is outside a tensor of rank %lld", op, (long long)axis,
                    (long long)rank);
}

inline int32_t out_of_memory(hipc_context *context, const char *op) {
  return hipc_error(context, HIPC_ERROR_MEMORY, "%s: no memory for its scratch block", op);
}

// ---- rows -------------------------------------------------------------------------------------------------------
// A tensor as [outer][length][inner] around one axis.
struct Rows {
  int64_t outer, length, inner;
};

inline Rows rows_of(const hipc_tensor *tensor, int64_t axis) {
  if (tensor->rank == 0) return {1, 1, 1};
  return {extent(tensor, 0, (int32_t)axis), tensor->shape[axis], extent(tensor, (int32_t)axis + 1, tensor->rank)};
}

// ---- element types ----------------------------------------------------------------------------------------------
// IR integers have no sign: an attribute of the operator says how to read them. A bool orders like a byte.
inline int32_t signed_as(int32_t dtype, int64_t is_unsigned) {
  if (dtype == BOOL) return U8;
  if (!is_unsigned) return dtype;
  switch (dtype) {
  case I8: return U8;
  case I16: return U16;
  case I32: return U32;
  case I64: return U64;
  default: return dtype;
  }
}

template <class Body> int32_t dispatch_index(hipc_context *context, const char *op, int32_t dtype, Body &&body) {
  if (dtype == I64) return body.template operator()<int64_t>();
  if (dtype == I32) return body.template operator()<int32_t>();
  return hipc_error(context, HIPC_ERROR_UNSUPPORTED, "%s needs int32 or int64 indices, not %s", op, dtype_name(dtype));
}

// An axis that is an operand.
inline int32_t axis_from(hipc_context *context, const char *op, const hipc_tensor *at, int64_t *axis) {
  if (elements(at) != 1) return hipc_error(context, HIPC_ERROR_SHAPE, "%s: the axis is not one number", op);
  return dispatch_index(context, op, at->dtype, [&]<class I>() {
    *axis = (int64_t)*data<I>(at);
    return HIPC_OK;
  });
}

// The element as the type that arithmetic uses.
template <class T> HIPC_INLINE Compute<T> widen(T value) { return (Compute<T>)value; }

// ---- indices ----------------------------------------------------------------------------------------------------
inline int32_t index_error(hipc_context *context, const char *op, int64_t value, int64_t axis, int64_t extent) {
  return hipc_error(context, HIPC_ERROR_INDEX, "%s: index %lld is outside axis %lld of extent %lld", op,
                    (long long)value, (long long)axis, (long long)extent);
}

// Every index lies in [-extent, extent).
template <class I>
int32_t check_indices(hipc_context *context, const char *op, const I *indices, int64_t count, int64_t axis,
                      int64_t extent) {
  bool bad = false;
  for (int64_t i = 0; i < count; i++) bad |= (int64_t)indices[i] < -extent || (int64_t)indices[i] >= extent;
  if (!bad) return HIPC_OK;
  int64_t i = 0;
  while ((int64_t)indices[i] >= -extent && (int64_t)indices[i] < extent) i++;
  return index_error(context, op, (int64_t)indices[i], axis, extent);
}

template <class I> HIPC_INLINE int64_t from_front(I index, int64_t extent) {
  return (int64_t)index + (index < 0 ? extent : 0);
}

// ---- scratch ----------------------------------------------------------------------------------------------------
// Offsets of the parts of an operator's scratch block; add every part, allocate once, then take pointers.
struct ScratchPlan {
  int64_t bytes = 0;
  int64_t add(int64_t part) {
    int64_t offset = bytes;
    bytes += round_up(part, 64);
    return offset;
  }
};

// ---- exp --------------------------------------------------------------------------------------------------------
// e^x to about 1 ulp, subnormal results included; compiles to straight vector code. exp(-inf) is 0, exp(NaN) is NaN.
// Cody-Waite reduction, minimax polynomial of degree 6 fitted for the relative error, scaling in two steps.
HIPC_INLINE float exp_f32(float x) {
  // Comparisons are written so that a NaN is kept.
  float clamped = x < -104.0f ? -104.0f : x;
  clamped = clamped > 89.0f ? 89.0f : clamped;
  // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits, for a NaN without undefined conversion.
  float shifted = clamped * 1.44269504f + 12582912.0f;
  float n = shifted - 12582912.0f;
  float f = clamped - n * 0.693359375f;
  f = f - n * -2.12194440e-4f;
  float p = 0.0013809196f;
  p = p * f + 0.0083688814f;
  p = p * f + 0.0416684825f;
  p = p * f + 0.1666651909f;
  p = p * f + 0.4999999313f;
  p = p * (f * f) + f;
  p = p + 1.0f;
  int32_t exponent = (int32_t)(bit_cast<uint32_t>(shifted) - 0x4b400000u);
  int32_t half = exponent >> 1;
  float first = bit_cast<float>((uint32_t)(half + 127) << 23);
  float second = bit_cast<float>((uint32_t)(exponent - half + 127) << 23);
  return p * first * second;
}

HIPC_INLINE float exp_of(float x) { return exp_f32(x); }
HIPC_INLINE double exp_of(double x) { return ::exp(x); }
HIPC_INLINE float log_of(float x) { return ::logf(x); }
HIPC_INLINE double log_of(double x) { return ::log(x); }
HIPC_INLINE float sqrt_of(float x) { return __builtin_sqrtf(x); }
HIPC_INLINE double sqrt_of(double x) { return __builtin_sqrt(x); }

// Greatest element; NaNs are passed over, and -inf is the answer for none.
HIPC_INLINE float greatest(const float *x, int64_t count) {
  typedef float Lanes __attribute__((ext_vector_type(16)));
  typedef float Unaligned __attribute__((ext_vector_type(16), aligned(4)));
  Lanes best0 = -__builtin_inff(), best1 = best0;
  int64_t i = 0;
  for (; i + 32 <= count; i += 32) {
    Lanes a = *(const Unaligned *)(x + i), b = *(const Unaligned *)(x + i + 16);
    best0 = a > best0 ? a : best0;
    best1 = b > best1 ? b : best1;
  }
  best0 = best1 > best0 ? best1 : best0;
  float best = -__builtin_inff();
  for (int lane = 0; lane < 16; lane++) best = best0[lane] > best ? best0[lane] : best;
  for (; i < count; i++) best = x[i] > best ? x[i] : best;
  return best;
}
HIPC_INLINE double greatest(const double *x, int64_t count) {
  double best = -__builtin_inf();
  for (int64_t i = 0; i < count; i++) best = x[i] > best ? x[i] : best;
  return best;
}

} // namespace hipc
