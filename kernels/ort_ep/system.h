// What the provider needs of an operating system beyond the C library.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <malloc.h>
#include <process.h>
#include <windows.h>
#else
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>
#endif

namespace hip_ep {

// One thread at a time.
class Lock {
public:
  Lock(const Lock &) = delete;
  Lock &operator=(const Lock &) = delete;
#ifdef _WIN32
  Lock() = default;
  void enter() { AcquireSRWLockExclusive(&lock); }
  void leave() { ReleaseSRWLockExclusive(&lock); }

private:
  SRWLOCK lock = SRWLOCK_INIT;
#else
  Lock() = default;
  void enter() { pthread_mutex_lock(&lock); }
  void leave() { pthread_mutex_unlock(&lock); }

private:
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
#endif
};

// A lock is held as long as this lives.
struct Held {
  Lock &lock;
  explicit Held(Lock &lock) : lock(lock) { lock.enter(); }
  ~Held() { lock.leave(); }
  Held(const Held &) = delete;
  Held &operator=(const Held &) = delete;
};

// Nanoseconds of a clock that never goes back; programs tell their times by it.
inline int64_t now() {
#ifdef _WIN32
  LARGE_INTEGER ticks, second;
  QueryPerformanceCounter(&ticks);
  QueryPerformanceFrequency(&second);
  return (int64_t)((double)ticks.QuadPart / (double)second.QuadPart * 1e9);
#else
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
#endif
}

#ifdef _WIN32
inline int process_number() { return _getpid(); }
inline int32_t thread_number() { return (int32_t)GetCurrentThreadId(); }
inline void *open_library(const char *path) { return (void *)LoadLibraryA(path); }
inline void *find_symbol(void *library, const char *name) { return (void *)GetProcAddress((HMODULE)library, name); }
inline void *take_aligned(size_t alignment, size_t bytes) { return _aligned_malloc(bytes, alignment); }
inline void give_aligned(void *memory) { _aligned_free(memory); }
#else
inline int process_number() { return (int)getpid(); }
int32_t thread_number();
inline void *open_library(const char *path) { return dlopen(path, RTLD_NOW | RTLD_LOCAL); }
inline void *find_symbol(void *library, const char *name) { return dlsym(library, name); }
inline void *take_aligned(size_t alignment, size_t bytes) {
  void *memory = nullptr;
  return posix_memalign(&memory, alignment, bytes) ? nullptr : memory;
}
inline void give_aligned(void *memory) { free(memory); }
#endif

} // namespace hip_ep
