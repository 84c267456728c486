import Foundation
import MoraineEngine

/// Makes readers of a Moraine store that see its present state and do not use the actor.
struct LiveMaker: ReaderMaker {
  static let engine = Report.Engine(
    name: "reader", title: "Moraine, reader", version: "this tree",
    settings: "reads of `store.reader()`, which do not suspend and see the last writes")
  static var blocks: Bool { true }

  let store: Store

  func reader() async throws -> LiveReader { LiveReader(reader: try await store.reader()) }
}

struct LiveReader: SubjectReader {
  let reader: Store.Reader

  func refresh() {}

  @inline(__always)
  func has(_ key: KeyBytes, _ value: [UInt8]) throws -> Bool {
    let isEqual = try reader.withValue(forKey: Key(key)) { found in
      found.withUnsafeBytes { found in
        found.count == value.count
          && value.withUnsafeBytes { memcmp($0.baseAddress!, found.baseAddress!, found.count) == 0 }
      }
    }
    return isEqual ?? false
  }

  @inline(__always)
  func contains(_ key: KeyBytes) throws -> Bool { try reader.contains(Key(key)) }

  func scan() throws -> ScanSum {
    throw PeerError(description: "a reader reads keys; a snapshot reads all entries")
  }
}
