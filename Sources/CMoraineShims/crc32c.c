// CRC-32C. Instruction: Intel SDM "CRC32", Arm ARM "CRC32CX". Table: one byte at a time, after
// D. V. Sarwate, "Computation of cyclic redundancy checks via table look-up", CACM 31(8), 1988.

#include "moraine_shims.h"

#include <pthread.h>
#include <string.h>

#if defined(__aarch64__)
#include <arm_acle.h>
#if defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif
#endif

typedef uint32_t (*crc32c_function)(uint32_t, const void *, size_t);
typedef uint32_t (*crc32c_place_function)(uint32_t, uint64_t, uint32_t, const void *, size_t);

static uint32_t table[256];
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

static void fill_table(void) {
  for (uint32_t i = 0; i < 256; i++) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; bit++) value = (value >> 1) ^ ((value & 1) ? 0x82F63B78u : 0);
    table[i] = value;
  }
}

uint32_t moraine_crc32c_table(uint32_t crc, const void *bytes, size_t length) {
  pthread_once(&table_once, fill_table);
  const uint8_t *p = bytes;
  crc = ~crc;
  while (length--) crc = (crc >> 8) ^ table[(crc ^ *p++) & 0xFF];
  return ~crc;
}

static uint32_t crc32c_place_table(
    uint32_t crc, uint64_t offset, uint32_t count, const void *bytes, size_t length) {
  uint8_t place[12];
  for (int i = 0; i < 8; i++) place[i] = (uint8_t)(offset >> (8 * i));
  for (int i = 0; i < 4; i++) place[8 + i] = (uint8_t)(count >> (8 * i));
  return moraine_crc32c_table(moraine_crc32c_table(crc, place, 12), bytes, length);
}

#if defined(__x86_64__)
// Takes and gives the register's own value, which is the complement of the checksum.
__attribute__((target("sse4.2"), always_inline))
static inline uint32_t crc32c_register(uint32_t crc, const uint8_t *p, size_t length) {
  uint64_t value = crc;
  for (; length >= 8; p += 8, length -= 8) {
    uint64_t word;
    memcpy(&word, p, 8);
    value = __builtin_ia32_crc32di(value, word);
  }
  uint32_t tail = (uint32_t)value;
  if (length & 4) {
    uint32_t word;
    memcpy(&word, p, 4);
    tail = __builtin_ia32_crc32si(tail, word);
    p += 4;
  }
  for (length &= 3; length; length--) tail = __builtin_ia32_crc32qi(tail, *p++);
  return tail;
}
__attribute__((target("sse4.2")))
static uint32_t crc32c_hardware(uint32_t crc, const void *bytes, size_t length) {
  return ~crc32c_register(~crc, bytes, length);
}
__attribute__((target("sse4.2")))
static uint32_t crc32c_place_hardware(
    uint32_t crc, uint64_t offset, uint32_t count, const void *bytes, size_t length) {
  uint32_t value = (uint32_t)__builtin_ia32_crc32di((uint32_t)~crc, offset);
  return ~crc32c_register(__builtin_ia32_crc32si(value, count), bytes, length);
}
static bool has_hardware(void) {
  __builtin_cpu_init();
  return __builtin_cpu_supports("sse4.2");
}
#elif defined(__aarch64__)
#if defined(__clang__)
#define WITH_CRC __attribute__((target("crc")))
#else
#define WITH_CRC __attribute__((target("+crc")))
#endif
WITH_CRC static uint32_t crc32c_register(uint32_t crc, const uint8_t *p, size_t length) {
  for (; length >= 8; p += 8, length -= 8) {
    uint64_t word;
    memcpy(&word, p, 8);
    crc = __crc32cd(crc, word);
  }
  for (; length; length--) crc = __crc32cb(crc, *p++);
  return crc;
}
WITH_CRC static uint32_t crc32c_hardware(uint32_t crc, const void *bytes, size_t length) {
  return ~crc32c_register(~crc, bytes, length);
}
WITH_CRC static uint32_t crc32c_place_hardware(
    uint32_t crc, uint64_t offset, uint32_t count, const void *bytes, size_t length) {
  return ~crc32c_register(__crc32cw(__crc32cd(~crc, offset), count), bytes, length);
}
static bool has_hardware(void) {
#if defined(__linux__)
  return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
#else
  return true;  // Every Apple processor with AArch64 that macOS 15 or iOS 18 runs on has it.
#endif
}
#else
#define crc32c_hardware moraine_crc32c_table
#define crc32c_place_hardware crc32c_place_table
static bool has_hardware(void) { return false; }
#endif

static crc32c_function chosen;
static crc32c_place_function chosen_place;
static bool hardware;

__attribute__((constructor)) static void choose(void) {
  pthread_once(&table_once, fill_table);
  hardware = has_hardware();
  chosen = hardware ? crc32c_hardware : moraine_crc32c_table;
  chosen_place = hardware ? crc32c_place_hardware : crc32c_place_table;
}

uint32_t moraine_crc32c(uint32_t crc, const void *bytes, size_t length) {
  return chosen(crc, bytes, length);
}

uint32_t moraine_crc32c_place(
    uint32_t crc, uint64_t offset, uint32_t count, const void *bytes, size_t length) {
  return chosen_place(crc, offset, count, bytes, length);
}

bool moraine_crc32c_is_hardware(void) { return hardware; }
