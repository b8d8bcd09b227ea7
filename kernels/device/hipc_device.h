// What device kernels share: one source for AMD GPUs (HIP without ROCm's headers) and NVIDIA's (CUDA without its own).
// Freestanding: compiler builtins alone. The width of a wave is a property of the architecture, never assumed.
#pragma once

typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
typedef _Float16 f16;
typedef __bf16 bf16;
typedef float f32;
typedef double f64;

#if defined(__AMDGCN__)
#define HIPC_AMD 1
#define HIPC_BLOCK_SIZE(N) __attribute__((amdgpu_flat_work_group_size(1, N)))
#define HIPC_BLOCKS(N, BLOCKS) HIPC_BLOCK_SIZE(N)
#elif defined(__NVPTX__)
#define HIPC_NVIDIA 1
#define HIPC_BLOCK_SIZE(N) __attribute__((launch_bounds(N)))
#define HIPC_BLOCKS(N, BLOCKS) __attribute__((launch_bounds(N, BLOCKS)))
#else
#error "device kernels are compiled for devices only"
#endif

// A kernel that the runtime finds by name, launched in blocks of at most THREADS.
#define KERNEL(THREADS) extern "C" __attribute__((global)) HIPC_BLOCK_SIZE(THREADS) void
// The same, with registers for so many blocks a compute unit at a time; LLVM counts them itself for AMD's.
#define KERNEL_OF_BLOCKS(THREADS, BLOCKS) extern "C" __attribute__((global)) HIPC_BLOCKS(THREADS, BLOCKS) void
// A function of a kernel.
#define DEVICE static inline __attribute__((device, always_inline))
// Memory that the threads of a block share; its size is known when it is compiled.
#define SHARED static __attribute__((shared, device, aligned(16)))
#define UNROLL _Pragma("unroll")

namespace hipc {

// ---- where a thread is ------------------------------------------------------------------------------------------
#if defined(HIPC_AMD)
#if defined(__GFX9__)
constexpr u32 WAVE = 64;
#else
constexpr u32 WAVE = 32;
#endif
DEVICE u32 thread() { return __builtin_amdgcn_workitem_id_x(); }
DEVICE u32 block() { return __builtin_amdgcn_workgroup_id_x(); }
DEVICE u32 block_y() { return __builtin_amdgcn_workgroup_id_y(); }
DEVICE u32 block_z() { return __builtin_amdgcn_workgroup_id_z(); }
DEVICE u32 threads() { return __builtin_amdgcn_workgroup_size_x(); }
DEVICE u32 blocks() { return __builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x(); }
DEVICE u32 blocks_y() { return __builtin_amdgcn_grid_size_y() / __builtin_amdgcn_workgroup_size_y(); }
DEVICE u32 lane() { return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u)); }
DEVICE void barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
#else
constexpr u32 WAVE = 32;
DEVICE u32 thread() { return __nvvm_read_ptx_sreg_tid_x(); }
DEVICE u32 block() { return __nvvm_read_ptx_sreg_ctaid_x(); }
DEVICE u32 block_y() { return __nvvm_read_ptx_sreg_ctaid_y(); }
DEVICE u32 block_z() { return __nvvm_read_ptx_sreg_ctaid_z(); }
DEVICE u32 threads() { return __nvvm_read_ptx_sreg_ntid_x(); }
DEVICE u32 blocks() { return __nvvm_read_ptx_sreg_nctaid_x(); }
DEVICE u32 blocks_y() { return __nvvm_read_ptx_sreg_nctaid_y(); }
DEVICE u32 lane() { return __nvvm_read_ptx_sreg_laneid(); }
DEVICE void barrier() { __syncthreads(); }
#endif
// The compiler moves nothing across: it would load early what registers then have to hold.
DEVICE void keep_order() {
#if defined(HIPC_AMD)
  asm volatile("" : : : "memory");
  __builtin_amdgcn_sched_barrier(0);
#endif
}
// What this thread wrote is seen by every thread of the device that learns of it afterwards, and the reverse.
#if defined(HIPC_AMD)
DEVICE void release_device() { __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent"); }
DEVICE void acquire_device() { __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent"); }
#else
DEVICE void release_device() { __nvvm_membar_gl(); }
DEVICE void acquire_device() { __nvvm_membar_gl(); }
#endif
// Adds to a number that blocks share; returns what it was. Orders nothing else.
DEVICE u32 add_device(u32 *number, u32 value) {
  return __scoped_atomic_fetch_add(number, value, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
}
DEVICE u32 wave() { return thread() / WAVE; }
DEVICE u32 waves() { return (threads() + WAVE - 1) / WAVE; }
// This thread among all of the launch, and how many there are: for loops with the stride of the grid.
DEVICE i64 global_thread() { return (i64)block() * threads() + thread(); }
DEVICE i64 global_threads() { return (i64)blocks() * threads(); }

// ---- numbers ----------------------------------------------------------------------------------------------------
template <class T> DEVICE T min(T a, T b) { return b < a ? b : a; }
template <class T> DEVICE T max(T a, T b) { return a < b ? b : a; }
template <class T> DEVICE T ceil_div(T a, T b) { return (a + b - 1) / b; }
// a / b of numbers that are not negative, such as positions. Few have more than 32 bits: digit by digit, those take little
// code, of which kernels have enough.
DEVICE i64 quotient(i64 a, i64 b) {
  if (((u64)a | (u64)b) >> 32 == 0) return (i64)((u32)a / (u32)b);
  u64 found = 0, rest = 0;
  _Pragma("nounroll") for (i32 bit = 63; bit >= 0; bit--) {
    rest = rest << 1 | ((u64)a >> bit & 1);
    found <<= 1;
    if (rest >= (u64)b) rest -= (u64)b, found |= 1;
  }
  return (i64)found;
}
// The greater one; the other where one is NaN. In one instruction.
DEVICE f32 greater(f32 a, f32 b) {
#if defined(HIPC_AMD)
  return __builtin_amdgcn_fmed3f(a, b, __builtin_inff());
#else
  return __nvvm_fmax_f(a, b);
#endif
}
template <class To, class From> DEVICE To bit_cast(From from) { return __builtin_bit_cast(To, from); }

template <class A, class B> struct same { static constexpr bool value = false; };
template <class A> struct same<A, A> { static constexpr bool value = true; };
template <bool C, class A, class B> struct choose { using type = A; };
template <class A, class B> struct choose<false, A, B> { using type = B; };
template <class T> constexpr bool is_half = same<T, f16>::value || same<T, bf16>::value;
template <class T> constexpr bool is_float = is_half<T> || same<T, f32>::value || same<T, f64>::value;
// The type that arithmetic on an element uses.
template <class T> using Compute = typename choose<is_half<T>, f32, T>::type;
template <class T> DEVICE Compute<T> widen(T value) { return (Compute<T>)value; }
// A float as an element. bfloat16 rounds to nearest even here as everywhere.
template <class T, class C> DEVICE T narrow(C value) {
  if constexpr (same<T, bf16>::value) {
    u32 bits = bit_cast<u32>((f32)value), rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return bit_cast<bf16>((u16)(__builtin_isnan((f32)value) ? 0x7fc0u : rounded));
  } else {
    return (T)value;
  }
}
// Two elements side by side, the first in the lower half.
template <class T> DEVICE u32 narrow_two(f32 first, f32 second) {
#if defined(HIPC_NVIDIA)
  u32 both;
  if constexpr (same<T, f16>::value) asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
  else asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
  return both;
#else
  return bit_cast<u16>(narrow<T>(first)) | (u32)bit_cast<u16>(narrow<T>(second)) << 16;
#endif
}
DEVICE f32 bf16_bits_to_float(u32 bits) { return bit_cast<f32>(bits << 16); }

template <class T> DEVICE T lowest() {
  if constexpr (is_float<T>) return (T)-__builtin_inff();
  else if constexpr ((T)-1 < (T)0) return (T)((u64)1 << (8 * sizeof(T) - 1));
  else return (T)0;
}
template <class T> DEVICE T highest() {
  if constexpr (is_float<T>) return (T)__builtin_inff();
  else if constexpr ((T)-1 < (T)0) return (T)(((u64)1 << (8 * sizeof(T) - 1)) - 1);
  else return (T)-1;
}

// ---- vectors in memory ------------------------------------------------------------------------------------------
// COUNT elements that are loaded and stored at once; aligned to its size, at most 16 bytes.
template <class T, int COUNT> struct alignas(sizeof(T) * COUNT > 16 ? 16 : sizeof(T) * COUNT) Vector {
  T at[COUNT];
  __attribute__((device, always_inline)) T &operator[](int i) { return at[i]; }
  __attribute__((device, always_inline)) const T &operator[](int i) const { return at[i]; }
};
// Elements of 16 bytes.
template <class T> constexpr int LANE_VECTOR = 16 / sizeof(T);
typedef u32 u32x4 __attribute__((ext_vector_type(4)));
typedef u32 u32x2 __attribute__((ext_vector_type(2)));

template <class T, int COUNT> DEVICE Vector<T, COUNT> load(const T *from) {
  constexpr int bytes = sizeof(T) * COUNT;
  if constexpr (bytes == 16) return bit_cast<Vector<T, COUNT>>(*(const u32x4 *)from);
  else if constexpr (bytes == 8) return bit_cast<Vector<T, COUNT>>(*(const u32x2 *)from);
  else if constexpr (bytes == 4) return bit_cast<Vector<T, COUNT>>(*(const u32 *)from);
  else return *(const Vector<T, COUNT> *)from;
}
// For what is read once and should not push anything out of the caches.
template <class T, int COUNT> DEVICE Vector<T, COUNT> load_once(const T *from) {
  constexpr int bytes = sizeof(T) * COUNT;
  if constexpr (bytes == 16) return bit_cast<Vector<T, COUNT>>(__builtin_nontemporal_load((const u32x4 *)from));
  else if constexpr (bytes == 8) return bit_cast<Vector<T, COUNT>>(__builtin_nontemporal_load((const u32x2 *)from));
  else if constexpr (bytes == 4) return bit_cast<Vector<T, COUNT>>(__builtin_nontemporal_load((const u32 *)from));
  else return load<T, COUNT>(from);
}
template <class T, int COUNT> DEVICE void store(T *to, Vector<T, COUNT> value) {
  constexpr int bytes = sizeof(T) * COUNT;
  if constexpr (bytes == 16) *(u32x4 *)to = bit_cast<u32x4>(value);
  else if constexpr (bytes == 8) *(u32x2 *)to = bit_cast<u32x2>(value);
  else if constexpr (bytes == 4) *(u32 *)to = bit_cast<u32>(value);
  else *(Vector<T, COUNT> *)to = value;
}
#if defined(HIPC_NVIDIA)
typedef __attribute__((address_space(3))) const void *LdsPointer;

// 16 bytes on their way into LDS, zeros unless `whole`; wait_copies waits for all of this thread's.
DEVICE void copy_to_lds(void *to, const void *from, bool whole) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               : : "r"((u32)(u64)(LdsPointer)to), "l"(from), "r"(whole ? 16 : 0) : "memory");
}
DEVICE void wait_copies() { asm volatile("cp.async.wait_all;" : : : "memory"); }
#endif
DEVICE bool is_aligned(const void *pointer, u32 bytes) { return ((u64)pointer & (bytes - 1)) == 0; }

// ---- exchange between lanes -------------------------------------------------------------------------------------
// The value of the lane whose number differs in the bits of MASK.
template <u32 MASK> DEVICE u32 exchange_bits(u32 value) {
#if defined(HIPC_AMD)
  // Quads move in the vector unit; within 32 lanes the LDS hardware has a fixed exchange.
  if constexpr (MASK == 1) return (u32)__builtin_amdgcn_update_dpp(0, (i32)value, 0xB1, 0xf, 0xf, true);
  else if constexpr (MASK == 2) return (u32)__builtin_amdgcn_update_dpp(0, (i32)value, 0x4E, 0xf, 0xf, true);
  else if constexpr (MASK < 32) return (u32)__builtin_amdgcn_ds_swizzle((i32)value, (MASK << 10) | 0x1f);
  else return (u32)__builtin_amdgcn_ds_bpermute((i32)((lane() ^ MASK) << 2), (i32)value);
#else
  return (u32)__nvvm_shfl_sync_bfly_i32(~0u, (i32)value, MASK, 0x1f);
#endif
}
template <u32 MASK, class T> DEVICE T exchange(T value) {
  if constexpr (sizeof(T) == 8) {
    u64 bits = bit_cast<u64>(value);
    u64 low = exchange_bits<MASK>((u32)bits), high = exchange_bits<MASK>((u32)(bits >> 32));
    return bit_cast<T>(low | (high << 32));
  } else if constexpr (sizeof(T) == 4) {
    return bit_cast<T>(exchange_bits<MASK>(bit_cast<u32>(value)));
  } else {
    return (T)exchange_bits<MASK>((u32)value);
  }
}
// Whether it is so on a lane of the wave at least; all of them must be active.
DEVICE bool any_lane(bool value) {
#if !defined(HIPC_AMD)
  return __nvvm_vote_any_sync(~0u, value);
#else
  if constexpr (WAVE == 64) return __builtin_amdgcn_ballot_w64(value) != 0;
  else return __builtin_amdgcn_ballot_w32(value) != 0;
#endif
}
// The value of lane `source`.
DEVICE u32 from_lane(u32 value, u32 source) {
#if defined(HIPC_AMD)
  return (u32)__builtin_amdgcn_ds_bpermute((i32)(source << 2), (i32)value);
#else
  return (u32)__nvvm_shfl_sync_idx_i32(~0u, (i32)value, source, 0x1f);
#endif
}
DEVICE f32 from_lane(f32 value, u32 source) { return bit_cast<f32>(from_lane(bit_cast<u32>(value), source)); }

// Combines the values of groups of WIDTH neighbouring lanes; every lane gets the result. All lanes must be active.
template <u32 WIDTH = WAVE, class T, class Combine> DEVICE T combine_lanes(T value, Combine combine) {
  if constexpr (WIDTH >= 2) value = combine(value, exchange<1>(value));
  if constexpr (WIDTH >= 4) value = combine(value, exchange<2>(value));
  if constexpr (WIDTH >= 8) value = combine(value, exchange<4>(value));
  if constexpr (WIDTH >= 16) value = combine(value, exchange<8>(value));
  if constexpr (WIDTH >= 32) value = combine(value, exchange<16>(value));
  if constexpr (WIDTH >= 64) value = combine(value, exchange<32>(value));
  return value;
}
template <u32 WIDTH = WAVE, class T> DEVICE T sum_lanes(T value) {
  return combine_lanes<WIDTH>(value, [](T a, T b) { return a + b; });
}
template <u32 WIDTH = WAVE, class T> DEVICE T max_lanes(T value) {
  return combine_lanes<WIDTH>(value, [](T a, T b) { return a > b ? a : b; });
}

// Combines the values of a block of at most 1024 threads, a whole number of waves; every thread gets the result.
// `shared` holds one value per wave and is free again when this returns.
template <class T, class Combine> DEVICE T combine_block(T value, T *shared, T neutral, Combine combine) {
  value = combine_lanes<WAVE>(value, combine);
  if (threads() <= WAVE) return value;
  if (lane() == 0) shared[wave()] = value;
  barrier();
  // Every wave combines what the waves left, so that no second exchange is needed.
  value = lane() < waves() ? shared[lane()] : neutral;
  value = combine_lanes<WAVE>(value, combine);
  barrier();
  return value;
}
template <class T> DEVICE T sum_block(T value, T *shared) {
  return combine_block(value, shared, (T)0, [](T a, T b) { return a + b; });
}
template <class T> DEVICE T max_block(T value, T *shared) {
  return combine_block(value, shared, lowest<T>(), [](T a, T b) { return a > b ? a : b; });
}
constexpr int MOST_WAVES = 1024 / WAVE;

} // namespace hipc

#include "shared/space.h"

namespace hipc {

// ---- position in a tensor ---------------------------------------------------------------------------------------
// Offset of row-major position `at` under the strides.
DEVICE i64 offset_of(const Space &space, i64 at) {
  i64 offset = 0;
  for (i32 axis = space.rank - 1; axis >= 0; axis--) {
    i64 extent = space.shape[axis], outer = quotient(at, extent);
    offset += (at - outer * extent) * space.strides[axis];
    at = outer;
  }
  return offset;
}

} // namespace hipc

// Instances of a kernel template: body FUNCTION<T> under the names FAMILY_f32, FAMILY_f16, FAMILY_bf16.
#define HIPC_FLOATS(DEFINE) DEFINE(f32, f32) DEFINE(f16, f16) DEFINE(bf16, bf16)
#define HIPC_ALL_FLOATS(DEFINE) HIPC_FLOATS(DEFINE) DEFINE(f64, f64)
#define HIPC_INTEGERS(DEFINE)                                                                                          \
  DEFINE(i8, i8) DEFINE(u8, u8) DEFINE(i16, i16) DEFINE(u16, u16) DEFINE(i32, i32) DEFINE(u32, u32) DEFINE(i64, i64)   \
      DEFINE(u64, u64)
#define HIPC_NUMBERS(DEFINE) HIPC_ALL_FLOATS(DEFINE) HIPC_INTEGERS(DEFINE)
// By element size, for data movement.
struct alignas(16) bytes16 {
  u64 low, high;
};
#define HIPC_BYTES(DEFINE) DEFINE(b1, u8) DEFINE(b2, u16) DEFINE(b4, u32) DEFINE(b8, u64) DEFINE(b16, bytes16)
