import Foundation
import MoraineEngine
import Testing

/// Damage to any byte of any file gives the right answer or an error that names the file; only
/// operations that were never durable may be missing, from some operation on.
///
/// `MORAINE_EVERY_BYTE=1` cuts at every length and flips every bit, but one bit of each zero of a
/// checkpoint; `MORAINE_EVERY_BYTE=2` flips those too. Otherwise the test flips one bit of every
/// 13th byte, and cuts at every 13th length. `Scripts/prove --only damage` runs it so, built for
/// release.
@Suite(.timeLimit(.minutes(30))) struct GoldenDamageTests {
  static let modes: [Store.Configuration.IOMode] = [.mapped, .positional]
  private let thoroughness = ProcessInfo.processInfo.environment["MORAINE_EVERY_BYTE"]
  private var isThorough: Bool { thoroughness != nil }

  /// A checkpoint is long and mostly zeros, and `CheckpointDamageTests` covers it.
  private func step(_ name: String) -> Int {
    if isThorough { return 1 }
    return name.hasSuffix(".index") ? 997 : 13
  }

  private func bits(_ name: String, _ place: Int, _ byte: UInt8) -> [Int] {
    guard isThorough else { return [place % 8] }
    return thoroughness == "1" && byte == 0 && name.hasSuffix(".index")
      ? [place % 8] : Array(0..<8)
  }

  @Test(arguments: GoldenStore.all, modes)
  func noFlippedBitChangesAnAnswer(
    golden: GoldenStore, mode: Store.Configuration.IOMode
  ) async throws {
    let damage = try GoldenDamage(golden, mode)
    var count = 0
    for (name, bytes) in golden.files.sorted(by: { $0.key < $1.key }) {
      for place in bytes.indices where place % step(name) == 0 {
        for bit in bits(name, place, bytes[place]) {
          var changed = bytes
          changed[place] ^= 1 << bit
          let complaint = try await damage.complaint(name, changed, from: place)
          #expect(complaint == nil, "bit \(bit) of byte \(place) of \(name)")
          count += 1
        }
      }
    }
    print("\(golden.testDescription), \(mode): \(count) flipped bits")
    #expect(count > 200)
  }

  @Test(arguments: GoldenStore.all, modes)
  func noTruncationChangesAnAnswer(
    golden: GoldenStore, mode: Store.Configuration.IOMode
  ) async throws {
    let damage = try GoldenDamage(golden, mode)
    var count = 0
    for (name, bytes) in golden.files.sorted(by: { $0.key < $1.key }) {
      let complaint = try await damage.complaint(name, nil, from: 0)
      #expect(complaint == nil, "\(name) is missing")
      for length in bytes.indices where length % step(name) == 0 {
        let cut = Array(bytes.prefix(length))
        let complaint = try await damage.complaint(name, cut, from: length)
        #expect(complaint == nil, "\(name) cut to \(length) bytes")
        count += 1
      }
    }
    print("\(golden.testDescription), \(mode): \(count) truncations")
    #expect(count > 200)
  }

  /// `MORAINE_RANDOM_EDITS` is the number of edits of each store; `MORAINE_EDIT_SEED` is the first
  /// seed.
  @Test(arguments: GoldenStore.all, modes)
  func randomEditsChangeNoAnswer(golden: GoldenStore, mode: Store.Configuration.IOMode) async throws
  {
    let environment = ProcessInfo.processInfo.environment
    let first = environment["MORAINE_EDIT_SEED"].flatMap(UInt64.init) ?? 1
    let count = environment["MORAINE_RANDOM_EDITS"].flatMap(UInt64.init) ?? 200
    let damage = try GoldenDamage(golden, mode)
    for seed in first..<first + count {
      let edit = GoldenEdit(golden, seed: seed)
      let complaint = try await damage.complaint(
        edit.name, edit.bytes, from: edit.place)
      #expect(
        complaint == nil,
        """
        \(edit.what); again: MORAINE_EDIT_SEED=\(seed) MORAINE_RANDOM_EDITS=1 swift test \
        --filter randomEditsChangeNoAnswer
        """)
    }
  }

  /// Shows that the check can fail.
  @Test(arguments: GoldenStore.all, modes)
  func differentContentsAreReported(
    golden: GoldenStore, mode: Store.Configuration.IOMode
  ) async throws {
    var other = golden
    let place = try #require(other.expected.keys.first)
    other.expected[place] = GoldenStore.Record(
      key: place.key.bytes, sequence: 1, value: [1, 2, 3])
    let damage = try GoldenDamage(other, mode)
    let name = "MANIFEST"
    let complaint = try await damage.complaint(name, golden.files[name], from: 0)
    #expect(complaint == "read only: other contents")
  }

  /// A part of the killed store's log is durable, and a part is not.
  @Test func killedLogHasADurablePartAndAnUnsyncedPart() throws {
    let killed = try #require(GoldenStore.all.first { $0.testDescription == "v1/killed" })
    let damage = try GoldenDamage(killed, .mapped)
    let segment = try #require(damage.openSegment)
    let places = try GoldenStore.places(in: killed.files[segment]!)
    #expect(places.filter { $0.offset < damage.durableOffset }.count > 2)
    #expect(places.filter { $0.offset >= damage.durableOffset }.count > 5)
  }
}
