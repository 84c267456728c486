package import MoraineFormat
import MoraineStorage

/// The name of a segment for ever: the salt is random, so not even a copy of the store that went on
/// by itself has another segment with it.
package struct SegmentIdentity: Hashable, Sendable {
  package var number: SegmentNumber
  package var epoch: UInt64
  package var salt: UInt64

  package init(number: SegmentNumber, epoch: UInt64, salt: UInt64) {
    (self.number, self.epoch, self.salt) = (number, epoch, salt)
  }
}

/// A pin on the files of a store.
protocol FilePin: Sendable {
  /// Throws if the pin keeps the files no longer. When it returns, what was read from the files
  /// before is the store's.
  func check() throws(StoreError)
}

/// The first bytes of a segment. They stay readable when compaction removes the file; where the
/// file is neither mapped nor open, until the store leaves its directory.
///
/// Thread safety: the bytes are never written again. A mapping and an open file serve all threads.
package final class SegmentBytes: Sendable {
  package let identity: SegmentIdentity
  /// The segment as a manifest lists it, sealed; where it has no footer, with the flag for a
  /// segment that was cut.
  package let entry: Manifest.Segment
  let mapping: (any FileMapping)?
  private let file: (any StorageFile)?
  private let directory: any StorageDirectory
  /// Keeps the file on the disk, where it is neither mapped nor open.
  private let pin: (any FilePin)?
  private let seed: Checksum
  private let firstOffset: Int

  /// - Parameter pin: keeps the file; nil for a segment that is mapped or whose file is open.
  init(
    _ entry: Manifest.Segment, _ info: SegmentInfo, _ view: SegmentView,
    _ directory: any StorageDirectory, file: (any StorageFile)? = nil, pin: (any FilePin)?
  ) {
    assert(info.mapping != nil || file != nil || pin != nil, "nothing keeps a segment's bytes")
    identity = SegmentIdentity(number: info.number, epoch: info.epoch, salt: info.salt)
    (self.entry, mapping, self.directory) = (entry, info.mapping, directory)
    (self.file, self.pin) = (file, pin)
    (seed, firstOffset) = (view.seed, view.firstOffset)
  }

  package var lengthBytes: Int { Int(entry.lengthBytes) }

  /// Whether compaction has written the segment. The log as it was appended does not contain it.
  package var isCompacted: Bool { entry.flags.contains(.compacted) }

  /// Calls the body with bytes of the segment.
  ///
  /// - Throws: `.corrupted` when the file ends earlier; `.io`; `.suspended` when the store has left
  ///   its directory, and with it the file; the errors of the body.
  package func withBytes<Result>(
    _ range: Range<Int>, _ body: (UnsafeRawBufferPointer) throws(StoreError) -> Result
  ) throws(StoreError) -> Result {
    precondition(range.upperBound <= lengthBytes, "bytes lie after the end of their segment")
    let (opened, start) = try inStay { () throws(StoreError) in
      let opened = try source()
      return (opened, try opened.bytes(at: range.lowerBound, count: range.count))
    }
    defer { withExtendedLifetime(opened) {} }
    return try body(UnsafeRawBufferPointer(start: start, count: range.count))
  }

  /// Runs a read of the file, and checks afterwards that the file is still the store's.
  private func inStay<Result>(
    _ read: () throws(StoreError) -> Result
  ) throws(StoreError) -> Result {
    let result: Result
    do throws(StoreError) { result = try read() } catch {
      try pin?.check()
      throw error
    }
    try pin?.check()
    return result
  }

  /// Checks each record between two places: the first is the end of a record or 0, for the header.
  ///
  /// - Throws: `.corrupted`, with the offset, when the bytes are not those that were appended, or
  ///   when the second place is not the end of a record; `.io`; `.suspended` as for
  ///   ``withBytes(_:_:)``.
  /// - Complexity: O(bytes).
  package func verify(from start: Int, to end: Int) throws(StoreError) {
    try inStay { () throws(StoreError) in try verifyRecords(from: start, to: end) }
  }

  private func verifyRecords(from start: Int, to end: Int) throws(StoreError) {
    let name = entry.number.fileName
    let source = try source(length: end)
    if start < firstOffset {
      let header = try SegmentFile.header(source, name)
      guard header.checksumSeed.value == seed.value else {
        throw .corrupted("the header of a segment has changed", name, at: 0)
      }
    }
    var scanner = SegmentScanner(
      source: source, name: name, seed: seed, offset: max(start, firstOffset))
    while true {
      switch try scanner.next() {
      case .record: continue
      case .end: return
      case .stop(let reason): throw .corrupted(reason, name, at: scanner.offset)
      }
    }
  }

  /// Throws `.suspended` or `.closed` if the file may belong to another store by now. Mapped bytes
  /// stay the store's.
  package func check() throws(StoreError) { try pin?.check() }

  private func source(length: Int? = nil) throws(StoreError) -> ByteSource {
    let name = entry.number.fileName
    let opened = mapping == nil && file == nil ? try open(name) : file
    return ByteSource(
      file: opened, name: name, length: length ?? lengthBytes, mapping: mapping)
  }

  private func open(_ name: String) throws(StoreError) -> any StorageFile {
    let opened = try storing { () throws(StorageError) in try directory.openFile(name, .read) }
    guard let opened else { throw .corrupted("a segment file is missing", name, at: 0) }
    return opened
  }
}
