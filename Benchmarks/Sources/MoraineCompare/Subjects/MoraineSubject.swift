import Foundation
import MoraineEngine
import SystemPackage

/// Makes stores of Moraine, with one `await` for each operation, as an app uses them.
struct MoraineMaker: SubjectMaker {
  static let name = "moraine"

  var engine: Report.Engine {
    Report.Engine(
      name: Self.name, title: "Moraine", version: "this tree",
      settings: "as it comes, durability none or sync; the row's every operation is one await on "
        + "the actor")
  }

  func open(in path: String, _ options: SubjectOptions) throws -> MoraineSubject {
    var configuration = Store.Configuration()
    configuration.durability = options.sync ? .sync : .none
    return MoraineSubject(
      store: try Store(at: FilePath("\(path)/store"), configuration: configuration))
  }
}

struct MoraineSubject: Subject {
  static var blocks: Bool { false }

  let store: Store

  @inline(__always)
  func put(_ key: KeyBytes, _ value: [UInt8]) async throws {
    try await store.set(value, forKey: Key(key))
  }

  func remove(_ key: KeyBytes) async throws { try await store.removeValue(forKey: Key(key)) }

  func put(
    _ numbers: some Collection<Int> & Sendable, of data: Dataset, generation: Int
  ) async throws {
    try await store.write { batch in
      for number in numbers {
        try batch.set(
          data.value(number, generation: generation), forKey: Key(data.key(number)))
      }
    }
  }

  func compact() async throws { try await store.compact() }
  func close() async throws { try await store.close() }
  func reader() -> MoraineReader { MoraineReader(store: store) }
  var snapshots: SnapshotMaker? { SnapshotMaker(store: store) }
  var live: LiveMaker? { LiveMaker(store: store) }
}

/// Compares values as cheaply as a C program. `==` of arrays compares byte by byte.
@inline(__always)
func isSame(_ found: [UInt8]?, _ value: [UInt8]) -> Bool {
  guard let found, found.count == value.count else { return false }
  return found.withUnsafeBytes { found in
    value.withUnsafeBytes { memcmp(found.baseAddress!, $0.baseAddress!, found.count) == 0 }
  }
}

/// Reads through the actor.
struct MoraineReader: SubjectReader {
  let store: Store

  func refresh() {}

  @inline(__always)
  func has(_ key: KeyBytes, _ value: [UInt8]) async throws -> Bool {
    isSame(try await store.value(forKey: Key(key)), value)
  }

  @inline(__always)
  func contains(_ key: KeyBytes) async throws -> Bool { try await store.contains(Key(key)) }

  func scan() async throws -> ScanSum {
    let sum = SumBox()
    try await store.scan { entry in
      sum.add(entry)
      return true
    }
    return sum.value
  }
}

/// Safety of `@unchecked Sendable`: only the actor's closure uses it, and afterwards the caller
/// that waited for the closure.
private final class SumBox: @unchecked Sendable {
  private(set) var value = ScanSum()

  @inline(__always)
  func add(_ entry: Store.Entry) { value.add(entry) }
}

extension ScanSum {
  @inline(__always)
  mutating func add(_ entry: Store.Entry) {
    entry.key.bytes.withUnsafeBytes { key in entry.value.withUnsafeBytes { add(key, $0) } }
  }
}

extension Key {
  @inline(__always)
  init(_ key: KeyBytes) {
    self = key.withBytes { Key([UInt8]($0)) }
  }
}
