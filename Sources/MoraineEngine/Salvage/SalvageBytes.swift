import MoraineFormat
import MoraineStorage

/// The bytes of a file, as far as the disk gives them.
///
/// In memory as a whole: a mapping would end the process where a sector cannot be read.
struct SalvageBytes: Sendable {
  private static let chunkBytes = 1 << 20
  private static let sectorBytes = 4096
  /// A record begins before 1 GiB, and is not longer than that and its fields.
  private static let limit = Limits.recordOffsetBytes + Limits.valueLengthBytes + (1 << 20)

  private(set) var bytes: [UInt8]
  /// Parts that could not be read, and why. There are zeros in their place.
  private(set) var unreadable: [(range: Range<Int>, error: StoreError)] = []

  /// - Parameter limit: how much of it is wanted, at most.
  init(_ file: any StorageFile, limit: Int?) throws(StoreError) {
    let length = try storing { () throws(StorageError) in try file.lengthBytes() }
    let wanted = min(Int(clamping: length), limit ?? .max, Self.limit)
    bytes = [UInt8](repeating: 0, count: max(0, wanted))
    var offset = 0
    while offset < bytes.count {
      let end = min(offset + Self.chunkBytes, bytes.count)
      if read(file, offset..<end) != nil {
        for start in stride(from: offset, to: end, by: Self.sectorBytes) {
          let sector = start..<min(start + Self.sectorBytes, end)
          if let error = read(file, sector) { unreadable.append((sector, error)) }
        }
      }
      offset = end
    }
  }

  /// What the disk said of a part that it did not give.
  func problem(in range: Range<Int>) -> StoreError? {
    unreadable.first { $0.range.overlaps(range) }?.error
  }

  /// Of a record that is known to be one.
  func header(at offset: Int) -> RecordHeader {
    bytes.withUnsafeBytes { bytes in
      let base = bytes.baseAddress! + offset
      guard let header = RecordHeader.parse(base, length: RecordHeader.length(at: base)) else {
        fatalError("a record that was read is none")
      }
      return header
    }
  }

  private mutating func read(_ file: any StorageFile, _ range: Range<Int>) -> StoreError? {
    bytes.withUnsafeMutableBytes { all in
      let target = UnsafeMutableRawBufferPointer(rebasing: all[range])
      do throws(StorageError) {
        _ = try file.read(into: target, at: UInt64(range.lowerBound))
        return nil
      } catch {
        target.initializeMemory(as: UInt8.self, repeating: 0)
        return StoreError(error)
      }
    }
  }
}
