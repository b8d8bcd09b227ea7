// The thread pool of a context.
//
// A job is cut into chunks that threads take one by one from `ticket`; the caller takes chunks like everyone else and
// waits only for chunks that another thread has taken. So a worker that the system has put aside delays nobody, and
// after a fork, where no worker exists, the caller simply does everything.
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include "context.h"

using namespace hipc;

namespace {

// An idle worker looks for work this long before it sleeps: between runs, and while one is under way. Waking a thread
// takes longer than most jobs do, so a worker sleeps inside a run only where much of it is on one thread.
constexpr int64_t SPIN_NANOSECONDS = 50000;
constexpr int64_t RUN_SPIN_NANOSECONDS = 2000000;
// After this long, whoever spins lets others onto its core each time it looks: on a busy machine what it waits for may
// stand behind it.
constexpr int64_t YIELD_NANOSECONDS = 5000;
// Scalar operations that are worth a chunk, and so a hand-over to another thread.
constexpr int64_t CHUNK_COST = 16384;
constexpr int64_t CHUNKS_PER_THREAD = 8;

HIPC_INLINE void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

int64_t now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

// Spins until the condition holds or the time is over; returns the condition.
template <class Condition> HIPC_INLINE bool spin_until(const Pool *pool, Condition &&condition) {
  int64_t start = 0;
  for (int i = 0;; i++) {
    if (condition()) return true;
    relax();
    if (i % 32 == 31) {
      bool long_spin = pool->spin && __atomic_load_n(&pool->running, __ATOMIC_RELAXED);
      int64_t time = now();
      if (!start) start = time;
      if (time - start > (long_spin ? RUN_SPIN_NANOSECONDS : SPIN_NANOSECONDS)) return false;
      if (time - start > YIELD_NANOSECONDS) sched_yield();
    }
  }
}

void wake_sleepers(Pool *pool) {
  if (!__atomic_load_n(&pool->sleepers, __ATOMIC_SEQ_CST)) return;
  pthread_mutex_lock(&pool->lock);
  pthread_cond_broadcast(&pool->work);
  pthread_mutex_unlock(&pool->lock);
}

HIPC_INLINE uint32_t untaken(const Pool *pool) { return (uint32_t)__atomic_load_n(&pool->ticket, __ATOMIC_SEQ_CST); }

// Takes one chunk of the present job; returns how many were untaken before, 0 when there was none.
HIPC_INLINE uint32_t take(Pool *pool) {
  uint64_t seen = __atomic_load_n(&pool->ticket, __ATOMIC_ACQUIRE);
  while ((uint32_t)seen)
    if (__atomic_compare_exchange_n(&pool->ticket, &seen, seen - 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
      return (uint32_t)seen;
  return 0;
}

// Start of a chunk; the product of the whole and a chunk number cannot overflow.
HIPC_INLINE int64_t chunk_begin(int64_t iterations, uint32_t chunks, uint32_t chunk) {
  int64_t each = iterations / chunks, left = iterations % chunks;
  return each * chunk + min<int64_t>(chunk, left);
}

// Works until no chunk is left. Fields of the job are read under the chunk held: the caller cannot start another.
void work(Pool *pool, int32_t thread) {
  while (uint32_t taken = take(pool)) {
    uint32_t chunks = pool->chunks, chunk = chunks - taken;
    int64_t iterations = pool->iterations;
    pool->chunk(pool->body, chunk_begin(iterations, chunks, chunk), chunk_begin(iterations, chunks, chunk + 1), thread);
    bool last = __atomic_add_fetch(&pool->done, 1, __ATOMIC_SEQ_CST) == chunks;
    if (last && __atomic_load_n(&pool->caller_waits, __ATOMIC_SEQ_CST)) {
      pthread_mutex_lock(&pool->lock);
      pthread_cond_signal(&pool->finished);
      pthread_mutex_unlock(&pool->lock);
    }
  }
}

void *run_worker(void *self) {
  Worker *worker = (Worker *)self;
  Pool *pool = worker->pool;
  for (;;) {
    auto called = [&] { return untaken(pool) || __atomic_load_n(&pool->stop, __ATOMIC_SEQ_CST); };
    if (!(pool->spin && spin_until(pool, called))) {
      pthread_mutex_lock(&pool->lock);
      __atomic_add_fetch(&pool->sleepers, 1, __ATOMIC_SEQ_CST);
      uint32_t wakes = __atomic_load_n(&pool->wakes, __ATOMIC_SEQ_CST);
      while (!called() && __atomic_load_n(&pool->wakes, __ATOMIC_SEQ_CST) == wakes)
        pthread_cond_wait(&pool->work, &pool->lock);
      __atomic_sub_fetch(&pool->sleepers, 1, __ATOMIC_SEQ_CST);
      pthread_mutex_unlock(&pool->lock);
    }
    if (__atomic_load_n(&pool->stop, __ATOMIC_SEQ_CST)) return nullptr;
    work(pool, worker->number);
  }
}

// Starts the workers at the first job worth sharing. A thread that the system refuses is done without.
void start_workers(Pool *pool) {
  pool->process = getpid();
  pool->workers = (Worker *)calloc((size_t)pool->num_threads, sizeof(Worker));
  if (!pool->workers) pool->num_threads = 1;
  for (int32_t i = 1; i < pool->num_threads; i++) {
    Worker *worker = pool->workers + i;
    *worker = {pool, {}, i};
    if (pthread_create(&worker->thread, nullptr, run_worker, worker) != 0) {
      pool->num_threads = i;
      return;
    }
    pool->started = i;
  }
}

int32_t available_cores() {
#if defined(__linux__)
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) {
    int32_t count = 0;
    for (uint64_t word : cores.__bits) count += __builtin_popcountll(word);
    if (count > 0) return count;
  }
#endif
  return (int32_t)max<int64_t>(sysconf(_SC_NPROCESSORS_ONLN), 1);
}

void wait_for_others(Pool *pool) {
  auto all_done = [&] { return __atomic_load_n(&pool->done, __ATOMIC_SEQ_CST) == pool->chunks; };
  if (spin_until(pool, all_done)) return;
  pthread_mutex_lock(&pool->lock);
  __atomic_store_n(&pool->caller_waits, 1, __ATOMIC_SEQ_CST);
  while (!all_done()) pthread_cond_wait(&pool->finished, &pool->lock);
  __atomic_store_n(&pool->caller_waits, 0, __ATOMIC_SEQ_CST);
  pthread_mutex_unlock(&pool->lock);
}

} // namespace

void hipc::pool_init(Pool *pool, int32_t num_threads) {
  int32_t cores = available_cores();
  pool->num_threads = min(num_threads > 0 ? num_threads : cores, (int32_t)MAX_THREADS);
  // More threads than cores would spin in each other's way.
  pool->spin = pool->num_threads <= cores;
  pthread_mutex_init(&pool->lock, nullptr);
  pthread_cond_init(&pool->work, nullptr);
  pthread_cond_init(&pool->finished, nullptr);
}

void hipc::pool_destroy(Pool *pool) {
  // In the child of a fork the workers do not exist.
  if (pool->started && pool->process != getpid()) pool->started = 0;
  __atomic_store_n(&pool->stop, 1, __ATOMIC_SEQ_CST);
  pthread_mutex_lock(&pool->lock);
  pthread_cond_broadcast(&pool->work);
  pthread_mutex_unlock(&pool->lock);
  for (int32_t i = 1; i <= pool->started; i++) pthread_join(pool->workers[i].thread, nullptr);
  free(pool->workers);
  pthread_cond_destroy(&pool->finished);
  pthread_cond_destroy(&pool->work);
  pthread_mutex_destroy(&pool->lock);
}

void hipc::pool_begin_run(Pool *pool) {
  __atomic_store_n(&pool->running, 1, __ATOMIC_RELAXED);
  // Workers wake up while the run's first, serial steps go on, if the last run had work for them.
  if (!pool->jobs) return;
  pool->jobs = 0;
  __atomic_add_fetch(&pool->wakes, 1, __ATOMIC_SEQ_CST);
  wake_sleepers(pool);
}

void hipc::pool_end_run(Pool *pool) { __atomic_store_n(&pool->running, 0, __ATOMIC_RELAXED); }

HIPC_EXPORT int32_t hipc_num_threads(hipc_context *context) { return context->pool.num_threads; }

HIPC_EXPORT void hipc_parallel(hipc_context *context, hipc_chunk chunk, void *body, int64_t iterations, int64_t cost) {
  if (iterations <= 0) return;
  Pool *pool = &context->pool;
  cost = max<int64_t>(cost, 1);
  int64_t worth = iterations > INT64_MAX / cost ? INT64_MAX : iterations * cost / CHUNK_COST;
  int64_t chunks = min(min(iterations, worth), pool->num_threads * CHUNKS_PER_THREAD);
  // A loop inside a loop, or another thread's launch, finds the pool busy and runs where it is.
  if (pool->num_threads == 1 || chunks <= 1 || __atomic_exchange_n(&pool->busy, 1, __ATOMIC_ACQUIRE)) {
    chunk(body, 0, iterations, 0);
    return;
  }
  if (!pool->workers) start_workers(pool);
  pool->jobs++;
  pool->chunk = chunk;
  pool->body = body;
  pool->iterations = iterations;
  pool->chunks = (uint32_t)chunks;
  __atomic_store_n(&pool->done, 0, __ATOMIC_SEQ_CST);
  uint64_t job = (__atomic_load_n(&pool->ticket, __ATOMIC_RELAXED) >> 32) + 1;
  __atomic_store_n(&pool->ticket, job << 32 | (uint64_t)chunks, __ATOMIC_SEQ_CST);
  wake_sleepers(pool);
  work(pool, 0);
  wait_for_others(pool);
  __atomic_store_n(&pool->busy, 0, __ATOMIC_RELEASE);
}

HIPC_EXPORT void hipc_launch(hipc_context *context, hipc_kernel kernel, const void *arguments, int64_t iterations,
                             int64_t cost) {
  parallel_for(context, iterations, cost, [=](int64_t begin, int64_t end) { kernel(arguments, begin, end); });
}
