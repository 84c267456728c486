import Foundation
import MoraineEngine

/// Makes readers of a Moraine store that do not use the actor: they read one snapshot on any
/// thread.
struct SnapshotMaker: ReaderMaker {
  static let engine = Report.Engine(
    name: "snapshot", title: "Moraine, snapshot", version: "this tree",
    settings:
      "reads of `store.snapshot()`, which do not suspend; a new one where others write, in a "
      + "task of the pool, not on a thread")
  static var blocks: Bool { true }
  static var refreshSuspends: Bool { true }

  let store: Store

  func reader() async throws -> SnapshotReader {
    SnapshotReader(store: store, snapshot: try await store.snapshot())
  }
}

struct SnapshotReader: SubjectReader {
  let store: Store
  private var snapshot: Store.Snapshot

  init(store: Store, snapshot: Store.Snapshot) {
    self.store = store
    self.snapshot = snapshot
  }

  mutating func refresh() async throws { snapshot = try await store.snapshot() }

  @inline(__always)
  func has(_ key: KeyBytes, _ value: [UInt8]) throws -> Bool {
    let isEqual = try snapshot.withValue(forKey: Key(key)) { found in
      found.withUnsafeBytes { found in
        found.count == value.count
          && value.withUnsafeBytes { memcmp($0.baseAddress!, found.baseAddress!, found.count) == 0 }
      }
    }
    return isEqual ?? false
  }

  @inline(__always)
  func contains(_ key: KeyBytes) throws -> Bool { try snapshot.contains(Key(key)) }

  func scan() throws -> ScanSum {
    var sum = ScanSum()
    try snapshot.scanSpans { key, value in
      key.withUnsafeBytes { key in value.withUnsafeBytes { sum.add(key, $0) } }
      return true
    }
    return sum
  }

  func has(_ numbers: ArraySlice<Int>, of data: Dataset, generation: Int) throws -> Bool {
    let values = try snapshot.values(forKeys: numbers.map { Key(data.key($0)) })
    for (number, value) in zip(numbers, values)
    where !isSame(value, data.value(number, generation: generation)) {
      return false
    }
    return true
  }
}
