// What a hipc_context holds. Private to the runtime; operators use hipc.h and hipc_host.h.
#pragma once
#include <pthread.h>
#include <sys/types.h>

#include "state.h"

namespace hipc {

constexpr int MAX_THREADS = 256;

struct Pool;
struct Worker {
  Pool *pool;
  pthread_t thread;
  int32_t number;
};

// Threads of a context; see pool.cpp. Fields written by several threads stand on cache lines of their own.
struct Pool {
  int32_t num_threads, started;
  pid_t process;
  Worker *workers;
  bool spin;
  pthread_mutex_t lock;
  pthread_cond_t work, finished;
  // The job. Written before `ticket` publishes it, read only by threads that hold one of its chunks.
  hipc_chunk chunk;
  void *body;
  int64_t iterations;
  uint32_t chunks;
  // Jobs shared since the run began; written by the thread that holds `busy`.
  uint32_t jobs;
  // Number of the job in the high half, chunks nobody has taken in the low half.
  alignas(64) uint64_t ticket;
  alignas(64) uint32_t done;
  uint32_t caller_waits;
  alignas(64) uint32_t sleepers;
  // `wakes` counts runs that called the workers before they had a job for them.
  uint32_t busy, stop, running, wakes;
};

void pool_init(Pool *pool, int32_t num_threads);
void pool_destroy(Pool *pool);
void pool_begin_run(Pool *pool);
void pool_end_run(Pool *pool);

} // namespace hipc

struct hipc_context : hipc::State {
  hipc::Pool pool;
};
