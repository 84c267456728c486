/// A running, order-independent digest of the live state: the sum, modulo 2^128, of a mix of key
/// hash and sequence number of every live record.
///
/// Recovery must reproduce the digest, compaction must not change it, and a restored copy must have
/// the same one. Adding or removing a record costs a few multiplications.
public struct StateDigest: Hashable, Sendable {
  /// The lower half.
  public var low: UInt64
  /// The upper half.
  public var high: UInt64

  /// Creates a digest from its halves. The default is the digest of the empty state.
  @inlinable
  public init(low: UInt64 = 0, high: UInt64 = 0) {
    self.low = low
    self.high = high
  }

  /// Returns the digest of one live record.
  @inlinable
  public static func of(hash: UInt64, sequence: UInt64) -> StateDigest {
    let (a, b) = halves(hash, sequence)
    return StateDigest(low: a, high: b)
  }

  /// Adds the records of another digest.
  @inlinable
  public mutating func add(_ other: StateDigest) {
    let (sum, carry) = low.addingReportingOverflow(other.low)
    low = sum
    high = high &+ other.high &+ (carry ? 1 : 0)
  }

  /// Removes the records of another digest.
  @inlinable
  public mutating func remove(_ other: StateDigest) {
    let (difference, borrow) = low.subtractingReportingOverflow(other.low)
    low = difference
    high = high &- other.high &- (borrow ? 1 : 0)
  }

  /// Adds a live record.
  @inlinable
  public mutating func add(hash: UInt64, sequence: UInt64) {
    add(.of(hash: hash, sequence: sequence))
  }

  /// Removes a record that is no longer live.
  @inlinable
  public mutating func remove(hash: UInt64, sequence: UInt64) {
    remove(.of(hash: hash, sequence: sequence))
  }

  @inlinable
  static func halves(_ hash: UInt64, _ sequence: UInt64) -> (UInt64, UInt64) {
    let a = mix(hash ^ mix(sequence &+ 0x9E37_79B9_7F4A_7C15))
    return (a, mix(a &+ sequence &+ 0xD1B5_4A32_D192_ED03))
  }

  /// The finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
  @inlinable
  public static func mix(_ value: UInt64) -> UInt64 {
    var x = value
    x = (x ^ (x &>> 30)) &* 0xBF58_476D_1CE4_E5B9
    x = (x ^ (x &>> 27)) &* 0x94D0_49BB_1331_11EB
    return x ^ (x &>> 31)
  }
}

extension StateDigest: CustomStringConvertible {
  /// The sixteen bytes as the files hold them, in hexadecimal.
  public var description: String {
    [low, high].map { half in
      withUnsafeBytes(of: half.littleEndian) { Hex.encode($0) }
    }.joined()
  }
}
