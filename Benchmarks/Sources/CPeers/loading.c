#include "loading.h"

#include <dlfcn.h>

_Thread_local char peer_message_text[512];

const char *peer_message(void) { return peer_message_text; }

int peer_fail(const char *what, const char *why) {
  snprintf(peer_message_text, sizeof peer_message_text, "%s: %s", what,
           why ? why : "no reason given");
  return -1;
}

void *peer_open_library(const char *name) {
#ifdef __APPLE__
  static const char *const places[] = {"/opt/homebrew/lib/lib%s.dylib",
                                       "/usr/local/lib/lib%s.dylib", "lib%s.dylib"};
#else
  static const char *const places[] = {"lib%s.so"};
#endif
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    char path[256];
    snprintf(path, sizeof path, places[i], name);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library) return library;
  }
  peer_fail("not installed", dlerror());
  return NULL;
}

void *peer_find(void *library, const char *name) {
  void *found = dlsym(library, name);
  if (!found) peer_fail("too old", dlerror());
  return found;
}
