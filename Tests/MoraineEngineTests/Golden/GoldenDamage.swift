import MoraineEngine
import MoraineFormat
import MoraineStorage
import SystemPackage

/// Looks at a golden store with one file changed.
struct GoldenDamage {
  let golden: GoldenStore
  let mode: Configuration.IOMode
  /// The segment that was appended to when the process was killed.
  let openSegment: String?
  /// Up to where that one was durable, for whoever reads all of it.
  let durableOffset: Int

  init(_ golden: GoldenStore, _ mode: Configuration.IOMode) throws {
    self.golden = golden
    self.mode = mode
    openSegment = try golden.manifest.segments.last { !$0.isSealed }?.number.fileName
    durableOffset = try openSegment.map { try Self.promise(golden.files[$0]!).offset } ?? 0
  }

  /// - Returns: what was wrong, or nil: the right answer, or an error that says where.
  func complaint(
    _ file: String, _ bytes: [UInt8]?, at place: Int, isCut: Bool
  ) async throws -> String? {
    var changed = golden
    changed.files[file] = bytes
    let storage = try changed.storage()
    let isTorn = file == openSegment && (isCut || place >= durableOffset)
    let least = isTorn ? try leastSequence(bytes ?? []) : nil
    var seen: GoldenStore.Contents?
    do throws(StoreError) {
      seen = try await contents(storage, isReadOnly: true)
      if let answer = judge(seen!, least) { return "read only: \(answer)" }
    } catch {
      if let answer = judge(error, file) { return "read only: \(answer)" }
    }
    do throws(StoreError) {
      let found = try await contents(storage, isReadOnly: false)
      if let answer = judge(found, least) { return "writable: \(answer)" }
      if let seen, seen != found { return "a reader sees something else" }
      seen = found
      let again = try await contents(storage, isReadOnly: false)
      if again != found { return "changed by opening again" }
    } catch {
      if let answer = judge(error, file) { return "writable: \(answer)" }
    }
    return nil
  }

  /// All, or of a torn log a prefix with everything that was durable.
  private func judge(_ found: GoldenStore.Contents, _ least: UInt64?) -> String? {
    if found == golden.expected { return nil }
    guard let least, let history = golden.history else { return "other contents" }
    guard let end = history.end(of: found) else { return "no prefix of what was written" }
    return end >= least ? nil : "ends at \(end), but \(least) was durable"
  }

  private func judge(_ error: StoreError, _ file: String) -> String? {
    if file.hasSuffix(".index") { return "a checkpoint stopped it: \(error)" }
    let isTyped = error.code == .corrupted || error.code == .newerFormat
    guard isTyped || error.code == .notAStore else { return "an odd error: \(error)" }
    return error.file == nil ? "an error without a file: \(error)" : nil
  }

  /// Reads everything in all ways, and in a writable store has it copied, too.
  private func contents(
    _ storage: MemoryStorage, isReadOnly: Bool
  ) async throws(StoreError) -> GoldenStore.Contents {
    var configuration = Configuration.testing(segmentSizeBytes: 1024, ioMode: mode)
    configuration.compaction = .manual
    configuration.checkpointFloorBytes = 0
    configuration.isReadOnly = isReadOnly
    let store = try Store(on: storage, at: "store", configuration: configuration)
    let result: Result<GoldenStore.Contents, StoreError>
    do throws(StoreError) {
      result = .success(try await read(store, compacts: !isReadOnly))
    } catch {
      result = .failure(error)
    }
    try await store.close()
    return try result.get()
  }

  private func read(
    _ store: Store, compacts: Bool
  ) async throws(StoreError) -> GoldenStore.Contents {
    let found = try await store.goldenContents()
    for key in golden.expected.keys {
      let value = try await store.value(forKey: key)
      precondition(value == found[key]?.value, "\(key): iterating and asking differ")
    }
    guard compacts else { return found }
    try await store.compact()
    let after = try await store.goldenContents()
    precondition(after == found, "compaction changed what is there")
    return found
  }

  /// What a log that is cut or damaged behind its durable part must still hold.
  private func leastSequence(_ bytes: [UInt8]) throws -> UInt64 {
    let listed = try golden.manifest.lastSequence.rawValue
    guard bytes.count >= SegmentHeader.fixedLength else { return listed }
    return max(listed, try Self.promise(bytes).sequence)
  }

  /// The farthest promise of its marks, and the last operation before that.
  private static func promise(_ bytes: [UInt8]) throws -> (offset: Int, sequence: UInt64) {
    let places = try GoldenStore.places(in: bytes)
    var offset = 0
    for place in places where place.header.kind == .syncMark {
      let start = place.offset + place.header.valueOffset
      let mark = try bytes[start..<start + place.header.storedLength].withUnsafeBytes {
        try SyncMark(decoding: $0)
      }
      offset = max(offset, Int(mark.durableOffset))
    }
    let before = places.filter { $0.offset < offset }.map(\.header.sequence)
    return (offset, before.max() ?? 0)
  }
}
