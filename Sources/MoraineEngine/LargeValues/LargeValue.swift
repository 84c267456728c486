import MoraineFormat
import Synchronization

/// A large value at one moment: a sequence of its pieces, each of ``LargeValues/pieceBytes``, the
/// last one shorter.
///
/// The value can be read several times, and from several tasks. Until it is released, the store
/// keeps its pieces, also when the key has another value by now.
public struct LargeValue: AsyncSequence, Sendable {
  public typealias Element = [UInt8]
  public typealias Failure = StoreError

  /// The key of the value.
  public let key: Key
  private let header: LargeValueHeader
  private let pieces: Store.Snapshot

  init(key: Key, header: LargeValueHeader, pieces: Store.Snapshot) {
    (self.key, self.header, self.pieces) = (key, header, pieces)
  }

  /// Length of the value in bytes.
  public var length: UInt64 { header.length }

  public func makeAsyncIterator() -> Iterator { Iterator(value: self) }

  /// Returns a part of the value.
  ///
  /// - Parameter range: offsets in bytes, which must not exceed ``length``.
  /// - Throws: `.corrupted` when a piece is missing or has another length; the errors of
  ///   ``Store/Snapshot/value(forKey:)``.
  /// - Complexity: O(bytes of the pieces that the range touches).
  public func bytes(in range: Range<UInt64>) async throws(StoreError) -> [UInt8] {
    precondition(range.upperBound <= length, "the range ends after the value")
    var result: [UInt8] = []
    if range.isEmpty { return result }
    // The length of the range comes from a record.
    result.reserveCapacity(Int(Swift.min(range.upperBound - range.lowerBound, 1 << 20)))
    let size = UInt64(header.pieceBytes)
    for number in range.lowerBound / size...(range.upperBound - 1) / size {
      let start = number * size
      let piece = try await piece(number)
      let lower = Swift.max(range.lowerBound, start) - start
      let upper = Swift.min(range.upperBound - start, UInt64(piece.count))
      result += piece[Int(lower)..<Int(upper)]
    }
    return result
  }

  /// Reads a piece on a thread of Swift's pool, so that a main actor does not wait for a disk.
  @concurrent
  fileprivate func piece(_ number: UInt64) async throws(StoreError) -> [UInt8] {
    let size = UInt64(header.pieceBytes)
    let expected = Swift.min(size, length - number * size)
    guard let piece = try pieces.value(forKey: header.id.pieceKey(UInt32(number))) else {
      throw damaged("its piece \(number) is missing")
    }
    guard piece.count == expected else {
      throw damaged("its piece \(number) has \(piece.count) bytes, not \(expected)")
    }
    return piece
  }

  fileprivate func damaged(_ what: String) -> StoreError {
    StoreError(.corrupted, "the large value '\(key)' is damaged: \(what)")
  }

  /// Reads piece after piece. For one task at a time.
  public struct Iterator: AsyncIteratorProtocol {
    private let value: LargeValue
    private var number: UInt64 = 0
    private var checksum = Checksum()

    fileprivate init(value: LargeValue) { self.value = value }

    /// - Throws: the errors of ``LargeValue/bytes(in:)``; `.corrupted` after the last piece when
    ///   the checksum of the whole value differs.
    public mutating func next(
      isolation actor: isolated (any Actor)?
    ) async throws(StoreError) -> [UInt8]? {
      guard number * UInt64(value.header.pieceBytes) < value.length else {
        guard checksum.value == value.header.checksum else {
          throw value.damaged("its checksum differs")
        }
        return nil
      }
      let piece = try await value.piece(number)
      piece.withUnsafeBytes { checksum.update($0) }
      number += 1
      return piece
    }
  }
}

/// The identity of the pieces of one value. No two values have the same one.
struct LargeValueID: Hashable {
  private static let byteCount = 16
  private static let claimLetter = UInt8(ascii: "c")
  private static let pieceLetter = UInt8(ascii: "p")
  private let bytes: [UInt8]

  /// Creates a random identity.
  init() {
    var generator = SystemRandomNumberGenerator()
    bytes = (0..<Self.byteCount).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
  }

  /// - Parameter bytes: 16 bytes.
  fileprivate init(_ bytes: ArraySlice<UInt8>) { self.bytes = Array(bytes) }

  /// Returns nil when the key is no claim.
  init?(claimKey: Key) {
    guard claimKey.bytes.count == 1 + Self.byteCount, claimKey.bytes[0] == Self.claimLetter else {
      return nil
    }
    bytes = Array(claimKey.bytes[1...])
  }

  static let claimPrefix = Key([claimLetter])
  /// The key of the record that says that the pieces belong to no value, and who writes them.
  var claimKey: Key { Key([Self.claimLetter] + bytes) }
  var piecePrefix: Key { Key([Self.pieceLetter] + bytes) }

  /// Returns the key of a piece. Keys of later pieces are greater.
  func pieceKey(_ number: UInt32) -> Key {
    let digits = (0..<4).map { UInt8(truncatingIfNeeded: number >> (24 - 8 * $0)) }
    return Key(piecePrefix.bytes + digits)
  }

  fileprivate func write(to writer: inout ByteWriter) { writer.append(contentsOf: bytes) }
}

/// The record of a key: which pieces its value has, and what they must be.
struct LargeValueHeader: Sendable {
  private static let mark: [UInt8] = Array("MLV1".utf8)
  static let byteCount = 37
  private static let version: UInt8 = 1

  let id: LargeValueID
  let length: UInt64
  let pieceBytes: UInt32
  /// CRC-32C of the value.
  let checksum: UInt32

  init(id: LargeValueID, length: UInt64, pieceBytes: UInt32, checksum: UInt32) {
    (self.id, self.length, self.pieceBytes, self.checksum) = (id, length, pieceBytes, checksum)
  }

  /// - Throws: `.newerFormat`, `.corrupted`.
  init(_ bytes: [UInt8], of key: Key) throws(StoreError) {
    guard bytes.count > Self.mark.count, bytes.starts(with: Self.mark) else {
      throw StoreError(.corrupted, "the entry of the key '\(key)' is no large value")
    }
    guard bytes[Self.mark.count] <= Self.version else {
      throw StoreError(
        .newerFormat, "the large value '\(key)' has version \(bytes[Self.mark.count])")
    }
    guard bytes.count == Self.byteCount else {
      throw StoreError(.corrupted, "the entry of the large value '\(key)' has a wrong length")
    }
    func integer(_ range: Range<Int>) -> UInt64 {
      bytes[range].reversed().reduce(0) { $0 << 8 | UInt64($1) }
    }
    id = LargeValueID(bytes[5..<21])
    length = integer(21..<29)
    pieceBytes = UInt32(integer(29..<33))
    checksum = UInt32(integer(33..<37))
    guard pieceBytes > 0, pieceBytes <= StoreLimits.valueLengthBytes, length <= UInt64(Int.max),
      length / UInt64(pieceBytes) <= UInt64(UInt32.max)
    else {
      throw StoreError(.corrupted, "the large value '\(key)' has pieces of a wrong length")
    }
  }

  var bytes: [UInt8] {
    var writer = ByteWriter()
    writer.append(contentsOf: Self.mark)
    writer.append(Self.version)
    id.write(to: &writer)
    writer.append(length)
    writer.append(pieceBytes)
    writer.append(checksum)
    assert(writer.bytes.count == Self.byteCount, "a header has another length than it says")
    return writer.bytes
  }
}

/// The last time at which something was done.
final class LastTime: Sendable {
  private let milliseconds = Atomic<UInt64>(0)

  /// Whether an interval has passed since, or nothing was done yet. The time is then the last one.
  func hasPassed(_ interval: UInt64, at now: UInt64) -> Bool {
    let last = milliseconds.load(ordering: .sequentiallyConsistent)
    guard last == 0 || now < last || now - last > interval else { return false }
    return milliseconds.compareExchange(
      expected: last, desired: now, ordering: .sequentiallyConsistent
    ).exchanged
  }
}
