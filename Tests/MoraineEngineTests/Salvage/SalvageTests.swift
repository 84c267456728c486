import Foundation
import MoraineEngine
import MoraineFormat
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

/// Every intact record is recovered, and every lost record is named.
@Suite(.timeLimit(.minutes(10))) struct SalvageTests {
  static var seeds: Range<UInt64> {
    let text = ProcessInfo.processInfo.environment["MORAINE_SALVAGE_SEEDS"]
    return 0..<(text.flatMap { UInt64($0) } ?? 400)
  }

  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func intactRecordsAreRecovered(mode: Store.Configuration.IOMode) async throws {
    for seed in Self.seeds { try await run(seed, mode) }
  }

  private func run(_ seed: UInt64, _ mode: Store.Configuration.IOMode) async throws {
    var random = SeededGenerator(seed: seed)
    var damaged = DamagedStore(mode: mode)
    try await damaged.write(&random)
    for name in damaged.segments.shuffled(using: &random).prefix(Int(random.next() % 4)) {
      try damaged.damage(name, &random)
    }
    let what = Comment(
      rawValue: "MORAINE_SALVAGE_SEEDS=\(seed + 1), seed \(seed), \(mode): \(damaged.damage)")
    let (state, report) = try await damaged.salvage()
    let lost = Set(report.losses.filter { $0.kind == .segment }.map(\.file))
    for name in lost where damaged.damage[name]?.first != 0..<damaged.originals[name]!.count {
      let isHeaderDamaged = try damaged.isHeaderDamaged(name)
      #expect(isHeaderDamaged && !hasThreeInARow(damaged, name), "\(name) \(what)")
    }
    #expect(state == damaged.expected(without: lost), what)
    #expect(report.torn.isEmpty, what)
    checkNames(damaged, report, lost, what)
  }

  /// Whether the segment has enough records to reconstruct its header.
  private func hasThreeInARow(_ damaged: DamagedStore, _ name: String) -> Bool {
    let whole = damaged.records.filter { $0.file == name }.map { !damaged.isDamaged($0) }
    return zip(whole, zip(whole.dropFirst(), whole.dropFirst(2))).contains { $0 && $1.0 && $1.1 }
  }

  /// Checks that each lost record lies in a loss, and that no loss contains a recovered record.
  private func checkNames(
    _ damaged: DamagedStore, _ report: SalvageReport, _ lost: Set<String>, _ what: Comment
  ) {
    for record in damaged.records where !lost.contains(record.file) {
      let loss = report.losses.first { loss in
        loss.file == record.file && Int(loss.offset) <= record.range.lowerBound
          && record.range.upperBound <= Int(loss.offset + loss.lengthBytes)
      }
      #expect((loss != nil) == damaged.isDamaged(record), "\(record) \(what)")
      guard let loss else { continue }
      #expect(loss.after.rawValue < record.sequence, what)
      #expect(record.sequence < (loss.before?.rawValue ?? .max), what)
      if let count = loss.recordCount { #expect(count > 0, what) }
    }
    for loss in report.losses {
      // In key order, a damaged sequence number may be any of the segment's.
      let isClustered =
        damaged.originals[loss.file].map { bytes in
          bytes.count > 98 && bytes[98] & 1 != 0
        } ?? false
      for key in loss.keys {
        // The record names its key, unless the damage has hit the key too.
        let record = damaged.records.first { $0.sequence == key.sequence.rawValue }
        #expect(!key.isVerified && (record != nil || isClustered), what)
      }
    }
    if damaged.damage.values.allSatisfy(\.isEmpty) { #expect(report.isComplete, what) }
  }

  /// A missing or damaged manifest costs the names of the keyspaces and nothing else.
  @Test func theManifestIsNotNeeded() async throws {
    for seed in 0..<UInt64(40) {
      var random = SeededGenerator(seed: seed)
      var damaged = DamagedStore()
      try await damaged.write(&random)
      let offset = Int(random.next() % 160)
      // Every third store has lost records as well.
      let name = seed % 3 == 0 ? damaged.segments.randomElement(using: &random) : nil
      if let name {
        let record = try #require(damaged.records.last { $0.file == name })
        let place = record.range.lowerBound + 8
        try damaged.overwrite(name, at: place, with: [damaged.originals[name]![place] ^ 1])
      }
      if seed % 2 == 0 {
        try damaged.remove(Manifest.fileName)
      } else {
        let byte = try damaged.bytes(of: Manifest.fileName)[offset]
        try damaged.overwrite(Manifest.fileName, at: offset, with: [byte ^ 1])
      }
      let (state, report) = try await damaged.salvage()
      #expect(report.losses.map(\.kind) == (name == nil ? [.manifest] : [.manifest, .records]))
      let values = state.map { "\($0.key.key) \($0.value)" }.sorted()
      #expect(values == damaged.expected().map { "\($0.key.key) \($0.value)" }.sorted())
      #expect(state.keys.allSatisfy { $0.keyspace.isEmpty || $0.keyspace.hasPrefix("keyspace-") })
    }
  }

  /// A damaged header costs nothing where a segment has no dictionary.
  @Test func everyByteOfAHeaderMayBeDamaged() async throws {
    var random = SeededGenerator(seed: 1)
    var damaged = DamagedStore()
    try await damaged.write(&random)
    let name = try #require(damaged.segments.first)
    for offset in 0..<SegmentHeader.fixedLength {
      let byte = try damaged.bytes(of: name)[offset]
      try damaged.overwrite(name, at: offset, with: [byte ^ 0x40])
      let (state, report) = try await damaged.salvage(to: FilePath("salvaged \(offset)"))
      #expect(state == damaged.expected())
      #expect(report.segmentsWithoutHeader == [name])
      #expect(report.losses.isEmpty, "\(report.losses)")
      try damaged.overwrite(name, at: offset, with: [byte])
    }
  }

  /// An unreadable sector is a loss like any other, reported with the error of the disk.
  @Test func aSectorThatCannotBeReadIsNamed() async throws {
    let storage = FaultStorage(MemoryStorage())
    var random = SeededGenerator(seed: 2)
    var damaged = DamagedStore(storage, segmentSizeBytes: 20_000)
    try await damaged.write(&random, operations: 500)
    let name = try #require(damaged.segments.first)
    let length = try #require(damaged.originals[name]).count
    // The header is read first, then the whole file in one read, then each sector: the second read
    // fails.
    let count = Mutex(0)
    storage.setScript { event in
      guard event.operation == .read, event.file == name else { return nil }
      let number = count.withLock { count in
        count += 1
        return count
      }
      return number == 2 || number == 4 ? .fail(.ioError) : nil
    }
    damaged.note(name, 4096..<min(8192, length))
    let (state, report) = try await damaged.salvage()
    #expect(state == damaged.expected())
    #expect(
      report.losses.count == 1 && report.losses[0].reason.contains("could not read"),
      "\(report.losses)")
  }
}
