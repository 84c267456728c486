#ifndef TEST_SUPPORT_H
#define TEST_SUPPORT_H

#include <stdint.h>
#include <sys/types.h>

// Forks; the child asks how many forks it has seen, and ends with that number as its exit code.
// Returns the number, or -1. Swift cannot name fork.
int support_forks_seen_by_child(uint64_t (*seen)(void));

// Takes from the calling thread alone what the superuser may do with files, and gives it back.
// Returns whether it is nobody now, or the superuser again; a process without rights needs neither.
int support_files_as_nobody(int is_nobody);

// Mounts an overlay file system over two directories of memory, for the calling thread alone, at
// `root`/merged. Returns whether that is permitted and was done.
int support_mount_overlay(const char *root);

// Whether a directory lies on overlayfs, whose mappings keep no locks.
int support_lies_on_overlay(const char *path);

// How many pages of a file the kernel has not begun to write; -1 where it does not tell.
int64_t support_dirty_pages(const char *path);

// Forks; the child runs the body and then waits until the parent ends it. Returns the child's
// number when the body has run, or -1.
pid_t support_begin_child(void (*body)(void));
void support_end_child(pid_t child);

#endif
