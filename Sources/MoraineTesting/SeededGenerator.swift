/// A generator of random numbers that a seed repeats: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
///
/// Print the seed when a test fails, so that the failure can be repeated.
public struct SeededGenerator: RandomNumberGenerator, Sendable {
  private var state: UInt64

  /// Creates a generator. The same seed gives the same numbers on every machine.
  public init(seed: UInt64) {
    state = seed
  }

  /// Returns the next number.
  public mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var z = state
    z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
    z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
    return z ^ (z >> 31)
  }
}
