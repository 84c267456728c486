#ifndef MORAINE_SHIMS_H
#define MORAINE_SHIMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <sys/types.h>

// Returns the CRC-32C (Castagnoli, reflected polynomial 0x82F63B78), chained: pass 0 to begin, and
// the last result to continue. Uses the processor's instruction where it exists, otherwise a table.
uint32_t moraine_crc32c(uint32_t crc, const void *bytes, size_t length);
// Returns the checksum of an 8-byte and a 4-byte little-endian integer and then the bytes, in one
// call.
uint32_t moraine_crc32c_place(
    uint32_t crc, uint64_t offset, uint32_t count, const void *bytes, size_t length);
// The ways to compute a checksum, in the order of their speed. A processor that has one has those
// before it.
typedef enum {
  moraine_crc32c_by_table,
  moraine_crc32c_by_instruction,
  moraine_crc32c_by_streams,  // three of the instruction at a time, for inputs from 384 bytes on
  moraine_crc32c_by_folding,  // 256 bytes at a time with AVX-512, for inputs from 512 bytes on
} moraine_crc32c_method;
// The fastest way that this processor has.
moraine_crc32c_method moraine_crc32c_fastest(void);
// Computes a checksum in one way, or in the fastest that this processor has before it. For tests.
uint32_t moraine_crc32c_by(
    moraine_crc32c_method method, uint32_t crc, const void *bytes, size_t length);
// Computes a checksum by the table alone, with which tests compare the other ways.
uint32_t moraine_crc32c_table(uint32_t crc, const void *bytes, size_t length);

// The system calls below return a value >= 0, or -errno. They do not retry: the caller does.
int moraine_open_directory(const char *path);
int moraine_openat(int directory, const char *name, int flags, unsigned mode);
int moraine_sync_data(int fd);   // Linux: fdatasync. Apple: F_FULLFSYNC.
int moraine_sync_full(int fd);   // Linux: fsync.     Apple: F_FULLFSYNC.
// Syncs the whole file system that a descriptor belongs to. On other systems than Linux it is a
// full sync of the descriptor: APFS commits earlier changes together with it.
int moraine_sync_file_system(int fd);
// What a name in a directory leads to, without its times. A link is not followed.
struct moraine_extent {
  uint64_t device;
  uint64_t inode;
  uint64_t length;
};
// Since Linux 6.13, ext4, XFS and btrfs give a file whose time of change was asked for an exact new
// time at its next write. Each fdatasync may then write the inode as well: on ext4 without a
// journal, a sync took 135 us in place of 95. So this call does not ask for any time, where the C
// library has statx (glibc 2.28, musl 1.2.5).
int moraine_inspect(int directory, const char *name, struct moraine_extent *extent);
// Returns the number of bytes that an ordinary user can still write.
int64_t moraine_free_bytes(int fd);
// Returns the number of bytes that must be free so that a file can be created; most of them are
// free again afterwards.
int64_t moraine_creation_bytes(int fd);
// Makes btrfs overwrite the blocks of a file in place (the flag NOCOW); the file is still empty.
// Otherwise btrfs writes each change to new blocks, also in a part that was allocated. An overwrite
// through a mapping then ends the process (SIGBUS) when the disk is full. Does nothing on other
// file systems. Returns -ENOTSUP where btrfs refuses.
int moraine_keep_in_place(int fd);
int moraine_allocate(int fd, off_t offset, off_t length);  // reserves blocks, extends the file
int moraine_lock(int fd, bool shared);                     // flock, without waiting
void moraine_unlock(int fd);                               // also for every copy of the descriptor
ssize_t moraine_pread(int fd, void *bytes, size_t length, off_t offset);
// Reads from the medium instead of the file cache. Address, length and offset are multiples of
// 4096. Returns -ENOTSUP where the system cannot do that. Changes the descriptor's flags while it
// runs.
ssize_t moraine_read_medium(int fd, void *bytes, size_t length, off_t offset);
ssize_t moraine_pwrite(int fd, const void *bytes, size_t length, off_t offset);
int moraine_renameat(int directory, const char *from, const char *to);
int moraine_unlinkat(int directory, const char *name);
int moraine_mkdir(const char *path, unsigned mode);
int moraine_may_create(const char *path);  // in a directory, as the effective user
int moraine_ftruncate(int fd, off_t length);

// Returns a shared mapping of a file, or NULL with *error = errno.
void *moraine_map(int fd, size_t length, bool writable, int *error);
// Returns a writable mapping whose changes stay in memory, or NULL with *error = errno.
void *moraine_map_privately(int fd, size_t length, int *error);
void moraine_unmap(void *base, size_t length);
// Keeps an open file, its locks and its write errors alive without a descriptor, by an inaccessible
// mapping that a forked child does not inherit. Returns NULL where the system has no such mapping.
void *moraine_keep(int fd, size_t length);
// Writes the pages of a mapped file to the medium: fdatasync of the open file that was mapped.
int moraine_sync_mapping(void *base, size_t length);
// Returns the number of descriptors that the process may have (the soft limit), or -errno.
int64_t moraine_descriptor_limit(void);
// Gives a file a second name, in another directory. Returns 2 for a clone, 1 for a hard link if
// `linking`, 0 when these file systems can do neither, or -errno.
int moraine_share(int directory, const char *name, int target, const char *new_name, bool linking);
// Gives a file another name in its directory; -EEXIST when another file or the same one has that
// name, -ENOTSUP when the file system cannot do this in one step. After an error of the network the
// file may have the new name, or both.
int moraine_rename_if_absent(int directory, const char *from, const char *to);
// Does the same without a hard link. For tests: the call above uses it where links do not exist.
int moraine_rename_exclusively(int directory, const char *from, const char *to);
// Makes the pages of a writable mapping present before they are used. A hint: failure is ignored.
void moraine_prefault(void *base, size_t length);
// Does the same for a part of a file that contains only zeros and to which no other thread writes
// during the call. It first writes zeros there, many pages at a time. The kernel then need not
// create each page separately, and syncs them together.
void moraine_prefill(int fd, off_t offset, void *base, size_t length);
// Enters the pages of a mapping that are in the file cache into the page table, for reading. A hint.
void moraine_prefault_for_reading(void *base, size_t length);
// Begins to read a part of a mapped file from the disk, without waiting. A hint.
void moraine_announce_mapped(void *base, size_t length);
// Begins to read a part of a file from the disk, without waiting. A hint.
void moraine_announce(int fd, off_t offset, size_t length);
// Begins to write a part of a file to the disk, without waiting. A hint: the next sync reports an
// error, and on systems other than Linux nothing happens.
void moraine_announce_sync(int fd, off_t offset, size_t length);
// Removes pages from a mapping's page table. The bytes of a shared mapping stay in the file cache.
// Bytes written to a private mapping, or to memory without a file, are lost. A sync of mapped pages
// interrupts every processor once per page to protect the pages; a sync of unmapped pages
// interrupts none. A hint.
void moraine_unload(void *base, size_t length);
// Writes a mapping's changes to the kernel's file cache where mappings and files have separate
// caches.
int moraine_flush_mapping(void *base, size_t length);

// Returns zeroed private memory, or NULL. `huge`: aligned to 2 MiB, in huge pages where the system
// has free ones. No page is resident before it is accessed.
void *moraine_zeroed(size_t length, bool huge);

// Lowers the priority of the calling thread. A hint.
void moraine_lower_thread_priority(void);

// An event of a directory or a file; one queue serves the whole process. In a watched directory a
// name was created, removed, moved or overwritten. `name` is empty where the event is about the
// directory itself or the name is not known, and "?" where the name is longer than any name of
// ours. A watched file was written to by a call.
struct moraine_directory_event {
  int64_t watch;  // -1: events were lost, of any directory or file
  char name[64];
};
enum { moraine_directory_event_limit = 256 };
int moraine_directory_events(void);  // returns a queue, or -errno, -ENOSYS
int64_t moraine_directory_watch(int queue, int directory);  // a watch, or -errno
int64_t moraine_file_watch(int queue, int directory, const char *name);  // a watch, or -errno
void moraine_directory_unwatch(int queue, int64_t watch);  // ends a watch, also of a file
// Waits for events for timeout_ms, or for ever if that is negative. Returns the number of events,
// at most moraine_directory_event_limit.
ssize_t moraine_directory_read(int queue, int timeout_ms, struct moraine_directory_event *events);

// Starts to count forks: moraine_fork_generation rises in the child of every later fork.
void moraine_watch_forks(void);
uint64_t moraine_fork_generation(void);
// The handler that runs in the child; for tests, which cannot run Swift's tasks there.
void moraine_note_fork(void);

// Stores a record's length prefix. No reader sees the prefix before the bytes written ahead of it.
static inline void moraine_store_release_u32(void *at, uint32_t value) {
  __atomic_store_n((uint32_t *)at, value, __ATOMIC_RELEASE);
}

// Returns which of eight 64-bit slots have these uppermost 16 bits: bit 0 of byte k is set for slot
// k. One vector comparison; Swift 6.3's own vectors compare lane by lane.
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

// Fetches a cache line before it is used. A hint.
static inline void moraine_prefetch(const void *at) { __builtin_prefetch(at); }

// Returns a number that differs between most threads that run at the same time.
static inline size_t moraine_thread_number(void) {
    // Threads lie pages apart; the multiplier spreads the bits (Knuth, TAOCP vol. 3, 6.4).
    return (size_t)(((uint64_t)(uintptr_t)pthread_self() >> 12) * 0x9E3779B97F4A7C15u >> 48);
}

#endif
