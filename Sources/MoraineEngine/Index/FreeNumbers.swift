/// Set of the numbers of the overflow buckets that belong to no chain.
///
/// The set has a bit for each number; above that, a bit for each word that is not zero, and a bit
/// for each of those words. So the lowest number is found in a few words, and the numbers in use
/// stay low: a chain that is made again takes numbers below the count of those in use, and the end
/// of the overflow area becomes free.
struct FreeNumbers {
  private var words: [UInt64] = []
  private var groups: [UInt64] = []
  /// One word for 2^18 numbers: 1024 words for all that an index can have.
  private var tops: [UInt64] = []
  private(set) var count = 0

  func contains(_ number: Int) -> Bool {
    let word = number >> 6
    return word < words.count && words[word] & Self.bit(number) != 0
  }

  /// - Complexity: O(1), amortized.
  mutating func insert(_ number: Int) {
    assert(number >= 0 && number < 1 << Address.offsetBits, "no link can name a freed bucket")
    assert(!contains(number), "an overflow bucket is freed twice")
    let (word, group, top) = (number >> 6, number >> 12, number >> 18)
    if word >= words.count { extend(through: number) }
    words[word] |= Self.bit(number)
    groups[group] |= Self.bit(word)
    tops[top] |= Self.bit(group)
    count &+= 1
  }

  /// - Complexity: O(numbers / 2^18).
  mutating func removeLowest() -> Int? {
    guard count > 0, let top = tops.firstIndex(where: { $0 != 0 }) else { return nil }
    let group = top << 6 | tops[top].trailingZeroBitCount
    let word = group << 6 | groups[group].trailingZeroBitCount
    let number = word << 6 | words[word].trailingZeroBitCount
    remove(number)
    return number
  }

  /// Removes a number that is in the set.
  ///
  /// - Complexity: O(1).
  mutating func remove(_ number: Int) {
    assert(contains(number), "an overflow bucket in use is taken again")
    let (word, group, top) = (number >> 6, number >> 12, number >> 18)
    count &-= 1
    words[word] &= ~Self.bit(number)
    guard words[word] == 0 else { return }
    groups[group] &= ~Self.bit(word)
    guard groups[group] == 0 else { return }
    tops[top] &= ~Self.bit(group)
  }

  private mutating func extend(through number: Int) {
    func append(_ shift: Int, _ words: inout [UInt64]) {
      let missing = (number >> shift) + 1 - words.count
      if missing > 0 { words.append(contentsOf: repeatElement(0, count: missing)) }
    }
    append(6, &words)
    append(12, &groups)
    append(18, &tops)
  }

  @inline(__always)
  private static func bit(_ number: Int) -> UInt64 { 1 &<< UInt64(number & 63) }
}
