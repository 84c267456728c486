// CRC-32C. Instruction: Intel SDM "CRC32", Arm ARM "CRC32CX". Table: one byte at a time, after
// D. V. Sarwate, "Computation of cyclic redundancy checks via table look-up", CACM 31(8), 1988.

#include "moraine_shims.h"

#include <pthread.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
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
// Long inputs are three streams at once, which hides the instruction's latency of three cycles. The
// streams' registers are joined by multiplying with x to the power of the number of bits that
// follow: V. Gopal et al., "Fast CRC Computation for iSCSI Polynomial Using CRC32 Instruction",
// Intel, 2011.
enum { long_stream = 1024, short_stream = 128 };
typedef struct {
  uint32_t once, twice;  // past one stream, past two
} crc32c_shifts;
static crc32c_shifts long_shifts, short_shifts;
static bool has_multiply;

// x^power modulo the polynomial, the highest power of x in the lowest bit.
static uint32_t power_of_x(unsigned power) {
  uint32_t value = 0x80000000u;
  while (power--) value = (value >> 1) ^ ((value & 1) ? 0x82F63B78u : 0);
  return value;
}
// The product of two reflected values has one power of x too many, and the instruction multiplies
// by x^32 while it reduces.
static crc32c_shifts shifts_past(unsigned bytes) {
  return (crc32c_shifts){power_of_x(8 * bytes - 33), power_of_x(16 * bytes - 33)};
}
__attribute__((target("sse4.2,pclmul"), always_inline))
static inline uint32_t shifted(uint64_t crc, uint32_t shift) {
  __m128i product =
      _mm_clmulepi64_si128(_mm_cvtsi64_si128((int64_t)crc), _mm_cvtsi64_si128(shift), 0);
  return (uint32_t)_mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(product));
}
__attribute__((target("sse4.2,pclmul"), always_inline))
static inline uint32_t three_streams(
    uint32_t crc, const uint8_t *p, size_t stream, crc32c_shifts shifts) {
  uint64_t first = crc, second = 0, third = 0;
  for (const uint8_t *end = p + stream; p < end; p += 8) {
    uint64_t words[3];
    memcpy(&words[0], p, 8);
    memcpy(&words[1], p + stream, 8);
    memcpy(&words[2], p + 2 * stream, 8);
    first = _mm_crc32_u64(first, words[0]);
    second = _mm_crc32_u64(second, words[1]);
    third = _mm_crc32_u64(third, words[2]);
  }
  return shifted(first, shifts.twice) ^ shifted(second, shifts.once) ^ (uint32_t)third;
}
// Processes as many bytes as fill three streams, and leaves the rest.
__attribute__((target("sse4.2,pclmul"), noinline))
static uint32_t crc32c_streams(uint32_t crc, const uint8_t **bytes, size_t *length) {
  const uint8_t *p = *bytes;
  size_t left = *length;
  for (; left >= 3 * long_stream; p += 3 * long_stream, left -= 3 * long_stream)
    crc = three_streams(crc, p, long_stream, long_shifts);
  for (; left >= 3 * short_stream; p += 3 * short_stream, left -= 3 * short_stream)
    crc = three_streams(crc, p, short_stream, short_shifts);
  *bytes = p;
  *length = left;
  return crc;
}
// Takes and returns the register's own value, which is the complement of the checksum.
__attribute__((target("sse4.2"), always_inline))
static inline uint32_t crc32c_register(uint32_t crc, const uint8_t *p, size_t length) {
  if (length >= 3 * short_stream && has_multiply) crc = crc32c_streams(crc, &p, &length);
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
  long_shifts = shifts_past(long_stream);
  short_shifts = shifts_past(short_stream);
  has_multiply = __builtin_cpu_supports("pclmul");
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
