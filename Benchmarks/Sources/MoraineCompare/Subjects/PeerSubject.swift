import CPeers
import Foundation

/// An open store of an engine in C.
///
/// Safety of `@unchecked Sendable`: the engines allow calls from several threads. The workloads use
/// batches, and all writes to SQLite's one connection, one at a time.
final class PeerSubject: Subject, @unchecked Sendable {
  static var blocks: Bool { true }

  private let api: PeerInterface
  private let store: OpaquePointer

  init(_ api: PeerInterface, _ store: OpaquePointer) {
    self.api = api
    self.store = store
  }

  @inline(__always)
  func put(_ key: KeyBytes, _ value: [UInt8]) throws {
    try key.withBytes { key in
      try value.withUnsafeBytes { value in
        try api.check(api.put(store, peer_bytes(key), peer_bytes(value)))
      }
    }
  }

  func remove(_ key: KeyBytes) throws {
    try key.withBytes { try api.check(api.remove(store, peer_bytes($0))) }
  }

  func put(_ numbers: some Collection<Int> & Sendable, of data: Dataset, generation: Int) throws {
    if let begin = api.begin { try api.check(begin(store)) }
    for number in numbers {
      try put(data.key(number), data.value(number, generation: generation))
    }
    if let commit = api.commit { try api.check(commit(store)) }
  }

  func compact() throws {
    if let compact = api.compact { try api.check(compact(store)) }
  }

  func close() throws { try api.check(api.close(store)) }

  func reader() throws -> PeerReader { PeerReader(api, try api.made(api.reader(store))) }
}

/// The reader of one thread: a transaction, a connection, or nothing.
struct PeerReader: SubjectReader {
  private let api: PeerInterface
  private let reader: OpaquePointer

  init(_ api: PeerInterface, _ reader: OpaquePointer) {
    self.api = api
    self.reader = reader
  }

  @inline(__always)
  func refresh() throws {
    if let refresh = api.refresh { try api.check(refresh(reader)) }
  }

  @inline(__always)
  func has(_ key: KeyBytes, _ value: [UInt8]) throws -> Bool {
    guard let found = try find(key), found.length == value.count else { return false }
    return value.withUnsafeBytes { memcmp($0.baseAddress!, found.bytes, found.length) == 0 }
  }

  @inline(__always)
  func contains(_ key: KeyBytes) throws -> Bool { try find(key) != nil }

  @inline(__always)
  private func find(_ key: KeyBytes) throws -> peer_bytes? {
    var found = peer_bytes()
    switch key.withBytes({ api.get(reader, peer_bytes($0), &found) }) {
    case 0: return found
    case 1: return nil
    default: throw api.error
    }
  }

  func scan() throws -> ScanSum {
    var sum = ScanSum()
    try withUnsafeMutablePointer(to: &sum) { sum in
      try api.check(
        api.scan(
          reader, peer_bytes(), true,
          { context, key, value in
            context!.assumingMemoryBound(to: ScanSum.self).pointee.add(key.buffer, value.buffer)
            return true
          }, sum))
    }
    return sum
  }

  /// The records of a range that are still to be read, and the sum of those that were.
  private struct Range {
    var sum = ScanSum()
    var left: Int
  }

  func range(from key: KeyBytes?, limit: Int, readsValues: Bool) throws -> ScanSum {
    var range = Range(left: limit)
    func scan(_ from: peer_bytes) throws {
      try withUnsafeMutablePointer(to: &range) { range in
        try api.check(
          api.scan(
            reader, from, readsValues, readsValues ? Self.addEntry : Self.addKey, range))
      }
    }
    if let key {
      try key.withBytes { (bytes) throws in try scan(peer_bytes(bytes)) }
    } else {
      try scan(peer_bytes())
    }
    return range.sum
  }

  private typealias Visit =
    @convention(c) (UnsafeMutableRawPointer?, peer_bytes, peer_bytes) -> Bool

  private static let addEntry: Visit = { context, key, value in
    let range = context!.assumingMemoryBound(to: Range.self)
    range.pointee.sum.add(key.buffer, value.buffer)
    range.pointee.left -= 1
    return range.pointee.left > 0
  }

  private static let addKey: Visit = { context, key, value in
    let range = context!.assumingMemoryBound(to: Range.self)
    range.pointee.sum.add(key: key.buffer)
    range.pointee.left -= 1
    return range.pointee.left > 0
  }

  func close() { api.closeReader(reader) }
}
