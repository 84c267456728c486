// A disk in a file that refuses writes when it is told to, for a loop device.
//
//   failing_disk BACKING MOUNT -f -o direct_io
//
// MOUNT/disk has the bytes of BACKING. While BACKING.refuse exists, writes end with EIO that touch
// one of the ranges in it: a line each, the first byte and the byte after the last. What the device
// has written is in BACKING, and nothing else: a copy of BACKING is what a power failure leaves.
#define FUSE_USE_VERSION 31
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int backing;
static char refuse[4096];

static int disk_getattr(const char *path, struct stat *out, struct fuse_file_info *info) {
  (void)info;
  memset(out, 0, sizeof *out);
  if (strcmp(path, "/") == 0) {
    out->st_mode = S_IFDIR | 0755;
    out->st_nlink = 2;
    return 0;
  }
  if (strcmp(path, "/disk") != 0) return -ENOENT;
  if (fstat(backing, out) != 0) return -errno;
  out->st_mode = S_IFREG | 0600;
  return 0;
}

static int disk_open(const char *path, struct fuse_file_info *info) {
  if (strcmp(path, "/disk") != 0) return -ENOENT;
  info->direct_io = 1;
  return 0;
}

static int disk_read(
    const char *path, char *target, size_t count, off_t offset, struct fuse_file_info *info) {
  (void)path, (void)info;
  ssize_t got = pread(backing, target, count, offset);
  return got < 0 ? -errno : (int)got;
}

static int is_refused(off_t begin, off_t end) {
  FILE *ranges = fopen(refuse, "r");
  if (!ranges) return 0;
  long long from, to;
  int found = 0;
  while (!found && fscanf(ranges, "%lld %lld", &from, &to) == 2)
    found = begin < to && end > from;
  fclose(ranges);
  return found;
}

static int disk_write(
    const char *path, const char *source, size_t count, off_t offset,
    struct fuse_file_info *info) {
  (void)path, (void)info;
  if (is_refused(offset, offset + (off_t)count)) return -EIO;
  ssize_t put = pwrite(backing, source, count, offset);
  return put < 0 ? -errno : (int)put;
}

static int disk_fsync(const char *path, int data, struct fuse_file_info *info) {
  (void)path, (void)data, (void)info;
  return 0;
}

static int disk_fallocate(
    const char *path, int mode, off_t offset, off_t count, struct fuse_file_info *info) {
  (void)path, (void)info;
  if (is_refused(offset, offset + count)) return -EIO;
  return fallocate(backing, mode, offset, count) == 0 ? 0 : -errno;
}

static const struct fuse_operations operations = {
    .getattr = disk_getattr, .open = disk_open, .read = disk_read, .write = disk_write,
    .fsync = disk_fsync, .fallocate = disk_fallocate};

int main(int argc, char **argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: failing_disk BACKING MOUNT [options of FUSE]\n");
    return 64;
  }
  backing = open(argv[1], O_RDWR);
  if (backing < 0) {
    perror(argv[1]);
    return 1;
  }
  snprintf(refuse, sizeof refuse, "%s.refuse", argv[1]);
  argv[1] = argv[0];
  return fuse_main(argc - 1, argv + 1, &operations, NULL);
}
