import Foundation
import Moraine
import MoraineTesting
import SystemPackage
import Testing

/// Importing the files of the old pattern.
@Suite struct ImportTests {
  private func write(_ text: String, in folder: Folder) throws -> URL {
    let url = folder.url.appendingPathComponent("data.json")
    try Data(text.utf8).write(to: url)
    return url
  }

  private static let three =
    #"[{"id":1,"text":"a"},{"id":2,"text":"b"},{"id":1,"text":"c"}]"#

  @Test func fileIsImportedOnce() async throws {
    let folder = try Folder()
    let url = try write(Self.three, in: folder)
    let notes = try LocalRepository<Note>(directory: folder.url)
    #expect(try await notes.importArray(from: url) == 2)
    #expect(try await notes.find(by: 1)?.text == "c")
    try await notes.delete(2)
    #expect(try await notes.importArray(from: url) == 0, "a deleted model stays deleted")
    #expect(try await notes.find(by: 2) == nil)
    #expect(try Data(contentsOf: url) == Data(Self.three.utf8))
    let missing = folder.url.appendingPathComponent("none.json")
    #expect(try await notes.importArray(from: missing) == 0)
  }

  /// A file that cannot be read may be there, and its models must not be forgotten in silence.
  @Test func fileThatCannotBeReadIsNotTakenForAMissingFile() async throws {
    let folder = try Folder()
    let notes = LocalRepository<Note>.inMemory()
    let loop = folder.url.appendingPathComponent("loop.json")
    try FileManager.default.createSymbolicLink(
      atPath: loop.path, withDestinationPath: "loop.json")
    let error = await #expect(throws: StoreError.self) { try await notes.importArray(from: loop) }
    #expect(error?.code == .io)
    #expect(error?.file == "loop.json")
    let missing = folder.url.appendingPathComponent("none").appendingPathComponent("data.json")
    #expect(try await notes.importArray(from: missing) == 0)
    let below = try write(Self.three, in: folder).appendingPathComponent("data.json")
    #expect(try await notes.importArray(from: below) == 0)
    #expect(try await notes.loadAll() == [])
  }

  @Test(arguments: ["none.json", "http://127.0.0.1:9/none.json"])
  func urlThatIsNotThatOfAFileIsRefused(text: String) async throws {
    let notes = LocalRepository<Note>.inMemory()
    let url = try #require(URL(string: text))
    let error = await #expect(throws: StoreError.self) { try await notes.importArray(from: url) }
    #expect(error?.code == .invalidArgument)
  }

  @Test func existingModelIsNotOverwritten() async throws {
    let folder = try Folder()
    let notes = LocalRepository<Note>.inMemory([Note(id: 1, text: "newer")])
    #expect(try await notes.importArray(from: try write(Self.three, in: folder)) == 1)
    #expect(try await notes.find(by: 1)?.text == "newer")
  }

  @Test(arguments: ["", "{}", "[{}]", "[1]", #"[{"id":1,"text":"a"},{"id":2}]"#])
  func invalidFileIsRefusedWhole(text: String) async throws {
    let folder = try Folder()
    let notes = LocalRepository<Note>.inMemory()
    let url = try write(text, in: folder)
    let error = await #expect(throws: StoreError.self) { try await notes.importArray(from: url) }
    #expect(error?.code == .decodingFailed)
    #expect(error?.file == "data.json")
    #expect(try await notes.loadAll() == [])
    _ = try write(Self.three, in: folder)
    #expect(try await notes.importArray(from: url) == 2, "after the repair of the file")
  }

  /// A power failure at any moment leaves all models or none, and a repeated import ends with all.
  @Test func crashDuringAnImportLeavesAllOrNothing() async throws {
    let folder = try Folder()
    let url = try write(Self.three, in: folder)
    let tally = try await CrashExperiment().run { disk, ledger in
      ledger.begin()
      let store = try disk.openStore()
      _ = try await LocalRepository<Note>(in: store, named: "notes").importArray(from: url)
      ledger.becomeDurable()
    } check: { disk, steps in
      let store = try disk.openStore()
      let notes = try LocalRepository<Note>(in: store, named: "notes")
      let count = try await notes.count()
      guard count == 2 || (count == 0 && steps.contains(0)) else { throw Half(count: count) }
      guard try await notes.importArray(from: url) == 2 - count, try await notes.count() == 2 else {
        throw Half(count: count)
      }
    }
    #expect(tally.crashPoints > 3)
  }

  private struct Half: Error {
    let count: Int
  }
}
