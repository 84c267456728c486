public import MoraineEngine

/// The bytes of an object that is written. A long body need not be in memory as a whole: a store of
/// objects asks for it piece by piece, and again when it repeats a request.
public struct ObjectBody: Sendable {
  /// Calls its argument with the pieces in their order, until it returns false.
  public typealias Pieces =
    @Sendable ((UnsafeRawBufferPointer) -> Bool) throws(StoreError) -> Void

  /// The length of all pieces together.
  public let byteCount: Int
  private let pieces: Pieces

  /// Creates a body of pieces.
  ///
  /// - Parameters:
  ///   - byteCount: the length of all pieces together.
  ///   - pieces: gives the same bytes in each call.
  public init(byteCount: Int, pieces: @escaping Pieces) {
    precondition(byteCount >= 0, "a body has a length")
    (self.byteCount, self.pieces) = (byteCount, pieces)
  }

  /// Creates a body of bytes that are in memory.
  public init(_ bytes: [UInt8]) {
    self.init(byteCount: bytes.count) { visit in bytes.withUnsafeBytes { _ = visit($0) } }
  }

  /// Calls the argument with the pieces in their order, until it returns false. A piece is valid
  /// during the call only.
  ///
  /// - Throws: the error of reading a piece.
  public func forEachPiece(_ visit: (UnsafeRawBufferPointer) -> Bool) throws(StoreError) {
    try pieces(visit)
  }

  /// All bytes. For short bodies.
  public var bytes: [UInt8] {
    get throws(StoreError) {
      var result: [UInt8] = []
      result.reserveCapacity(byteCount)
      try pieces {
        result.append(contentsOf: $0)
        return true
      }
      precondition(result.count == byteCount, "the pieces of a body have another length")
      return result
    }
  }
}
