import MoraineFormat
import MoraineStorage
import Testing

@testable import MoraineEngine

/// The index that was loaded from a checkpoint, and whose pages were not validated yet.
@Suite struct LoadedIndexTests {
  private final class Memory: FileMapping {
    let lengthBytes: Int
    private let address: UInt

    init(_ lengthBytes: Int) {
      self.lengthBytes = lengthBytes
      let bytes = UnsafeMutableRawPointer.allocate(byteCount: lengthBytes, alignment: 4096)
      bytes.initializeMemory(as: UInt8.self, repeating: 0, count: lengthBytes)
      address = UInt(bitPattern: bytes)
    }

    deinit { base.deallocate() }

    var base: UnsafeMutableRawPointer { UnsafeMutableRawPointer(bitPattern: address)! }

    func prefault(from start: Int, to end: Int) {}

    func slot(at place: Int) -> UInt64 { base.load(fromByteOffset: place, as: UInt64.self) }
  }

  /// Returns the pages of a checkpoint of the index, after a change that the checksums do not
  /// reveal.
  private func checkpoint(
    _ index: inout HashIndex, forging change: (CheckpointHeader, Memory) throws -> Void
  ) throws -> CheckpointPages {
    var header = CheckpointHeader.covering()
    index.describe(in: &header)
    let pageCount = header.bucketPageCount + header.overflowPageCount
    header.pageChecksums = Array(repeating: 0, count: pageCount)
    let frozen = index.freeze()
    let memory = Memory(header.fileLengthBytes)
    func page(_ number: Int) -> UnsafeMutableRawBufferPointer {
      UnsafeMutableRawBufferPointer(
        start: memory.base + header.lengthBytes + number * CheckpointHeader.pageBytes,
        count: CheckpointHeader.pageBytes)
    }
    for number in 0..<pageCount { frozen.copy(page: number, of: header, to: page(number)) }
    try change(header, memory)
    for number in 0..<pageCount {
      header.pageChecksums[number] = header.checksum(
        ofPage: number, UnsafeRawBufferPointer(page(number)))
    }
    return CheckpointPages(header, memory)
  }

  /// Returns the highest bucket without a link. Splits begin with the lowest.
  private func highestUnlinked(_ header: CheckpointHeader, _ memory: Memory) -> Int? {
    (0..<Int(header.bucketCount)).last { bucket in
      memory.slot(at: header.lengthBytes + bucket * HashIndex.bucketBytes + 56) == 0
    }
  }

  /// Regression: such a link passed validation, so two chains shared the added bucket. A split then
  /// freed it twice, and the keys of the other chain were lost.
  @Test func forgedLinkToABucketThatIsAddedLaterFailsValidation() throws {
    var original = try HashIndex()
    original.insert(0..<20_000)
    var forged = -1
    let pages = try checkpoint(&original) { header, memory in
      forged = try #require(highestUnlinked(header, memory))
      memory.base.storeBytes(
        of: HashIndex.link(to: Int(header.overflowCount)),
        toByteOffset: header.lengthBytes + forged * HashIndex.bucketBytes + 56, as: UInt64.self)
    }
    let loaded = Int(pages.header.overflowCount)
    guard var index = try HashIndex(pages) else {
      Issue.record("the checkpoint was refused at once")
      return
    }
    let hashes = NumberedHashes()
    var number = 20_000
    while index.overflow.count <= loaded {
      try #require(number < 40_000)
      let hash = NumberedHashes.hash(number)
      number += 1
      if index.place(hash).bucket == forged { continue }
      let isValid = index.validatePages(hash)
      #expect(isValid)
      index.insert(hash, NumberedHashes.address(number - 1), rehashing: hashes)
    }
    let isForgedValid = index.validatePages(bucket: forged)
    #expect(!isForgedValid)
    let isAllValid = index.validateAllPages()
    #expect(!isAllValid)
  }

  /// Regression: the entry was accepted, and a compaction that removed the segment did not remove it.
  @Test func entryThatTheHeaderDoesNotCountFailsValidation() throws {
    var original = try HashIndex()
    original.insert(0..<20_000)
    let pages = try checkpoint(&original) { header, memory in
      let free = (0..<Int(header.bucketCount) * HashIndex.slotsPerBucket).first { number in
        memory.slot(at: header.lengthBytes + number * 8) == 0
      }
      memory.base.storeBytes(
        of: NumberedHashes.address(7).rawValue,
        toByteOffset: header.lengthBytes + (try #require(free)) * 8, as: UInt64.self)
    }
    guard var index = try HashIndex(pages) else {
      Issue.record("the checkpoint was refused at once")
      return
    }
    let isValid = index.validateAllPages()
    #expect(!isValid)
  }

  /// The chains of validated buckets may have links to added buckets: this process made them.
  @Test func chainsThatGrewAfterLoadingStayValid() throws {
    var original = try HashIndex()
    original.insert(0..<20_000)
    let pages = try checkpoint(&original) { _, _ in }
    let loaded = Int(pages.header.overflowCount)
    guard var index = try HashIndex(pages) else {
      Issue.record("the checkpoint was refused at once")
      return
    }
    let hashes = NumberedHashes()
    for number in 20_000..<60_000 {
      let hash = NumberedHashes.hash(number)
      let isValid = index.validatePages(hash)
      #expect(isValid)
      index.insert(hash, NumberedHashes.address(number), rehashing: hashes)
    }
    let count = index.overflow.count
    #expect(count > loaded)
    let isAllValid = index.validateAllPages()
    #expect(isAllValid)
    for number in 0..<60_000 {
      let isThere = index.holds(number)
      #expect(isThere, "\(number)")
    }
  }
}
