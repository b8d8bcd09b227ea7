// hip.matmul on GPUs: y = activation(alpha * a @ b + bias) + residual, leading dimensions broadcast. hipBLASLt computes
// products of floats, with as much of the rest as it can; a kernel adds what is left. Where the library has no algorithm,
// and for other element types, a kernel of our own computes all of it.
#include "blaslt.h"
#include "shared/products.h"

using namespace hipc;

namespace {

constexpr int64_t TILE = 64;

// Leading axes of y that one call covers or the host walks, innermost last; strides count matrices of a and b.
struct Batch {
  int32_t rank;
  int64_t extent[HIPC_MAX_RANK], a[HIPC_MAX_RANK], b[HIPC_MAX_RANK];
};

// Stride of an operand along leading axis `axis` of y; 0 where it broadcasts.
int64_t stride_of(const hipc_tensor *operand, int32_t batch_rank, int32_t axis) {
  int32_t own = axis - batch_rank + operand->rank - 2;
  if (own < 0 || operand->shape[own] == 1) return 0;
  return extent(operand, own + 1, operand->rank - 2);
}

// Neighbouring axes that every operand walks with one stride become one.
Batch batch_of(const MatMul &op) {
  Batch batch{};
  int32_t rank = op.y->rank - 2;
  for (int32_t axis = 0; axis < rank; axis++) {
    int64_t size = op.y->shape[axis], a = stride_of(op.a, rank, axis), b = stride_of(op.b, rank, axis);
    if (size == 1) continue;
    int32_t last = batch.rank - 1;
    if (last >= 0 && batch.a[last] == a * size && batch.b[last] == b * size) {
      batch.extent[last] *= size, batch.a[last] = a, batch.b[last] = b;
      continue;
    }
    batch.extent[batch.rank] = size, batch.a[batch.rank] = a, batch.b[batch.rank] = b;
    batch.rank++;
  }
  return batch;
}

// One strided batch of products.
struct Call {
  const char *a, *b, *bias, *residual;
  char *y;
  int64_t count, a_stride, b_stride;  // in elements
};

// As kernels/device/hipc_device.h declares it, without padding that would have no value.
struct Space {
  int64_t shape[HIPC_MAX_RANK], strides[HIPC_MAX_RANK];
  int32_t rank, unused;
};

ProductEnd epilogue_of(const MatMul &op, const Call &call) {
  return {call.bias, call.residual, (float)op.alpha, (float)op.activation_alpha, (float)op.activation_beta, op.activation};
}

Space matrices(int64_t count, int64_t stride) {
  Space space{};
  space.shape[0] = count, space.strides[0] = stride, space.rank = 1;
  return space;
}

int32_t call_tiles(hipc_context *context, const MatMul &op, const Call &call) {
  Launch launch;
  launch.block[0] = 256;
  launch.grid[0] = (uint32_t)(ceil_div(op.n, TILE) * ceil_div(op.m, TILE));
  launch.grid[1] = (uint32_t)call.count;
  return hipc::launch(context, kernel_name("matmul", op.y->dtype), launch, call.a, call.b, call.y, op.m, op.n, op.k,
                      (int32_t)op.trans_a, (int32_t)op.trans_b, matrices(call.count, call.a_stride),
                      matrices(call.count, call.b_stride), call.count, epilogue_of(op, call));
}

int32_t call_plain(hipc_context *context, const MatMul &op, const Call &call) {
  if (op.activation != ACT_NONE)
    return hipc_error(context, HIPC_ERROR_UNSUPPORTED, "matmul of %s with an activation", dtype_name(op.y->dtype));
  int64_t count = call.count * op.m * op.n;
  return hipc::launch(context, kernel_name("matmul_plain", op.y->dtype), over(context, count), call.a, call.b, call.bias,
                      call.residual, call.y, op.m, op.n, op.k, (int32_t)op.trans_a, (int32_t)op.trans_b,
                      matrices(call.count, call.a_stride), matrices(call.count, call.b_stride), call.count, op.alpha);
}

// What the matrix library has left of an epilogue.
int32_t finish(hipc_context *context, const MatMul &op, const Call &call) {
  if (op.activation == ACT_NONE && !op.bias && !op.residual) return HIPC_OK;
  ProductEnd rest = epilogue_of(op, call);
  rest.alpha = 1;
  int64_t count = call.count * op.m * op.n;
  return hipc::launch(context, kernel_name("epilogue", op.y->dtype), over(context, count), call.y, count, op.n, rest);
}

int32_t submit_product(hipc_context *context, MatmulPlan *plan, const Call &call) {
  MatmulCommand command;
  command.kind = MATMUL;
  command.bytes = sizeof command;
  command.plan = plan;
  command.a = call.a, command.b = call.b, command.bias = call.bias, command.residual = call.residual, command.y = call.y;
  return submit(context, &command);
}

// Its gelu is the approximation by tanh.
uint32_t library_epilogue(Activation activation) {
  return activation == ACT_RELU ? EPILOGUE_RELU : activation == ACT_GELU_TANH ? EPILOGUE_GELU : EPILOGUE_NONE;
}

// Bytes that every matrix of a call begins at a multiple of, 256 at most.
uint32_t alignment_of(const MatMul &op, const Call &call) {
  int64_t size = element_size(op.y->dtype);
  uint64_t bits = 256 | (uint64_t)call.a | (uint64_t)call.b | (uint64_t)call.y | (uint64_t)call.residual;
  if (call.count > 1) bits |= (uint64_t)((call.a_stride | call.b_stride | op.m * op.n) * size);
  return (uint32_t)(bits & -bits);
}

int32_t call_library(hipc_context *context, const MatMul &op, const Call &call) {
  MatmulKey key;
  memset(&key, 0, sizeof key);
  key.m = op.m, key.n = op.n, key.k = op.k, key.batch = call.count;
  key.a_stride = call.a_stride, key.b_stride = call.b_stride;
  key.dtype = op.y->dtype, key.alpha = op.alpha, key.alignment = alignment_of(op, call);
  key.trans_a = op.trans_a, key.trans_b = op.trans_b;
  // All in one: an activation stands before a residual, which the library could only add before it.
  bool fits = op.activation == ACT_NONE || (library_epilogue(op.activation) != EPILOGUE_NONE && !op.residual);
  int32_t status;
  if (fits && (!op.bias || call.count == 1)) {
    key.epilogue = library_epilogue(op.activation);
    if (op.bias) key.epilogue = (key.epilogue == EPILOGUE_NONE ? 0 : key.epilogue) | EPILOGUE_BIAS;
    key.residual = op.residual != nullptr;
    MatmulPlan *plan = find_plan(context, key, &status);
    if (plan || status) return plan ? submit_product(context, plan, call) : status;
  }
  key.epilogue = EPILOGUE_NONE;
  key.residual = false;
  MatmulPlan *plan = find_plan(context, key, &status);
  if (status) return status;
  if (!plan) return call_tiles(context, op, call);
  HIPC_TRY(submit_product(context, plan, call));
  return finish(context, op, call);
}

int32_t compute(hipc_context *context, const MatMul &op, const Call &call) {
  int32_t dtype = op.y->dtype;
  if (dtype != F32 && dtype != F16 && dtype != BF16) return call_plain(context, op, call);
  // The library takes no empty matrices.
  return op.k > 0 ? call_library(context, op, call) : call_tiles(context, op, call);
}

} // namespace

HIPC_EXPORT int32_t hipc_matmul(hipc_context *context, const hipc_tensor *a, const hipc_tensor *b,
                                const hipc_tensor *bias, const hipc_tensor *residual, hipc_tensor *y, int64_t trans_a,
                                int64_t trans_b, double alpha, int64_t activation, int64_t packed, int64_t n,
                                double activation_alpha, double activation_beta) {
  if (packed) return hipc_error(context, HIPC_ERROR_UNSUPPORTED, "matmul by a packed matrix; GPUs take plain ones");
  MatMul op{};
  op.a = a, op.b = b, op.bias = bias, op.residual = residual, op.y = y;
  op.trans_a = trans_a, op.trans_b = trans_b;
  op.alpha = alpha, op.activation = (Activation)activation;
  op.activation_alpha = activation_alpha, op.activation_beta = activation_beta;
  HIPC_TRY(read_matmul(context, op, n));
  HIPC_TRY(check_contiguous(context, "matmul", a, b, bias, residual, y));
  if (elements(y) == 0) return HIPC_OK;
  Batch batch = batch_of(op);
  // One b for all matrices of a: they are one tall matrix.
  if (batch.rank == 1 && batch.a[0] == 1 && batch.b[0] == 0 && !op.trans_a) {
    op.m *= batch.extent[0];
    batch.rank = 0;
  }
  int64_t size = element_size(y->dtype);
  int32_t inner = batch.rank - 1;
  Call call{};
  // The second axis of a grid has 16 bits.
  int64_t most = 0x8000, count = inner < 0 ? 1 : batch.extent[inner];
  call.a_stride = inner < 0 ? 0 : batch.a[inner] * op.m * op.k;
  call.b_stride = inner < 0 ? 0 : batch.b[inner] * op.k * op.n;
  call.bias = bias ? (const char *)bias->data : nullptr;
  Walk<2> walk(max(inner, 0), batch.extent);
  int64_t outer = 1;
  for (int32_t axis = 0; axis < inner; axis++) {
    walk.strides[0][axis] = batch.a[axis];
    walk.strides[1][axis] = batch.b[axis];
    outer *= batch.extent[axis];
  }
  for (int64_t i = 0; i < outer; i++) {
    walk.seek(i);
    for (int64_t first = 0; first < count; first += most) {
      call.count = min(most, count - first);
      int64_t product = (i * count + first) * op.m * op.n;
      call.a = (const char *)a->data + (walk.offsets[0] * op.m * op.k + first * call.a_stride) * size;
      call.b = (const char *)b->data + (walk.offsets[1] * op.k * op.n + first * call.b_stride) * size;
      call.y = (char *)y->data + product * size;
      call.residual = residual ? (const char *)residual->data + product * size : nullptr;
      HIPC_TRY(compute(context, op, call));
    }
  }
  return HIPC_OK;
}
