#ifndef TEST_SUPPORT_H
#define TEST_SUPPORT_H

#include <stdint.h>

// Forks; the child asks how many forks it has seen, and ends with that number as its exit code.
// Returns the number, or -1. Swift cannot name fork.
int support_forks_seen_by_child(uint64_t (*seen)(void));

// Takes from the calling thread alone what the superuser may do with files, and gives it back.
// Returns whether it is nobody now, or the superuser again; a process without rights needs neither.
int support_files_as_nobody(int is_nobody);

#endif
