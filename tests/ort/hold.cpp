// Called with Python's lock held: waits for a number in memory to change, without giving the lock up. 1: it did.
#include <ctime>

extern "C" int hold_until_changed(const volatile float *cell, float old, double seconds) {
  for (timespec start, time;;) {
    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
      if (*cell != old) return 1;
      clock_gettime(CLOCK_MONOTONIC, &time);
    } while ((double)(time.tv_sec - start.tv_sec) + (double)(time.tv_nsec - start.tv_nsec) / 1e9 < seconds);
    return 0;
  }
}
