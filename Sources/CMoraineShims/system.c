// System calls that Swift cannot name on every platform. No policy here: callers retry and
// interpret errors.

#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif

#include "moraine_shims.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#if defined(__linux__)
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#endif
#if defined(__APPLE__)
#include <sys/clonefile.h>
#endif

#define RESULT(call) ({ __typeof__(call) r_ = (call); r_ < 0 ? (__typeof__(r_))-errno : r_; })

int moraine_open_directory(const char *path) {
  return RESULT(open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

// O_NONBLOCK: opening a FIFO that has replaced a file must not hang.
int moraine_openat(int directory, const char *name, int flags, unsigned mode) {
  return RESULT(
      openat(directory, name, flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, (mode_t)mode));
}

int moraine_sync_data(int fd) {
#if defined(__APPLE__)
  return RESULT(fcntl(fd, F_FULLFSYNC));
#else
  return RESULT(fdatasync(fd));
#endif
}

int moraine_sync_full(int fd) {
#if defined(__APPLE__)
  return RESULT(fcntl(fd, F_FULLFSYNC));
#else
  return RESULT(fsync(fd));
#endif
}

int moraine_sync_file_system(int fd) {
#if defined(__linux__)
  return RESULT(syncfs(fd));
#else
  return moraine_sync_full(fd);
#endif
}

int moraine_inspect(int directory, const char *name, struct moraine_extent *extent) {
#if defined(__linux__) && defined(STATX_INO)
  struct statx found;
  const unsigned wanted = STATX_TYPE | STATX_INO | STATX_SIZE;
  if (statx(directory, name, AT_SYMLINK_NOFOLLOW, wanted, &found) == 0) {
    extent->device = makedev(found.stx_dev_major, found.stx_dev_minor);
    extent->inode = found.stx_ino;
    extent->length = found.stx_size;
    return 0;
  }
  // A sandbox may not know the call.
  if (errno != ENOSYS && errno != EPERM) return -errno;
#endif
  struct stat status;
  if (fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) < 0) return -errno;
  extent->device = (uint64_t)status.st_dev;
  extent->inode = (uint64_t)status.st_ino;
  extent->length = status.st_size < 0 ? 0 : (uint64_t)status.st_size;
  return 0;
}

int64_t moraine_free_bytes(int fd) {
  struct statvfs status;
  if (fstatvfs(fd, &status) < 0) return -errno;
  uint64_t unit = status.f_frsize, count = status.f_bavail, bytes;
  if (__builtin_mul_overflow(unit, count, &bytes) || bytes > INT64_MAX) return INT64_MAX;
  return (int64_t)bytes;
}

int64_t moraine_creation_bytes(int fd) {
#if defined(__linux__)
  // XFS creates inodes in chunks and reserves the space that the worst splits of its trees would
  // take. On an image of 320 MB the first file needed between 176 and 192 KiB.
  struct statfs status;
  if (fstatfs(fd, &status) < 0) return -errno;
  return status.f_type == 0x58465342 ? 256 << 10 : 0;
#else
  (void)fd;
  return 0;
#endif
}

int moraine_keep_in_place(int fd) {
#if defined(__linux__)
  struct statfs system;
  if (fstatfs(fd, &system) < 0) return -errno;
  const uint32_t type = (uint32_t)system.f_type, btrfs = 0x9123683E, overlay = 0x794C7630;
  if (type != btrfs && type != overlay) return 0;
  // FS_IOC_GETFLAGS and FS_IOC_SETFLAGS, which take an int. Not every C library has <linux/fs.h>.
  const unsigned get = (unsigned)_IOR('f', 1, long), set = (unsigned)_IOW('f', 2, long);
  enum { compressed = 0x4, not_compressed = 0x400, in_place = 0x800000 };  // COMPR, NOCOMP, NOCOW
  int flags = 0;
  bool is_known = ioctl(fd, get, &flags) == 0;
  if (is_known && !(flags & in_place)) {
    // A file inherits the flags about compression from its directory. btrfs refuses to set the new
    // flag in the call that clears them. Later calls clear nothing.
    int others = flags & ~(compressed | not_compressed), wanted = others | in_place;
    if (others != flags) (void)ioctl(fd, set, &others);
    (void)ioctl(fd, set, &wanted);
    // On a file that is not empty, btrfs accepts the flag and does not set it.
    is_known = ioctl(fd, get, &flags) == 0;
  }
  // Most file systems below an overlay overwrite in place, and do not know the flag.
  return (is_known && flags & in_place) || type == overlay ? 0 : -ENOTSUP;
#else
  (void)fd;
  return 0;
#endif
}

int moraine_allocate(int fd, off_t offset, off_t length) {
#if defined(__linux__)
  return RESULT(fallocate(fd, 0, offset, length));
#elif defined(__APPLE__)
  // F_PREALLOCATE reserves blocks beyond the end; only ftruncate then adds them to the file.
  // ftruncate would also cut a longer file, so a file that is long enough stays as it is.
  struct stat status;
  if (fstat(fd, &status) < 0) return -errno;
  off_t missing = offset + length - status.st_size;
  if (missing <= 0) return 0;
  fstore_t store = {F_ALLOCATEALL, F_PEOFPOSMODE, 0, missing, 0};
  if (fcntl(fd, F_PREALLOCATE, &store) < 0) return -errno;
  return RESULT(ftruncate(fd, offset + length));
#else
  (void)fd, (void)offset, (void)length;
  return -ENOTSUP;
#endif
}

int moraine_lock(int fd, bool shared) {
  return RESULT(flock(fd, (shared ? LOCK_SH : LOCK_EX) | LOCK_NB));
}

void moraine_unlock(int fd) { flock(fd, LOCK_UN); }

ssize_t moraine_pread(int fd, void *bytes, size_t length, off_t offset) {
  return RESULT(pread(fd, bytes, length, offset));
}

ssize_t moraine_read_medium(int fd, void *bytes, size_t length, off_t offset) {
#if defined(__linux__)
  struct statfs system;
  if (fstatfs(fd, &system) < 0) return -errno;
  if (system.f_type == 0x01021994) return moraine_pread(fd, bytes, length, offset);  // tmpfs
  int flags = fcntl(fd, F_GETFL);
  if (flags < 0) return -errno;
  // Some file systems answer O_DIRECT from their cache, for some files. This empties the cache
  // first.
  (void)posix_fadvise(fd, offset, (off_t)length, POSIX_FADV_DONTNEED);
  if (fcntl(fd, F_SETFL, flags | O_DIRECT) < 0) return errno == EINVAL ? -ENOTSUP : -errno;
  ssize_t count = RESULT(pread(fd, bytes, length, offset));
  if (fcntl(fd, F_SETFL, flags) < 0) return -errno;
  return count == -EINVAL ? -ENOTSUP : count;
#else
  (void)fd, (void)bytes, (void)length, (void)offset;
  return -ENOTSUP;
#endif
}

ssize_t moraine_pwrite(int fd, const void *bytes, size_t length, off_t offset) {
  return RESULT(pwrite(fd, bytes, length, offset));
}

int moraine_renameat(int directory, const char *from, const char *to) {
  return RESULT(renameat(directory, from, directory, to));
}

// A hard link is exclusive on every file system that has hard links, NFS among them. FAT and exFAT
// have a rename that keeps an existing file instead. Where the removal of the old name fails, the
// file has two names: the caller asked for the new one.
int moraine_rename_if_absent(int directory, const char *from, const char *to) {
  if (linkat(directory, from, directory, to, 0) == 0) {
    (void)unlinkat(directory, from, 0);
    return 0;
  }
  int refusal = errno;
  switch (refusal) {
    // A sandbox may forbid links.
    case EPERM: case EACCES: case EMLINK: case ENOTSUP: case ENOSYS: break;
#if EOPNOTSUPP != ENOTSUP
    case EOPNOTSUPP: break;
#endif
    default: return -errno;
  }
  int result = moraine_rename_exclusively(directory, from, to);
  // On a network file system without that rename, the refusal of the link is the reason.
  return result == -ENOTSUP && refusal == EACCES ? -EACCES : result;
}

int moraine_rename_exclusively(int directory, const char *from, const char *to) {
#if defined(__linux__) && defined(SYS_renameat2)
  // RENAME_NOREPLACE. Not every C library has the function.
  if (syscall(SYS_renameat2, directory, from, directory, to, 1) == 0) return 0;
#elif defined(__APPLE__)
  if (renameatx_np(directory, from, directory, to, RENAME_EXCL) == 0) return 0;
#else
  (void)directory, (void)from, (void)to;
  errno = ENOTSUP;
#endif
  return errno == EINVAL || errno == ENOSYS ? -ENOTSUP : -errno;
}

int moraine_unlinkat(int directory, const char *name) {
  return RESULT(unlinkat(directory, name, 0));
}

static int clone_file(int directory, const char *name, int target, const char *new_name) {
#if defined(__linux__)
  int source = moraine_openat(directory, name, O_RDONLY, 0);
  if (source < 0) return source;
  int made = moraine_openat(target, new_name, O_WRONLY | O_CREAT | O_EXCL, 0600);
  if (made < 0) {
    close(source);
    return made;
  }
  bool is_clone = ioctl(made, FICLONE, source) == 0;
  // btrfs clones a file that is kept in place only into another one.
  if (!is_clone && moraine_keep_in_place(made) == 0)
    is_clone = ioctl(made, FICLONE, source) == 0;
  close(source);
  close(made);
  if (is_clone) return 2;
  return moraine_unlinkat(target, new_name);
#elif defined(__APPLE__)
  return clonefileat(directory, name, target, new_name, CLONE_NOFOLLOW) == 0 ? 2
         : errno == ENOENT || errno == EEXIST                                ? -errno
                                                                             : 0;
#else
  (void)directory, (void)name, (void)target, (void)new_name;
  return 0;
#endif
}

int moraine_share(int directory, const char *name, int target, const char *new_name, bool linking) {
  int cloned = clone_file(directory, name, target, new_name);
  if (cloned != 0 || !linking) return cloned;
  if (linkat(directory, name, target, new_name, 0) == 0) return 1;
  switch (errno) {
    case EXDEV: case EPERM: case EACCES: case EMLINK: case ENOTSUP: case ENOSYS: return 0;
    default: return -errno;
  }
}

int moraine_mkdir(const char *path, unsigned mode) { return RESULT(mkdir(path, (mode_t)mode)); }

int moraine_may_create(const char *path) {
  return RESULT(faccessat(AT_FDCWD, path, W_OK | X_OK, AT_EACCESS));
}

int moraine_ftruncate(int fd, off_t length) { return RESULT(ftruncate(fd, length)); }

void *moraine_map(int fd, size_t length, bool writable, int *error) {
  int protection = PROT_READ | (writable ? PROT_WRITE : 0);
  void *base = mmap(NULL, length, protection, MAP_SHARED, fd, 0);
  if (base != MAP_FAILED) return base;
  *error = errno;
  return NULL;
}

void *moraine_map_privately(int fd, size_t length, int *error) {
  void *base = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  if (base != MAP_FAILED) return base;
  *error = errno;
  return NULL;
}

void moraine_unmap(void *base, size_t length) { munmap(base, length); }

void *moraine_keep(int fd, size_t length) {
#if defined(__linux__)
  void *base = mmap(NULL, length, PROT_NONE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) return NULL;
  if (madvise(base, length, MADV_DONTFORK) == 0) return base;
  munmap(base, length);
#else
  (void)fd, (void)length;
#endif
  return NULL;
}

int moraine_sync_mapping(void *base, size_t length) {
  return RESULT(msync(base, length, MS_SYNC));
}

int64_t moraine_descriptor_limit(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) < 0) return -errno;
  return limit.rlim_cur > INT32_MAX ? INT32_MAX : (int64_t)limit.rlim_cur;
}

void moraine_prefault(void *base, size_t length) {
#if defined(__linux__)
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
  (void)madvise(base, length, MADV_POPULATE_WRITE);
#else
  (void)base, (void)length;
#endif
}

void moraine_prefill(int fd, off_t offset, void *base, size_t length) {
#if defined(__linux__)
  // Larger writes make larger folios, and a small sync then writes a whole folio.
  static const char zeros[64 << 10];
  for (size_t done = 0; done < length; done += sizeof zeros) {
    size_t part = length - done < sizeof zeros ? length - done : sizeof zeros;
    if (pwrite(fd, zeros, part, offset + (off_t)done) != (ssize_t)part) return;
  }
#else
  (void)fd, (void)offset;
#endif
  moraine_prefault(base, length);
}

void moraine_prefault_for_reading(void *base, size_t length) {
#if defined(__linux__)
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
  enum { piece = 2 << 20 };
  unsigned char resident[piece / 4096];
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  for (size_t offset = 0; offset < length; offset += piece) {
    size_t part = length - offset < piece ? length - offset : piece;
    char *start = (char *)base + offset;
    // The call below would read a page from the disk that is not in the cache any more.
    if (mincore(start, part, resident) != 0) return;
    for (size_t i = 0; i < (part + page - 1) / page; i++)
      if (!(resident[i] & 1)) return;
    if (madvise(start, part, MADV_POPULATE_READ) != 0) return;
  }
#else
  (void)base, (void)length;
#endif
}

void moraine_announce_mapped(void *base, size_t length) {
  (void)madvise(base, length, MADV_WILLNEED);
}

void moraine_announce(int fd, off_t offset, size_t length) {
#if defined(__linux__)
  (void)posix_fadvise(fd, offset, (off_t)length, POSIX_FADV_WILLNEED);
#else
  struct radvisory part = {.ra_offset = offset, .ra_count = (int)length};
  (void)fcntl(fd, F_RDADVISE, &part);
#endif
}

void moraine_announce_sync(int fd, off_t offset, size_t length) {
#if defined(__linux__)
  (void)sync_file_range(fd, offset, (off_t)length, SYNC_FILE_RANGE_WRITE);
#else
  (void)fd, (void)offset, (void)length;
#endif
}

void moraine_unload(void *base, size_t length) {
#if defined(__linux__)
  (void)madvise(base, length, MADV_DONTNEED);
#else
  (void)base, (void)length;
#endif
}

int moraine_flush_mapping(void *base, size_t length) {
#if defined(__linux__)
  (void)base, (void)length;  // One page cache: fdatasync finds pages dirtied through a mapping.
  return 0;
#else
  return RESULT(msync(base, length, MS_SYNC));
#endif
}

void moraine_lower_thread_priority(void) {
#if defined(__APPLE__)
  pthread_set_qos_class_self_np(QOS_CLASS_UTILITY, 0);
#elif defined(__linux__)
  // On Linux each thread has its own nice value; 0 names the calling thread.
  (void)setpriority(PRIO_PROCESS, 0, 10);
#endif
}

void *moraine_zeroed(size_t length, bool huge) {
  size_t spare = huge ? (size_t)2 << 20 : 0;
  char *base = mmap(
      NULL, length + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
  if (base == MAP_FAILED) return NULL;
  if (spare != 0) {
    size_t ahead = (spare - (uintptr_t)base % spare) % spare;
    if (ahead != 0) munmap(base, ahead);
    if (spare != ahead) munmap(base + ahead + length, spare - ahead);
    base += ahead;
#if defined(__linux__)
    (void)madvise(base, length, MADV_HUGEPAGE);
#endif
  }
  return base;
}

static uint64_t fork_generation;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

void moraine_note_fork(void) { __atomic_add_fetch(&fork_generation, 1, __ATOMIC_RELAXED); }
static void install_fork_handler(void) { pthread_atfork(NULL, NULL, moraine_note_fork); }

void moraine_watch_forks(void) { pthread_once(&fork_once, install_fork_handler); }

uint64_t moraine_fork_generation(void) {
  return __atomic_load_n(&fork_generation, __ATOMIC_RELAXED);
}
