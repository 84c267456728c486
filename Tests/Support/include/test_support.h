#ifndef TEST_SUPPORT_H
#define TEST_SUPPORT_H

#include <stdint.h>

// Forks; the child asks how many forks it has seen, and ends with that number as its exit code.
// Returns the number, or -1. Swift cannot name fork.
int support_forks_seen_by_child(uint64_t (*seen)(void));

#endif
