// What host operator implementations share: element types, tensor queries, parallel loops. C++20, no C++ library symbols:
// the sources become bitcode that must link against libc, libm and pthread alone.
#pragma once
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "hipc.h"

// Definition of a function of the runtime ABI.
#define HIPC_EXPORT extern "C" __attribute__((visibility("default")))
#define HIPC_INLINE inline __attribute__((always_inline))

// Body of a chunk of a parallel loop; `thread` is in [0, hipc_num_threads), and no two chunks run on one thread at once.
typedef void (*hipc_chunk)(void *body, int64_t begin, int64_t end, int32_t thread);
// hipc_launch with the number of the thread, for per-thread scratch.
extern "C" void hipc_parallel(hipc_context *context, hipc_chunk chunk, void *body, int64_t iterations, int64_t cost);

namespace hipc {

// ---- element types ----------------------------------------------------------------------------------------------
// Values of onnx TensorProto.DataType.
enum DType : int32_t {
  F32 = 1,
  U8 = 2,
  I8 = 3,
  U16 = 4,
  I16 = 5,
  I32 = 6,
  I64 = 7,
  BOOL = 9,
  F16 = 10,
  F64 = 11,
  U32 = 12,
  U64 = 13,
  C64 = 14,
  C128 = 15,
  BF16 = 16,
};

template <class To, class From> HIPC_INLINE To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, from);
}

// IEEE binary16 storage. Conversions are done here where the CPU level has no instruction for them, because the
// compiler would otherwise call its own support library.
HIPC_INLINE float f16_to_f32(uint16_t bits) {
#if defined(__F16C__) || defined(__aarch64__)
  return (float)bit_cast<_Float16>(bits);
#else
  uint32_t sign = (uint32_t)(bits & 0x8000) << 16, magnitude = bits & 0x7fff;
  if (magnitude >= 0x7c00) return bit_cast<float>(sign | 0x7f800000 | (magnitude << 13));
  // Scaling by 2^112 rebias the exponent and normalises subnormals.
  return bit_cast<float>(sign | bit_cast<uint32_t>(bit_cast<float>(magnitude << 13) * 0x1p112f));
#endif
}

HIPC_INLINE uint16_t f32_to_f16(float value) {
  // Contraction would merge this rounding with one from double to float, into a call of the support library.
#pragma clang fp contract(off)
#if defined(__F16C__) || defined(__aarch64__)
  return bit_cast<uint16_t>((_Float16)value);
#else
  uint32_t bits = bit_cast<uint32_t>(value), sign = (bits >> 16) & 0x8000, magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return (uint16_t)(sign | 0x7e00 | ((magnitude >> 13) & 0x1ff));
  if (magnitude >= 0x477ff000) return (uint16_t)(sign | 0x7c00);
  // Below 2^-14 the addition of 0.5 leaves the subnormal's bits, rounded to nearest even, at the bottom.
  if (magnitude < 0x38800000) return (uint16_t)(sign | (bit_cast<uint32_t>(bit_cast<float>(magnitude) + 0.5f) - 0x3f000000));
  return (uint16_t)(sign | ((magnitude - 0x38000000 + 0xfff + ((magnitude >> 13) & 1)) >> 13));
#endif
}

HIPC_INLINE float bf16_to_f32(uint16_t bits) { return bit_cast<float>((uint32_t)bits << 16); }

HIPC_INLINE uint16_t f32_to_bf16(float value) {
  uint32_t bits = bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)((bits >> 16) | 0x40);
  return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// Storage of a half-precision number; it converts to and from float, where arithmetic happens.
struct f16 {
  uint16_t bits;
  f16() = default;
  HIPC_INLINE explicit f16(float value) : bits(f32_to_f16(value)) {}
  HIPC_INLINE operator float() const { return f16_to_f32(bits); }
};
struct bf16 {
  uint16_t bits;
  bf16() = default;
  HIPC_INLINE explicit bf16(float value) : bits(f32_to_bf16(value)) {}
  HIPC_INLINE operator float() const { return bf16_to_f32(bits); }
};

template <class T> struct TypeInfo;
// `Compute`: the type that arithmetic on it uses.
#define HIPC_TYPE(CPP, DTYPE, COMPUTE, IS_FLOAT)                                                                        \
  template <> struct TypeInfo<CPP> {                                                                                    \
    using Compute = COMPUTE;                                                                                            \
    static constexpr DType dtype = DTYPE;                                                                               \
    static constexpr bool is_float = IS_FLOAT;                                                                          \
  };
HIPC_TYPE(float, F32, float, true)
HIPC_TYPE(double, F64, double, true)
HIPC_TYPE(f16, F16, float, true)
HIPC_TYPE(bf16, BF16, float, true)
HIPC_TYPE(uint8_t, U8, uint8_t, false)
HIPC_TYPE(int8_t, I8, int8_t, false)
HIPC_TYPE(uint16_t, U16, uint16_t, false)
HIPC_TYPE(int16_t, I16, int16_t, false)
HIPC_TYPE(int32_t, I32, int32_t, false)
HIPC_TYPE(int64_t, I64, int64_t, false)
HIPC_TYPE(uint32_t, U32, uint32_t, false)
HIPC_TYPE(uint64_t, U64, uint64_t, false)
#undef HIPC_TYPE
template <class T> using Compute = typename TypeInfo<T>::Compute;

// Lowest and highest value of an element type; infinities for floating point.
template <class T> HIPC_INLINE T lowest() {
  if constexpr (TypeInfo<T>::is_float) return (T)-__builtin_inff();
  else if constexpr ((T)-1 < (T)0) return (T)((uint64_t)1 << (8 * sizeof(T) - 1));
  else return (T)0;
}
template <class T> HIPC_INLINE T highest() {
  if constexpr (TypeInfo<T>::is_float) return (T)__builtin_inff();
  else if constexpr ((T)-1 < (T)0) return (T)(((uint64_t)1 << (8 * sizeof(T) - 1)) - 1);
  else return (T)-1;
}

// Bytes of one element; 0 for a type that the host does not hold.
inline int64_t element_size(int32_t dtype) {
  switch (dtype) {
  case U8: case I8: case BOOL: case 17: case 18: case 19: case 20: case 21: case 22: case 23: case 24: case 25: case 26:
    return 1;
  case U16: case I16: case F16: case BF16:
    return 2;
  case F32: case I32: case U32:
    return 4;
  case F64: case I64: case U64: case C64:
    return 8;
  case C128:
    return 16;
  default:
    return 0;
  }
}

// Lower-case ONNX name of an element type, for messages.
inline const char *dtype_name(int32_t dtype) {
  static const char *const names[] = {
      "undefined", "float", "uint8", "int8", "uint16", "int16", "int32", "int64", "string", "bool", "float16", "double",
      "uint32", "uint64", "complex64", "complex128", "bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2",
      "float8e5m2fnuz", "uint4", "int4", "float4e2m1", "float8e8m0", "uint2", "int2"};
  return dtype >= 0 && dtype < (int32_t)(sizeof names / sizeof *names) ? names[dtype] : "unknown";
}

inline int32_t unsupported_dtype(hipc_context *context, const char *op, int32_t dtype) {
  return hipc_error(context, HIPC_ERROR_UNSUPPORTED, "%s does not support element type %s", op, dtype_name(dtype));
}

// Call `body.operator()<T>()`, which returns a status, with the C++ type of an element type:
//   return dispatch_float(context, "softmax", x->dtype, [&]<class T>() { ...; return HIPC_OK; });
#define HIPC_CASE(DTYPE, CPP)                                                                                           \
  case DTYPE:                                                                                                           \
    return body.template operator()<CPP>();

// float, float16, bfloat16, double.
template <class Body> int32_t dispatch_float(hipc_context *context, const char *op, int32_t dtype, Body &&body) {
  switch (dtype) {
    HIPC_CASE(F32, float) HIPC_CASE(F64, double) HIPC_CASE(F16, f16) HIPC_CASE(BF16, bf16)
  default:
    return unsupported_dtype(context, op, dtype);
  }
}

// Every integer type.
template <class Body> int32_t dispatch_int(hipc_context *context, const char *op, int32_t dtype, Body &&body) {
  switch (dtype) {
    HIPC_CASE(U8, uint8_t) HIPC_CASE(I8, int8_t) HIPC_CASE(U16, uint16_t) HIPC_CASE(I16, int16_t)
    HIPC_CASE(I32, int32_t) HIPC_CASE(I64, int64_t) HIPC_CASE(U32, uint32_t) HIPC_CASE(U64, uint64_t)
  default:
    return unsupported_dtype(context, op, dtype);
  }
}

// Every integer and floating-point type.
template <class Body> int32_t dispatch_number(hipc_context *context, const char *op, int32_t dtype, Body &&body) {
  switch (dtype) {
    HIPC_CASE(F32, float) HIPC_CASE(F64, double) HIPC_CASE(F16, f16) HIPC_CASE(BF16, bf16)
    HIPC_CASE(U8, uint8_t) HIPC_CASE(I8, int8_t) HIPC_CASE(U16, uint16_t) HIPC_CASE(I16, int16_t)
    HIPC_CASE(I32, int32_t) HIPC_CASE(I64, int64_t) HIPC_CASE(U32, uint32_t) HIPC_CASE(U64, uint64_t)
  default:
    return unsupported_dtype(context, op, dtype);
  }
}

// 16 bytes moved as one.
struct bytes16 {
  uint64_t low, high;
};

// By element size alone, for data movement; bool and every other type included.
template <class Body> int32_t dispatch_bytes(hipc_context *context, const char *op, int32_t dtype, Body &&body) {
  switch (element_size(dtype)) {
    HIPC_CASE(1, uint8_t) HIPC_CASE(2, uint16_t) HIPC_CASE(4, uint32_t) HIPC_CASE(8, uint64_t) HIPC_CASE(16, bytes16)
  default:
    return unsupported_dtype(context, op, dtype);
  }
}
#undef HIPC_CASE

// ---- numbers ----------------------------------------------------------------------------------------------------
template <class T> HIPC_INLINE T min(T a, T b) { return b < a ? b : a; }
template <class T> HIPC_INLINE T max(T a, T b) { return a < b ? b : a; }
// Quotient rounded towards positive infinity, of a divisor > 0.
HIPC_INLINE int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b > 0); }
HIPC_INLINE int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

// ---- tensors ----------------------------------------------------------------------------------------------------
template <class T> HIPC_INLINE T *data(const hipc_tensor *tensor) { return (T *)tensor->data; }

// Product of the extents of axes [begin, end).
inline int64_t extent(const hipc_tensor *tensor, int32_t begin, int32_t end) {
  int64_t product = 1;
  for (int32_t i = begin; i < end; i++) product *= tensor->shape[i];
  return product;
}
inline int64_t elements(const hipc_tensor *tensor) { return extent(tensor, 0, tensor->rank); }

inline bool same_shape(const hipc_tensor *a, const hipc_tensor *b) {
  if (a->rank != b->rank) return false;
  for (int32_t i = 0; i < a->rank; i++)
    if (a->shape[i] != b->shape[i]) return false;
  return true;
}

// Row-major without gaps; extents of 1 and empty tensors may have any strides.
inline bool is_contiguous(const hipc_tensor *tensor) {
  if (elements(tensor) == 0) return true;
  int64_t expected = 1;
  for (int32_t i = tensor->rank - 1; i >= 0; i--) {
    if (tensor->shape[i] != 1 && tensor->strides[i] != expected) return false;
    expected *= tensor->shape[i];
  }
  return true;
}

// Axis in [0, rank), or -1 when it is none.
inline int64_t normal_axis(int64_t axis, int64_t rank) {
  if (axis < 0) axis += rank;
  return axis >= 0 && axis < rank ? axis : -1;
}

// Row-major position in a space of `rank` extents, stepped in order, with the offsets of `Count` strided operands.
// A stride of 0 broadcasts.
template <int Count> struct Walk {
  int32_t rank;
  int64_t shape[HIPC_MAX_RANK], index[HIPC_MAX_RANK], strides[Count][HIPC_MAX_RANK], offsets[Count];

  Walk(int32_t rank, const int64_t *shape) : rank(rank), index{}, strides{}, offsets{} {
    for (int32_t i = 0; i < rank; i++) this->shape[i] = shape[i];
  }
  // Operand `which` has the tensor's extents, right-aligned with the space; extents of 1 broadcast.
  void broadcast(int which, int32_t operand_rank, const int64_t *operand_shape, const int64_t *operand_strides) {
    for (int32_t i = 0; i < operand_rank; i++) {
      int32_t axis = rank - operand_rank + i;
      strides[which][axis] = operand_shape[i] == 1 ? 0 : operand_strides[i];
    }
  }
  // To row-major position `position` of a space that is not empty.
  void seek(int64_t position) {
    for (int c = 0; c < Count; c++) offsets[c] = 0;
    for (int32_t i = rank - 1; i >= 0; i--) {
      index[i] = position % shape[i];
      position /= shape[i];
      for (int c = 0; c < Count; c++) offsets[c] += index[i] * strides[c][i];
    }
  }
  void next() {
    for (int32_t i = rank - 1; i >= 0; i--) {
      for (int c = 0; c < Count; c++) offsets[c] += strides[c][i];
      if (++index[i] < shape[i]) return;
      for (int c = 0; c < Count; c++) offsets[c] -= shape[i] * strides[c][i];
      index[i] = 0;
    }
  }
};

// ---- parallel loops ---------------------------------------------------------------------------------------------
// Calls body(begin, end) over chunks of [0, iterations) on the threads of the context and returns when all are done.
// `cost` estimates the scalar operations of one iteration. Inside another loop it runs on the calling thread.
// With several chunks per thread a body is called more than once on each: hoist no set-up into it.
template <class Body> HIPC_INLINE void parallel_for(hipc_context *context, int64_t iterations, int64_t cost, Body &&body) {
  using Plain = __remove_reference_t(Body);
  hipc_parallel(
      context, [](void *self, int64_t begin, int64_t end, int32_t) { (*(Plain *)self)(begin, end); }, (void *)&body,
      iterations, cost);
}
// The same with body(begin, end, thread): index per-thread parts of a scratch block with `thread`. Not inside another loop.
template <class Body>
HIPC_INLINE void parallel_for_threads(hipc_context *context, int64_t iterations, int64_t cost, Body &&body) {
  using Plain = __remove_reference_t(Body);
  hipc_parallel(
      context,
      [](void *self, int64_t begin, int64_t end, int32_t thread) { (*(Plain *)self)(begin, end, thread); },
      (void *)&body, iterations, cost);
}

} // namespace hipc
