/* A library to preload: each fsync and fdatasync takes SLOW_SYNCS_MS milliseconds longer, as on a
   disk whose syncs are slow. Scripts/compare --slow-syncs builds and uses it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

static void pause_as_configured(void) {
  const char *milliseconds = getenv("SLOW_SYNCS_MS");
  if (milliseconds) usleep((useconds_t)atoi(milliseconds) * 1000);
}

int fsync(int descriptor) {
  int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
  pause_as_configured();
  return next(descriptor);
}

int fdatasync(int descriptor) {
  int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
  pause_as_configured();
  return next(descriptor);
}
