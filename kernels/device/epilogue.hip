// What follows a product that the matrix library has stored: y = activation(y + bias) + residual.
#include "hipc_math.h"

using namespace hipc;

namespace {

template <class T> DEVICE void epilogue(T *y, i64 count, i64 n, Epilogue end) {
  for (i64 at = global_thread(); at < count; at += global_threads()) y[at] = finish<T>(end, widen(y[at]), at, at % n);
}

} // namespace

#define DEFINE(WORD, T)                                                                                                \
  KERNEL(256) epilogue_##WORD(T *y, i64 count, i64 n, Epilogue end) { epilogue<T>(y, count, n, end); }
HIPC_FLOATS(DEFINE)
