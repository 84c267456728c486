import MoraineEngine
import MoraineFormat
import MoraineStorage
import SystemPackage

/// Reads a golden store with one file changed.
struct GoldenDamage {
  /// A sync mark in the segment that was open when the process was killed.
  private struct Mark {
    let places: Range<Int>
    /// The offset up to which the segment was durable, and the last operation before that offset.
    let durableOffset: Int
    let sequence: UInt64
  }

  let golden: GoldenStore
  let mode: Store.Configuration.IOMode
  let openSegment: String?
  private let marks: [Mark]

  init(_ golden: GoldenStore, _ mode: Store.Configuration.IOMode) throws {
    self.golden = golden
    self.mode = mode
    openSegment = try golden.manifest.segments.last { !$0.isSealed }?.number.fileName
    marks = try openSegment.map { try Self.marks(golden.files[$0]!) } ?? []
  }

  /// The offset up to which the open segment was durable, for a reader of all its marks.
  var durableOffset: Int { marks.map(\.durableOffset).max() ?? 0 }

  /// - Parameters:
  ///   - bytes: nil to remove the file.
  ///   - place: all bytes before it are unchanged.
  /// - Returns: the problem that was found, or nil: the answer is right, or an error names the
  ///   place.
  func complaint(
    _ file: String, _ bytes: [UInt8]?, from place: Int
  ) async throws -> String? {
    var changed = golden
    changed.files[file] = bytes
    let storage = try changed.storage()
    let least = try leastSequence(file, bytes, from: place)
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

  /// Accepts all contents, or, for a torn log, a prefix that holds everything that was durable.
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

  /// Reads everything in all ways, and compacts it too in a writable store.
  private func contents(
    _ storage: MemoryStorage, isReadOnly: Bool
  ) async throws(StoreError) -> GoldenStore.Contents {
    var configuration = Store.Configuration.testing(segmentSizeBytes: 1024, ioMode: mode)
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
    let difference = try await store.goldenDifference(
      from: found, keys: golden.expected.keys)
    precondition(difference == nil, "iterating and asking differ: \(difference ?? "")")
    guard compacts else { return found }
    try await store.compact()
    let after = try await store.goldenContents()
    precondition(after == found, "compaction changed what is there")
    return found
  }

  /// Returns the last operation that a log must hold when the damage looks like a torn write.
  /// Returns nil where no damage may look so: the damage is elsewhere, or a mark that is left
  /// promises the bytes before it.
  private func leastSequence(
    _ file: String, _ bytes: [UInt8]?, from place: Int
  ) throws -> UInt64? {
    guard file == openSegment, let bytes, let original = golden.files[file] else { return nil }
    let left = marks.filter { mark in
      mark.places.upperBound <= bytes.count && bytes[mark.places] == original[mark.places]
    }
    guard left.allSatisfy({ $0.durableOffset <= place }) else { return nil }
    return max(try golden.manifest.lastSequence.rawValue, left.map(\.sequence).max() ?? 0)
  }

  private static func marks(_ bytes: [UInt8]) throws -> [Mark] {
    let places = try GoldenStore.places(in: bytes)
    return try places.filter { $0.header.kind == .syncMark }.map { offset, header in
      let start = offset + header.valueOffset
      let mark = try bytes[start..<start + header.storedLength].withUnsafeBytes {
        try SyncMark(decoding: $0)
      }
      let durable = Int(mark.durableOffset)
      let before = places.filter { $0.offset < durable }.map(\.header.sequence)
      return Mark(
        places: offset..<offset + header.length, durableOffset: durable,
        sequence: before.max() ?? 0)
    }
  }
}
