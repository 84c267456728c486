#ifndef MORAINE_LOADING_H
#define MORAINE_LOADING_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "peers.h"

// The library of that name, or NULL with words in `peer_message`.
void *peer_open_library(const char *name);
// A function of it, or NULL with words.
void *peer_find(void *library, const char *name);

extern _Thread_local char peer_message_text[512];
const char *peer_message(void);
int peer_fail(const char *what, const char *why);

// A function of a library that is loaded later: declared by its header, called through `p_NAME`.
#define PEER_FUNCTION(name) static __typeof__(name) *p_##name;
#define PEER_FIND(name)                                                        \
  if (!(p_##name = (__typeof__(p_##name))peer_find(library, #name)))           \
    return peer_message_text;

// Of an engine whose header was not there when this was compiled.
#define PEER_MISSING(variable, short_name, long_name, package)                 \
  static const char *load(void) {                                              \
    return "its header was not installed when the benchmark was built (" package ")"; \
  }                                                                            \
  const peer_api variable = {.name = short_name, .title = long_name, .settings = "", .load = load};

#endif
