import Foundation
import MoraineArchive
import MoraineEngine
import MoraineFormat
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

/// Each bit of each object is flipped, and each object is cut at each length. A restore then gives
/// the state that was written, or an error; never another state.
///
/// `MORAINE_EVERY_BYTE` tries all of them; otherwise a sample.
@Suite(.timeLimit(.minutes(60))) struct ArchiveDamageTests {
  private struct Sample {
    let objects: [ObjectName: [UInt8]]
    let older: (sequence: SequenceNumber, state: ArchiveBench.State)
    let latest: (sequence: SequenceNumber, state: ArchiveBench.State)
  }

  /// A small archive with each class of objects: two terms, two checkpoints, a commit in two parts,
  /// a gap, a hint.
  private static func sample() async throws -> Sample {
    var bench = ArchiveBench()
    bench.configuration.commitBytes = 600
    let store = try bench.store()
    for number in 0..<6 { try await store.set([UInt8(number)], forKey: Key("key \(number)")) }
    let first = try await bench.attach(store)
    let ordered = try store.orderedKeyspace(named: "ordered")
    try await ordered.set([7], forKey: "a")
    try await store.set(Array(repeating: 9, count: 700), forKey: "long")
    try await first.checkpoint()
    try await store.set([8], forKey: "key 1")
    try await first.flush()
    await first.abandon()
    let second = try await bench.attach(store)
    try await store.removeValue(forKey: "key 2")
    let older = (try await second.flush(), try await store.contents())
    try await ordered.set([8], forKey: "b")
    let latest = (try await second.flush(), try await store.contents())
    await second.abandon()
    try await store.close()
    return Sample(objects: bench.objects.objects, older: older, latest: latest)
  }

  private enum Damage: CustomStringConvertible {
    case bit(Int)
    case cut(Int)
    case longer

    func applied(to bytes: [UInt8]) -> [UInt8] {
      var bytes = bytes
      switch self {
      case .bit(let bit): bytes[bit / 8] ^= 1 << (bit % 8)
      case .cut(let length): bytes.removeLast(bytes.count - length)
      case .longer: bytes.append(0)
      }
      return bytes
    }

    var description: String {
      switch self {
      case .bit(let bit): "bit \(bit) flipped"
      case .cut(let length): "cut to \(length) bytes"
      case .longer: "a byte added"
      }
    }
  }

  private static func damages(of bytes: [UInt8], seed: UInt64) -> [Damage] {
    let all = (0..<bytes.count * 8).map { Damage.bit($0) } + bytes.indices.map { Damage.cut($0) }
    if ProcessInfo.processInfo.environment["MORAINE_EVERY_BYTE"] != nil { return all + [.longer] }
    var random = SeededGenerator(seed: seed)
    let edges = [Damage.bit(0), .bit(bytes.count * 8 - 1), .cut(0), .cut(bytes.count - 1), .longer]
    return edges + (0..<60).compactMap { _ in all.randomElement(using: &random) }
  }

  /// Restores a moment from damaged objects. Returns whether it was refused.
  private func isRefused(
    _ objects: [ObjectName: [UInt8]], _ point: RestorePoint, _ expected: ArchiveBench.State,
    _ place: String
  ) async throws -> Bool {
    var bench = ArchiveBench()
    bench.configuration.patience = .zero
    bench.objects.objects = objects
    do {
      let restored = try await bench.restored(point, to: "restored")
      #expect(restored.state == expected, "\(place): another state was restored")
      return false
    } catch let error as ArchiveError {
      #expect(error.code != .store, "\(place): \(error)")
      #expect(try bench.storage.openDirectory("restored")?.openFile("MANIFEST", .read) == nil)
      return true
    }
  }

  private static let classes = ["archive", "head", "term", "log", "chk", "obj"]

  @Test(arguments: classes)
  func damagedObjectIsRefusedOrRestoredExactly(_ folder: String) async throws {
    let sample = try await Self.sample()
    let names = sample.objects.keys.filter { $0.parts[1] == folder }.sorted()
    #expect(!names.isEmpty)
    var (tried, refused) = (0, 0)
    for name in names {
      let bytes = sample.objects[name] ?? []
      for damage in Self.damages(of: bytes, seed: UInt64(name.text.utf8.count)) {
        var objects = sample.objects
        objects[name] = damage.applied(to: bytes)
        let place = "\(name), \(damage)"
        let isLatestRefused = try await isRefused(objects, .latest, sample.latest.state, place)
        let isOlderRefused = try await isRefused(
          objects, .sequence(sample.older.sequence), sample.older.state, place)
        tried += 1
        if isLatestRefused || isOlderRefused { refused += 1 }
      }
    }
    // A hint and a term decide nothing for a restore.
    if folder != "head" && folder != "term" { #expect(refused > tried / 4) }
    print("\(folder): \(names.count) objects, \(tried) damages, \(refused) refused")
  }

  /// An object is missing, or another object of its class has its place. Nothing shows that the
  /// last commits are missing, unless a hint knows them.
  @Test func missingOrExchangedObjectIsRefusedOrRestoredExactly() async throws {
    let sample = try await Self.sample()
    for (name, bytes) in sample.objects {
      var objects = sample.objects
      if name.parts[1] != "log" {
        objects[name] = nil
        _ = try await isRefused(objects, .latest, sample.latest.state, "\(name) is missing")
      }
      for (other, otherBytes) in sample.objects
      where other != name && other.parts[1] == name.parts[1] {
        objects = sample.objects
        (objects[name], objects[other]) = (otherBytes, bytes)
        _ = try await isRefused(
          objects, .latest, sample.latest.state, "\(name) has the bytes of \(other)")
      }
    }
  }

  @Test func missingCommitBeforeTheHintIsRefused() async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    let writer = try await bench.attach(store)
    for number in 0..<5 {
      try await store.set([UInt8(number)], forKey: "a")
      try await writer.flush()
    }
    let position = writer.status.position
    try await writer.detach()
    let digits = "00000000000000\(position)".suffix(15)
    let missing = ArchiveBench.root.appending("log/\(digits)")
    #expect(bench.objects[missing] != nil)
    bench.objects[missing] = nil
    let error = await #expect(throws: ArchiveError.self) { try await bench.restored(to: "latest") }
    #expect(error?.code == .damaged && error?.object == missing)
    let older = try await bench.restored(.position(position - 1), to: "older")
    #expect(older.state == ["a": [3]])
    try await store.close()
  }
}
