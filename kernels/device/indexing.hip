// Elements by their numbers: gather_elements, gather_nd, scatter_elements, scatter_nd, tensor_scatter, one_hot,
// reverse_sequence. Numbers are
// int32 or int64; one outside its axis is reported, and touches nothing.
#include "hipc_device.h"

using namespace hipc;

namespace {

constexpr i32 FAULT_INDEX = 2;  // of kernels/runtime/gpu.h

DEVICE i64 number_at(const void *indices, i32 wide, i64 at) {
  return wide ? ((const i64 *)indices)[at] : (i64)((const i32 *)indices)[at];
}
// Counted from the front, or -1 with a report.
DEVICE i64 checked(i64 index, i64 extent, i32 *fault) {
  if (index < 0) index += extent;
  if (index >= 0 && index < extent) return index;
  *fault = FAULT_INDEX;
  return -1;
}

// `line` has the extents of indices and the strides of data, that of the axis being 0.
template <class T>
DEVICE void gather_elements(const T *data, const void *indices, T *y, Space line, i64 count, i64 extent, i64 step, i32 wide, i32 *fault) {
  for (i64 at = global_thread(); at < count; at += global_threads()) {
    i64 index = checked(number_at(indices, wide, at), extent, fault);
    if (index >= 0) y[at] = data[offset_of(line, at) + index * step];
  }
}

// Row-major number of a tuple of `depth` indices, or -1.
DEVICE i64 place_of(const void *indices, i32 wide, i64 tuple, const Space &axes, i32 *fault) {
  i64 place = 0;
  for (i32 k = 0; k < axes.rank; k++) {
    i64 index = checked(number_at(indices, wide, tuple * axes.rank + k), axes.shape[k], fault);
    if (index < 0) return -1;
    place = place * axes.shape[k] + index;
  }
  return place;
}

template <class T>
DEVICE void gather_nd(const T *data, const void *indices, T *y, Space axes, i64 tuples, i64 count, i64 inner, i64 block, i32 wide, i32 *fault) {
  for (i64 at = global_thread(); at < count; at += global_threads()) {
    i64 tuple = quotient(at, inner), place = place_of(indices, wide, tuple, axes, fault);
    if (place >= 0) y[at] = data[quotient(tuple, tuples) * block + place * inner + at - tuple * inner];
  }
}

enum Reduction : i32 { NONE, ADD, MUL, MAX, MIN };
template <class T> DEVICE T reduced(i32 kind, T old, T update) {
  Compute<T> a = widen(old), b = widen(update);
  if (kind == ADD) return narrow<T>(a + b);
  if (kind == MUL) return narrow<T>(a * b);
  if (kind == MAX) return a >= b || a != a ? old : update;
  if (kind == MIN) return a <= b || a != a ? old : update;
  return update;
}

// Updates of one line along the axis run in order on one thread: of repeated indices the last one wins, and sums round the
// same way every time.
template <class T>
DEVICE void scatter_elements(T *y, const void *indices, const T *updates, Space lines, Space own, i64 count, i64 length,
                             i64 extent, i64 step, i64 own_step, i32 wide, i32 kind, i32 *fault) {
  for (i64 at = global_thread(); at < count; at += global_threads()) {
    i64 first = offset_of(own, at), base = offset_of(lines, at);
    for (i64 i = 0; i < length; i++) {
      i64 index = checked(number_at(indices, wide, first + i * own_step), extent, fault);
      if (index < 0) continue;
      T *place = y + base + index * step;
      *place = reduced<T>(kind, *place, updates[first + i * own_step]);
    }
  }
}

// A thread for every element of a slice goes through all tuples, in order.
template <class T>
DEVICE void scatter_nd(T *y, const void *indices, const T *updates, Space axes, i64 tuples, i64 inner, i32 wide, i32 kind, i32 *fault) {
  for (i64 at = global_thread(); at < inner; at += global_threads()) {
    for (i64 tuple = 0; tuple < tuples; tuple++) {
      i64 index = place_of(indices, wide, tuple, axes, fault);
      if (index < 0) continue;
      T *place = y + index * inner + at;
      *place = reduced<T>(kind, *place, updates[tuple * inner + at]);
    }
  }
}

// Without a reduction the last tuple of a place owns it: found first, then written by its threads alone.
DEVICE void find_owners(i32 *owners, const void *indices, Space axes, i64 tuples, i32 wide, i32 *fault) {
  for (i64 tuple = global_thread(); tuple < tuples; tuple += global_threads()) {
    i64 place = place_of(indices, wide, tuple, axes, fault);
    if (place >= 0) __atomic_fetch_max(owners + place, (i32)tuple, __ATOMIC_RELAXED);
  }
}
template <class T>
DEVICE void scatter_nd_write(T *y, const i32 *owners, const void *indices, const T *updates, Space axes, i64 count, i64 inner, i32 wide, i32 *fault) {
  for (i64 at = global_thread(); at < count; at += global_threads()) {
    i64 tuple = quotient(at, inner), place = place_of(indices, wide, tuple, axes, fault);
    if (place >= 0 && owners[place] == (i32)tuple) y[place * inner + at - tuple * inner] = updates[at];
  }
}

// Position p of batch entry b receives update[b, p - positions[b]]; a circular one continues at the start of the axis.
template <class T>
DEVICE void tensor_scatter(T *y, const T *update, const i64 *positions, i64 total, i64 groups, i64 length, i64 count, i64 inner, i32 circular, i32 *fault) {
  for (i64 at = global_thread(); at < total; at += global_threads()) {
    i64 line = quotient(at, inner), row = quotient(line, count), c = at - line * inner, p = line - row * count;
    i64 first = positions ? positions[quotient(row, groups)] : 0, to = first + p;
    if (first < 0 || first >= length || (!circular && first + count > length)) {
      *fault = FAULT_INDEX;
      continue;
    }
    // Neither is beyond the axis, so that it is passed once at most.
    y[(row * length + (to < length ? to : to - length)) * inner + c] = update[at];
  }
}

// An index outside [-length, length) makes a line of off values, as ONNX defines it.
template <class T>
DEVICE void one_hot(const void *indices, const T *values, T *y, i64 total, i64 length, i64 inner, i32 wide) {
  for (i64 at = global_thread(); at < total; at += global_threads()) {
    i64 row = quotient(at, inner), outer = quotient(row, length), place = row - outer * length, line = outer * inner + at - row * inner;
    i64 index = number_at(indices, wide, line);
    y[at] = values[(index < 0 ? index + length : index) == place];
  }
}

// x is [first][second][inner]; one of the first two axes is time, whose begin is reversed up to a sequence's length.
template <class T>
DEVICE void reverse_sequence(const T *x, const i64 *lengths, T *y, i64 count, i64 first, i64 second, i64 inner, i32 time_first,
                             i32 *fault) {
  for (i64 at = global_thread(); at < count; at += global_threads()) {
    i64 row = quotient(at, inner), a = quotient(row, second), b = row - a * second, time = time_first ? a : b, sequence = time_first ? b : a;
    i64 length = lengths[sequence];
    if (length < 0 || length > (time_first ? first : second)) {
      *fault = FAULT_INDEX;
      continue;
    }
    if (time < length) time = length - 1 - time;
    y[at] = x[(time_first ? time * second + sequence : sequence * second + time) * inner + at - row * inner];
  }
}

} // namespace

#define DEFINE(WORD, T)                                                                                                \
  KERNEL(256) gather_elements_##WORD(const T *data, const void *indices, T *y, Space line, i64 count, i64 extent,      \
                                     i64 step, i32 wide, i32 *fault) {                                                 \
    gather_elements<T>(data, indices, y, line, count, extent, step, wide, fault);                                      \
  }                                                                                                                    \
  KERNEL(256) gather_nd_##WORD(const T *data, const void *indices, T *y, Space axes, i64 tuples, i64 count, i64 inner, \
                               i64 block, i32 wide, i32 *fault) {                                                      \
    gather_nd<T>(data, indices, y, axes, tuples, count, inner, block, wide, fault);                                    \
  }                                                                                                                    \
  KERNEL(256) scatter_nd_write_##WORD(T *y, const i32 *owners, const void *indices, const T *updates, Space axes,      \
                                      i64 count, i64 inner, i32 wide, i32 *fault) {                                    \
    scatter_nd_write<T>(y, owners, indices, updates, axes, count, inner, wide, fault);                                 \
  }                                                                                                                    \
  KERNEL(256) tensor_scatter_##WORD(T *y, const T *update, const i64 *positions, i64 total, i64 groups, i64 length,    \
                                    i64 count, i64 inner, i32 circular, i32 *fault) {                                  \
    tensor_scatter<T>(y, update, positions, total, groups, length, count, inner, circular, fault);                     \
  }                                                                                                                    \
  KERNEL(256) one_hot_##WORD(const void *indices, const T *values, T *y, i64 total, i64 length, i64 inner, i32 wide) { \
    one_hot<T>(indices, values, y, total, length, inner, wide);                                                        \
  }                                                                                                                    \
  KERNEL(256) reverse_sequence_##WORD(const T *x, const i64 *lengths, T *y, i64 count, i64 first, i64 second,          \
                                      i64 inner, i32 time_first, i32 *fault) {                                         \
    reverse_sequence<T>(x, lengths, y, count, first, second, inner, time_first, fault);                                \
  }
HIPC_BYTES(DEFINE)
#undef DEFINE

KERNEL(256) scatter_nd_owners(i32 *owners, const void *indices, Space axes, i64 tuples, i32 wide, i32 *fault) {
  find_owners(owners, indices, axes, tuples, wide, fault);
}

#define DEFINE(WORD, T)                                                                                                \
  KERNEL(256) scatter_elements_##WORD(T *y, const void *indices, const T *updates, Space lines, Space own, i64 count,  \
                                      i64 length, i64 extent, i64 step, i64 own_step, i32 wide, i32 kind, i32 *fault) { \
    scatter_elements<T>(y, indices, updates, lines, own, count, length, extent, step, own_step, wide, kind, fault);    \
  }                                                                                                                    \
  KERNEL(256) scatter_nd_##WORD(T *y, const void *indices, const T *updates, Space axes, i64 tuples, i64 inner,        \
                                i32 wide, i32 kind, i32 *fault) {                                                      \
    scatter_nd<T>(y, indices, updates, axes, tuples, inner, wide, kind, fault);                                        \
  }
HIPC_NUMBERS(DEFINE)
