/// A random 128-bit name: of a store, or of one copy of it.
public struct Identifier: Hashable, Sendable {
  public let low: UInt64
  public let high: UInt64

  public init(low: UInt64, high: UInt64) {
    self.low = low
    self.high = high
  }
}

extension Identifier: CustomStringConvertible {
  public var description: String {
    [low, high].map { half in
      withUnsafeBytes(of: half.littleEndian) { Hex.encode($0) }
    }.joined()
  }
}
