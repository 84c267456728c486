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

static moraine_crc32c_method fastest;
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
// Still longer inputs are folded, 256 bytes at a time: products move each 16 bytes of a block
// to the next block, to which they are added. V. Gopal et al., "Fast CRC Computation for Generic
// Polynomials Using PCLMULQDQ Instruction", Intel, 2009.
enum { folded_block = 256, shortest_folded = 512 };
typedef struct {
  uint64_t first, second;  // for the first 8 bytes of a lane, for the other 8
} crc32c_factors;
static crc32c_factors lane_factors, vector_factors, block_factors;

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
static crc32c_factors factors_past(unsigned bytes) {
  return (crc32c_factors){power_of_x(8 * bytes + 64 - 33), power_of_x(8 * bytes - 33)};
}
#define WITH_WIDE_MULTIPLICATION __attribute__((target("avx512f,vpclmulqdq,pclmul,sse4.2")))
WITH_WIDE_MULTIPLICATION __attribute__((always_inline))
static inline __m512i folded(__m512i lanes, __m512i factors, __m512i next) {
  __m512i first = _mm512_clmulepi64_epi128(lanes, factors, 0x00);
  __m512i second = _mm512_clmulepi64_epi128(lanes, factors, 0x11);
  return _mm512_xor_si512(_mm512_xor_si512(first, second), next);
}
WITH_WIDE_MULTIPLICATION __attribute__((always_inline))
static inline __m128i folded_lane(__m128i lane, __m128i factors, __m128i next) {
  __m128i first = _mm_clmulepi64_si128(lane, factors, 0x00);
  __m128i second = _mm_clmulepi64_si128(lane, factors, 0x11);
  return _mm_xor_si128(_mm_xor_si128(first, second), next);
}
// Processes all but the last 63 bytes at most, of at least `folded_block`.
WITH_WIDE_MULTIPLICATION __attribute__((noinline))
static uint32_t crc32c_folding(uint32_t crc, const uint8_t **bytes, size_t *length) {
  const uint8_t *p = *bytes;
  size_t left = *length;
  __m512i past_block = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)&block_factors));
  __m512i past_vector = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)&vector_factors));
  __m128i past_lane = _mm_loadu_si128((const void *)&lane_factors);
  __m512i lanes[4];
  for (int i = 0; i < 4; i++) lanes[i] = _mm512_loadu_si512(p + 64 * i);
  __m512i start = _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)crc));
  lanes[0] = _mm512_xor_si512(lanes[0], start);
  p += folded_block, left -= folded_block;
  for (; left >= folded_block; p += folded_block, left -= folded_block)
    for (int i = 0; i < 4; i++)
      lanes[i] = folded(lanes[i], past_block, _mm512_loadu_si512(p + 64 * i));
  __m512i sum = lanes[0];
  for (int i = 1; i < 4; i++) sum = folded(sum, past_vector, lanes[i]);
  for (; left >= 64; p += 64, left -= 64)
    sum = folded(sum, past_vector, _mm512_loadu_si512(p));
  __m128i lane = _mm512_castsi512_si128(sum);
  lane = folded_lane(lane, past_lane, _mm512_extracti32x4_epi32(sum, 1));
  lane = folded_lane(lane, past_lane, _mm512_extracti32x4_epi32(sum, 2));
  lane = folded_lane(lane, past_lane, _mm512_extracti32x4_epi32(sum, 3));
  *bytes = p;
  *length = left;
  uint64_t value = _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(lane));
  return (uint32_t)_mm_crc32_u64(value, (uint64_t)_mm_extract_epi64(lane, 1));
}
// Processes most of a long input, and leaves the rest.
static inline uint32_t crc32c_most(
    uint32_t crc, const uint8_t **bytes, size_t *length, moraine_crc32c_method method) {
  if (method == moraine_crc32c_by_folding && *length >= shortest_folded)
    return crc32c_folding(crc, bytes, length);
  if (method >= moraine_crc32c_by_streams) return crc32c_streams(crc, bytes, length);
  return crc;
}
// Takes and returns the register's own value, which is the complement of the checksum.
__attribute__((target("sse4.2"), always_inline))
static inline uint32_t crc32c_register(
    uint32_t crc, const uint8_t *p, size_t length, moraine_crc32c_method method) {
  if (length >= 3 * short_stream) crc = crc32c_most(crc, &p, &length, method);
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
  return ~crc32c_register(~crc, bytes, length, fastest);
}
__attribute__((target("sse4.2")))
static uint32_t crc32c_method(
    uint32_t crc, const void *bytes, size_t length, moraine_crc32c_method method) {
  return ~crc32c_register(~crc, bytes, length, method);
}
__attribute__((target("sse4.2")))
static uint32_t crc32c_place_hardware(
    uint32_t crc, uint64_t offset, uint32_t count, const void *bytes, size_t length) {
  uint32_t value = (uint32_t)__builtin_ia32_crc32di((uint32_t)~crc, offset);
  return ~crc32c_register(__builtin_ia32_crc32si(value, count), bytes, length, fastest);
}
static moraine_crc32c_method fastest_method(void) {
  __builtin_cpu_init();
  long_shifts = shifts_past(long_stream);
  short_shifts = shifts_past(short_stream);
  lane_factors = factors_past(16);
  vector_factors = factors_past(64);
  block_factors = factors_past(folded_block);
  if (!__builtin_cpu_supports("sse4.2")) return moraine_crc32c_by_table;
  if (!__builtin_cpu_supports("pclmul")) return moraine_crc32c_by_instruction;
  bool is_wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq");
  return is_wide ? moraine_crc32c_by_folding : moraine_crc32c_by_streams;
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
static uint32_t crc32c_method(
    uint32_t crc, const void *bytes, size_t length, moraine_crc32c_method method) {
  (void)method;
  return crc32c_hardware(crc, bytes, length);
}
WITH_CRC static uint32_t crc32c_place_hardware(
    uint32_t crc, uint64_t offset, uint32_t count, const void *bytes, size_t length) {
  return ~crc32c_register(__crc32cw(__crc32cd(~crc, offset), count), bytes, length);
}
static moraine_crc32c_method fastest_method(void) {
#if defined(__linux__)
  bool has_instruction = (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
  return has_instruction ? moraine_crc32c_by_instruction : moraine_crc32c_by_table;
#else
  // Every Apple processor with AArch64 that macOS 15 or iOS 18 runs on has it.
  return moraine_crc32c_by_instruction;
#endif
}
#else
#define crc32c_hardware moraine_crc32c_table
#define crc32c_place_hardware crc32c_place_table
static uint32_t crc32c_method(
    uint32_t crc, const void *bytes, size_t length, moraine_crc32c_method method) {
  (void)method;
  return moraine_crc32c_table(crc, bytes, length);
}
static moraine_crc32c_method fastest_method(void) { return moraine_crc32c_by_table; }
#endif

static crc32c_function chosen;
static crc32c_place_function chosen_place;

__attribute__((constructor)) static void choose(void) {
  pthread_once(&table_once, fill_table);
  fastest = fastest_method();
  bool has_instruction = fastest > moraine_crc32c_by_table;
  chosen = has_instruction ? crc32c_hardware : moraine_crc32c_table;
  chosen_place = has_instruction ? crc32c_place_hardware : crc32c_place_table;
}

uint32_t moraine_crc32c(uint32_t crc, const void *bytes, size_t length) {
  return chosen(crc, bytes, length);
}

uint32_t moraine_crc32c_place(
    uint32_t crc, uint64_t offset, uint32_t count, const void *bytes, size_t length) {
  return chosen_place(crc, offset, count, bytes, length);
}

moraine_crc32c_method moraine_crc32c_fastest(void) { return fastest; }

uint32_t moraine_crc32c_by(
    moraine_crc32c_method method, uint32_t crc, const void *bytes, size_t length) {
  if (method > fastest) method = fastest;
  if (method == moraine_crc32c_by_table) return moraine_crc32c_table(crc, bytes, length);
  return crc32c_method(crc, bytes, length, method);
}
