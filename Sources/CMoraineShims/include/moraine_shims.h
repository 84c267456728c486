#ifndef MORAINE_SHIMS_H
#define MORAINE_SHIMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// CRC-32C (Castagnoli, reflected polynomial 0x82F63B78), chained: pass 0 to begin, and the last
// result to go on. Uses the processor's instruction where there is one, a table elsewhere.
uint32_t moraine_crc32c(uint32_t crc, const void *bytes, size_t length);
// The checksum of an 8-byte and a 4-byte little-endian integer and then the bytes, in one call.
uint32_t moraine_crc32c_place(
    uint32_t crc, uint64_t offset, uint32_t count, const void *bytes, size_t length);
// The table alone, so that a test can hold the two against each other.
uint32_t moraine_crc32c_table(uint32_t crc, const void *bytes, size_t length);
bool moraine_crc32c_is_hardware(void);

// The system calls below return a value >= 0, or -errno. They do not retry: the caller does.
int moraine_open_directory(const char *path);
int moraine_openat(int directory, const char *name, int flags, unsigned mode);
int moraine_sync_data(int fd);   // Linux: fdatasync. Apple: F_FULLFSYNC.
int moraine_sync_full(int fd);   // Linux: fsync.     Apple: F_FULLFSYNC.
// All of the file system that a descriptor belongs to. Elsewhere than on Linux a full sync of the
// descriptor: APFS commits what came before together with it.
int moraine_sync_file_system(int fd);
// What an ordinary user can still write, in bytes.
int64_t moraine_free_bytes(int fd);
// What must be free, in bytes, so that a file can be created; most of it is free again afterwards.
int64_t moraine_creation_bytes(int fd);
int moraine_allocate(int fd, off_t offset, off_t length);  // blocks reserved, file extended
int moraine_lock(int fd, bool shared);                     // flock, never waiting
void moraine_unlock(int fd);                               // for every copy of the descriptor
ssize_t moraine_pread(int fd, void *bytes, size_t length, off_t offset);
// Reads past the file cache; address, length and offset are multiples of 4096. -ENOTSUP where that
// cannot be done. Changes the descriptor's flags while it runs.
ssize_t moraine_read_medium(int fd, void *bytes, size_t length, off_t offset);
ssize_t moraine_pwrite(int fd, const void *bytes, size_t length, off_t offset);
int moraine_renameat(int directory, const char *from, const char *to);
int moraine_unlinkat(int directory, const char *name);
int moraine_mkdir(const char *path, unsigned mode);
int moraine_may_create(const char *path);  // names in a directory, as the effective user
int moraine_ftruncate(int fd, off_t length);

// A shared mapping of a file, or NULL with *error = errno.
void *moraine_map(int fd, size_t length, bool writable, int *error);
// Writable; what is written stays in memory.
void *moraine_map_privately(int fd, size_t length, int *error);
void moraine_unmap(void *base, size_t length);
// Keeps an open file, its locks and its errors of writing alive without a descriptor: an
// inaccessible mapping, which a forked child does not get. NULL where the system has no such thing.
void *moraine_keep(int fd, size_t length);
// Writes the pages of a mapped file to the medium: fdatasync of the open file that was mapped.
int moraine_sync_mapping(void *base, size_t length);
// How many descriptors the process may have (the soft limit), or -errno.
int64_t moraine_descriptor_limit(void);
// Gives a file a name in another directory too: 2 as a clone, 1 as a hard link if `linking`; 0 when
// these file systems can do neither, or -errno.
int moraine_share(int directory, const char *name, int target, const char *new_name, bool linking);
// Makes the pages of a writable mapping present ahead of use. A hint: failure is ignored.
void moraine_prefault(void *base, size_t length);
// The same for a part of a file that has zeros only and that nobody writes to meanwhile: writes zeros
// there first, many pages at a time. The kernel then need not make each page for itself, and syncs
// them together.
void moraine_prefill(int fd, off_t offset, void *base, size_t length);
// Takes pages out of a mapping's page table. The bytes of a shared mapping stay in the file cache;
// what was written to a private one, or to memory without a file, is lost. A sync of mapped
// pages interrupts every processor once a page to protect them; unmapped, none. A hint.
void moraine_unload(void *base, size_t length);
// Hands a mapping's changes to the kernel's file cache where mappings and files are apart.
int moraine_flush_mapping(void *base, size_t length);

// Zeroed memory of the process's own, or NULL. `huge`: aligned to 2 MiB, in huge pages where the
// system has them to give. Nothing is resident before it is touched.
void *moraine_zeroed(size_t length, bool huge);

// The calling thread gives way to others. A hint.
void moraine_lower_thread_priority(void);

// Events of directories and files, for all of a process together. In a directory something was
// created, removed, moved or overwritten; `name` is empty where it was the directory itself, or is
// not known, or is longer than any name of ours. A file was written to by a call.
struct moraine_directory_event {
  int64_t watch;  // -1: events were lost, of any directory
  char name[64];
};
enum { moraine_directory_event_limit = 256 };
int moraine_directory_events(void);  // a queue of events, or -errno, -ENOSYS
int64_t moraine_directory_watch(int queue, int directory);  // or -errno
int64_t moraine_file_watch(int queue, int directory, const char *name);  // or -errno
void moraine_directory_unwatch(int queue, int64_t watch);  // also of a file
// Waits so long for events, or for ever if that is negative; at most moraine_directory_event_limit.
ssize_t moraine_directory_read(int queue, int timeout_ms, struct moraine_directory_event *events);

// Rises in the child of every fork; read with moraine_fork_generation.
void moraine_watch_forks(void);
uint64_t moraine_fork_generation(void);
// What the handler does in the child; for tests, which cannot run Swift's tasks there.
void moraine_note_fork(void);

// A store of a record's length prefix that no reader sees before the bytes written ahead of it.
static inline void moraine_store_release_u32(void *at, uint32_t value) {
  __atomic_store_n((uint32_t *)at, value, __ATOMIC_RELEASE);
}

// Which of eight 64-bit slots have these uppermost 16 bits: bit 0 of byte k for slot k. One comparison
// of a vector; Swift 6.3's own vectors compare lane by lane.
static inline uint64_t moraine_tag_matches(const uint64_t *slots, uint16_t tag) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  typedef uint16_t quarters __attribute__((vector_size(64)));
  typedef uint16_t tags __attribute__((vector_size(16)));
  typedef int8_t bytes __attribute__((vector_size(8)));
  quarters all;
  __builtin_memcpy(&all, slots, sizeof all);
  tags found = __builtin_shufflevector(all, all, 3, 7, 11, 15, 19, 23, 27, 31);
  tags wanted = {tag, tag, tag, tag, tag, tag, tag, tag};
  bytes equal = __builtin_convertvector(found == wanted, bytes);
  uint64_t mask;
  __builtin_memcpy(&mask, &equal, sizeof mask);
  return mask & 0x0101010101010101u;
#else
  uint64_t mask = 0;
  for (int slot = 0; slot < 8; slot++)
    if (slots[slot] >> 48 == tag) mask |= (uint64_t)1 << (8 * slot);
  return mask;
#endif
}

// Fetches a cache line ahead of use. A hint.
static inline void moraine_prefetch(const void *at) { __builtin_prefetch(at); }

#endif
