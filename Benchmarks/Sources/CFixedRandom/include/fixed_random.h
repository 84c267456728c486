#ifndef FIXED_RANDOM_H
#define FIXED_RANDOM_H

#include <stddef.h>

// Takes the place of the standard library's function of this name in the program that it is linked into.
void swift_stdlib_random(void *bytes, size_t length);

#endif
