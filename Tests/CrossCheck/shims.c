// The shims by themselves, for machines that the rest cannot be built for here: the checksum by
// instruction against the one by table, and a file through every call that a store makes.
// Scripts/cross builds and runs it.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "moraine_shims.h"

#define EXPECT(condition) \
  do { \
    if (!(condition)) { \
      fprintf(stderr, "%s:%d: %s is false\n", __FILE__, __LINE__, #condition); \
      exit(1); \
    } \
  } while (0)

enum { span = 5000 };
static uint8_t bytes[span + 16];

static void check_checksums(void) {
  EXPECT(moraine_crc32c(0, "123456789", 9) == 0xE3069283u);
  EXPECT(moraine_crc32c_table(0, "123456789", 9) == 0xE3069283u);
  uint64_t state = 1;
  for (size_t i = 0; i < sizeof bytes; i++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    bytes[i] = (uint8_t)(state >> 56);
  }
  for (size_t length = 0; length < span; length += length < 300 ? 1 : 37) {
    for (size_t start = 0; start < 9; start++) {
      uint32_t seed = (uint32_t)(length * 2654435761u + start);
      const uint8_t *p = bytes + start;
      uint32_t sum = moraine_crc32c_table(seed, p, length);
      EXPECT(moraine_crc32c(seed, p, length) == sum);
      for (int method = 0; method <= (int)moraine_crc32c_fastest(); method++)
        EXPECT(moraine_crc32c_by((moraine_crc32c_method)method, seed, p, length) == sum);
      uint64_t offset = length * 0x9E3779B97F4A7C15u;
      uint32_t count = (uint32_t)(start * 0x85EBCA6Bu);
      uint8_t place[12];
      for (int i = 0; i < 8; i++) place[i] = (uint8_t)(offset >> (8 * i));
      for (int i = 0; i < 4; i++) place[8 + i] = (uint8_t)(count >> (8 * i));
      uint32_t expected = moraine_crc32c_table(moraine_crc32c_table(seed, place, 12), p, length);
      EXPECT(moraine_crc32c_place(seed, offset, count, p, length) == expected);
    }
  }
}

static void check_files(const char *path) {
  EXPECT(moraine_mkdir(path, 0700) >= 0 || errno == EEXIST);
  int directory = moraine_open_directory(path);
  EXPECT(directory >= 0);
  int file = moraine_openat(directory, "a", O_RDWR | O_CREAT | O_EXCL, 0600);
  EXPECT(file >= 0);
  EXPECT(moraine_openat(directory, "a", O_RDWR | O_CREAT | O_EXCL, 0600) == -EEXIST);
  EXPECT(moraine_lock(file, false) >= 0);
  int kept = moraine_keep_in_place(file);
  EXPECT(kept >= 0 || kept == -ENOTSUP);
  int allocated = moraine_allocate(file, 0, 65536);
  EXPECT(allocated >= 0 || allocated == -EOPNOTSUPP);
  EXPECT(moraine_pwrite(file, bytes, span, 100) == span);
  EXPECT(moraine_sync_data(file) >= 0 && moraine_sync_full(file) >= 0);
  uint8_t back[span];
  EXPECT(moraine_pread(file, back, span, 100) == span && memcmp(back, bytes, span) == 0);
  int error = 0;
  uint8_t *base = moraine_map(file, 8192, true, &error);
  EXPECT(base != NULL && memcmp(base + 100, bytes, span) == 0);
  base[100] ^= 1;
  EXPECT(moraine_flush_mapping(base, 8192) >= 0);
  EXPECT(moraine_pread(file, back, 1, 100) == 1 && back[0] == (bytes[0] ^ 1));
  moraine_unmap(base, 8192);
  EXPECT(moraine_renameat(directory, "a", "b") >= 0);
  EXPECT(moraine_openat(directory, "a", O_RDONLY, 0) == -ENOENT);
  struct moraine_extent extent;
  EXPECT(moraine_inspect(directory, "a", &extent) == -ENOENT);
  EXPECT(moraine_inspect(directory, "b", &extent) == 0);
  struct stat status;
  EXPECT(fstat(file, &status) == 0 && extent.length == (uint64_t)status.st_size);
  EXPECT(extent.device == (uint64_t)status.st_dev && extent.inode == (uint64_t)status.st_ino);
  EXPECT(moraine_ftruncate(file, 10) >= 0 && moraine_free_bytes(directory) > 0);
  EXPECT(moraine_sync_full(directory) >= 0);
  moraine_unlock(file);
  EXPECT(moraine_unlinkat(directory, "b") >= 0);
  close(file);
  close(directory);
  EXPECT(rmdir(path) == 0);
}

int main(int count, char **arguments) {
  if (count != 2) return 2;
  check_checksums();
  check_files(arguments[1]);
  const char *methods[] = {"table", "instruction", "streams", "folding"};
  printf("right; checksums by %s\n", methods[moraine_crc32c_fastest()]);
  return 0;
}
