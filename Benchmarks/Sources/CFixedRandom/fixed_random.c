// Random numbers that are the same in each run. A store draws the key of its hashes from them, and where
// keys lie in the index decides how many instructions it takes to find them.

#include "fixed_random.h"

#include <stdint.h>

void swift_stdlib_random(void *bytes, size_t length) {
  static uint64_t state = 1;
  uint8_t *p = bytes;
  for (size_t i = 0; i < length; i++) {
    // D. E. Knuth's MMIX generator, TAOCP 2, 3.3.4.
    state = state * 6364136223846793005u + 1442695040888963407u;
    p[i] = (uint8_t)(state >> 56);
  }
}
