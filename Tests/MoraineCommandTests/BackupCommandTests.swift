import Foundation
import Testing

/// `moraine backup` and `moraine restore`, as their users run them.
@Suite(.timeLimit(.minutes(10))) struct BackupCommandTests {
  let place: Place
  private var backup: String { place.folder.appendingPathComponent("backup").path }
  private var restored: String { place.folder.appendingPathComponent("restored").path }

  init() throws { place = try Place() }

  @Test func storeIsBackedUpAndRestored() async throws {
    try await place.drive("put 6b 76", "put 6c 77", "del 6b", "put 6d 78")
    let made = try await Moraine.run("backup", place.store, backup)
    #expect(made.code == 0, "\(made)")
    #expect(made.text.hasPrefix("backed up to sequence 4: 1 segment, "), "\(made)")
    let again = try await Moraine.run("backup", place.store, backup, "--json")
    let object = try JSONSerialization.jsonObject(with: Data(again.output)) as? [String: Any]
    #expect(object?["sequence"] as? Int == 4 && object?["keptSegmentCount"] as? Int == 1)
    #expect(object?["copiedBytes"] as? Int == 0)
    #expect(try await Moraine.run("verify", backup).code == 0)
    let back = try await Moraine.run("restore", backup, restored)
    #expect(back.text.hasPrefix("restored to sequence 4: 2 keys, 1 segment, "), "\(back)")
    let dump = try await Moraine.run("dump", place.store, "--format", "hex")
    #expect(try await Moraine.run("dump", restored, "--format", "hex").output == dump.output)
    #expect(try await Moraine.run("put", restored, "n", "1").code == 0)
  }

  @Test func anEarlierStateIsRestored() async throws {
    try await place.drive("put 6b 76", "put 6b 77", "del 6b")
    #expect(try await Moraine.run("backup", place.store, backup).code == 0)
    for (number, value) in [(1, "v"), (2, "w")] {
      let path = "\(restored) \(number)"
      let json = try await Moraine.run("restore", backup, path, "--through", "\(number)", "--json")
      let object = try JSONSerialization.jsonObject(with: Data(json.output)) as? [String: Any]
      #expect(object?["sequence"] as? Int == number && object?["count"] as? Int == 1, "\(json)")
      #expect(try await Moraine.run("get", path, "k").text == value)
    }
    let beyond = try await Moraine.run("restore", backup, restored, "--through", "9")
    #expect(beyond.code == 2 && beyond.errors.contains("it does not reach 9"), "\(beyond)")
  }

  @Test func damagedEarlierBackupIsNamed() async throws {
    try await place.drive("put 6b 76")
    #expect(try await Moraine.run("backup", place.store, backup).code == 0)
    let manifest = "\(backup)/MANIFEST"
    var bytes = try Data(contentsOf: URL(fileURLWithPath: manifest))
    bytes[100] ^= 1
    try bytes.write(to: URL(fileURLWithPath: manifest))
    let outcome = try await Moraine.run("backup", place.store, backup)
    #expect(outcome.code == 3, "\(outcome)")
    #expect(outcome.errors.contains("the earlier backup is damaged"), "\(outcome)")
    #expect(outcome.errors.contains("[\(manifest)"), "\(outcome)")
    #expect(!outcome.errors.contains("from a backup"), "\(outcome)")
    #expect(try await Moraine.run("verify", place.store).code == 0)
  }

  @Test func eachFailureHasItsExitCode() async throws {
    try await place.drive("put 6b \(String(repeating: "76", count: 999))")
    let none = try await Moraine.run(
      "backup", place.folder.appendingPathComponent("x").path, backup)
    #expect(none.code == 2 && none.errors.contains("no Moraine store"), "\(none)")
    #expect(try await Moraine.run("backup", place.store, backup).code == 0)
    let taken = try await Moraine.run("restore", backup, place.store)
    #expect(taken.code == 2 && taken.errors.contains("already holds a store"), "\(taken)")
    let written = try await Moraine.run("put", backup, "k", "v")
    #expect(written.code == 2 && written.errors.contains("this is a backup"), "\(written)")
    let segment = try #require(
      try FileManager.default.contentsOfDirectory(atPath: backup).first { $0.contains(".segment") })
    let handle = try FileHandle(forUpdating: URL(fileURLWithPath: "\(backup)/\(segment)"))
    try handle.seek(toOffset: 150)
    try handle.write(contentsOf: Data([1, 2, 3]))
    try handle.close()
    let damaged = try await Moraine.run("restore", backup, restored)
    #expect(damaged.code == 3 && damaged.errors.contains(segment), "\(damaged)")
    #expect(try await Moraine.run("get", restored, "k").code == 2, "there is no store")
  }
}
