/* Shifts the time of day of a process, and no other clock, by the seconds that a file has.

   cc -shared -fPIC -o wrong_clock.so wrong_clock.c
   LD_PRELOAD=wrong_clock.so WRONG_CLOCK=FILE PROGRAM

   FILE has eight bytes, a signed number. They are mapped: the clock jumps when they change. libfaketime
   cannot do that here: it also changes what waits for a monotonic clock, so that each request of an
   archive takes a second, and it moves the environment before Swift has found the arguments by it. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int64_t zero;
static const volatile int64_t *offset = &zero;

__attribute__((constructor)) static void map_offset(void) {
  const char *name = getenv("WRONG_CLOCK");
  int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
  void *bytes = file < 0 ? MAP_FAILED : mmap(NULL, 8, PROT_READ, MAP_SHARED, file, 0);
  if (bytes == MAP_FAILED) abort();
  offset = bytes;
  close(file);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
  long result = syscall(SYS_clock_gettime, clock, time);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
    time->tv_sec += *offset;
  return (int)result;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
  (void)zone;
  struct timespec now;
  if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
  *time = (struct timeval){.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
  return 0;
}

time_t time(time_t *result) {
  struct timespec now;
  if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
  if (result) *result = now.tv_sec;
  return now.tv_sec;
}

/* libdispatch computes such a deadline from the time of day; the kernel has another one. */
int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict deadline) {
  typedef int (*Wait)(sem_t *restrict, const struct timespec *restrict);
  static Wait wait;
  if (!wait) wait = (Wait)dlsym(RTLD_NEXT, "sem_timedwait");
  struct timespec own = *deadline;
  own.tv_sec -= *offset;
  return wait(semaphore, &own);
}
