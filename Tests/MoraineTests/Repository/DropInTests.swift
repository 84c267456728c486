import Foundation
import Moraine
import MoraineEngine
import SystemPackage
import Testing

/// Code of programs that use the copied pattern, and the closest code with this library.
@Suite(.timeLimit(.minutes(10))) struct DropInTests {
  private enum Planet: String, Codable, Sendable { case earth, mars }
  private enum Slot: Int, Codable, Sendable { case first = 1, second }

  private struct World: Codable, Identifiable, Equatable, Sendable {
    var id: Planet
    var moons = 0
  }

  private struct Seat: Codable, Identifiable, Equatable, Sendable {
    var id: Slot
    var name = ""
  }

  /// Has a text of its own, which is not the raw value.
  private struct Code: RawRepresentable, LosslessStringConvertible, Codable, Hashable, Sendable {
    var rawValue: Int
    var description: String { "code \(rawValue)" }
    init(rawValue: Int) { self.rawValue = rawValue }
    init?(_ text: String) {
      guard text.hasPrefix("code "), let number = Int(text.dropFirst(5)) else { return nil }
      rawValue = number
    }
  }

  private struct Coded: Codable, Identifiable, Equatable, Sendable {
    var id: Code
  }

  /// Swift permits no default argument that throws, not even where the initializer throws.
  private final class NoteList {
    let notes: LocalRepository<Note>
    init(notes: LocalRepository<Note> = .opened(filename: "")) { self.notes = notes }
  }

  @Test func anEnumIsAnID() async throws {
    let folder = try Folder()
    let worlds = try LocalRepository<World>(directory: folder.url)
    try await worlds.save(World(id: .earth, moons: 1))
    #expect(try await worlds.find(by: .earth)?.moons == 1)
    #expect(try await worlds.keyspace.contains("earth"))
    var changes = worlds.changes.makeAsyncIterator()
    try await worlds.delete(.earth)
    guard case .deleted(.earth) = try await changes.next() else {
      Issue.record("no deletion")
      return
    }
    let seats = LocalRepository<Seat>.inMemory([Seat(id: .second, name: "b")])
    #expect(try await seats.find(by: .second)?.name == "b")
    #expect(try await seats.keyspace.contains("2"))
    let named = try LocalRepository<World>(in: worlds.keyspace.store, named: "worlds")
    #expect(try await named.count() == 0)
  }

  /// Programs that have stored such ids must find them again.
  @Test func anIDThatSaysItsTextIsNotStoredByItsRawValue() async throws {
    let coded = LocalRepository<Coded>.inMemory([Coded(id: Code(rawValue: 7))])
    #expect(try await coded.find(by: Code(rawValue: 7)) != nil)
    #expect(try await coded.keyspace.contains("code 7"))
  }

  @Test func aDefaultArgumentMayOpenARepository() async throws {
    let notes = LocalRepository<Note>.inMemory([Note(id: 1, text: "")])
    #expect(try await NoteList(notes: notes).notes.count() == 1)
    let folder = try Folder()
    let opened = NoteList(notes: .opened(directory: folder.url))
    try await opened.notes.save(Note(id: 1, text: ""))
    #expect(try await LocalRepository<Note>(directory: folder.url).count() == 1)
  }

  /// Every method throws the error of the opening.
  @Test @MainActor func aRepositoryThatCouldNotBeOpenedThrowsWhyFromEveryMethod() async throws {
    let notes = NoteList().notes
    var errors: [StoreError?] = []
    errors.append(await #expect(throws: StoreError.self) { try await notes.find(by: 1) })
    errors.append(await #expect(throws: StoreError.self) { try await notes.loadAll() })
    errors.append(await #expect(throws: StoreError.self) { try await notes.count() })
    errors.append(await #expect(throws: StoreError.self) { try await notes.delete(1) })
    let note = Note(id: 1, text: "")
    errors.append(await #expect(throws: StoreError.self) { try await notes.save(note) })
    errors.append(
      await #expect(throws: StoreError.self) {
        try await notes.importArray(from: URL(fileURLWithPath: "/nowhere"))
      })
    errors.append(
      await #expect(throws: StoreError.self) { for try await _ in notes.models {} })
    errors.append(
      await #expect(throws: StoreError.self) { for try await _ in notes.changes {} })
    errors.append(
      await #expect(throws: StoreError.self) {
        for try await _ in notes.keyspace.values(forKey: "1") {}
      })
    errors.append(
      await #expect(throws: StoreError.self) { try await notes.keyspace.set([1], forKey: "1") })
    let live = LiveModels(notes)
    await observed { if case .failed = live.phase { true } else { false } }
    if case .failed(let error) = live.phase { errors.append(error) }
    #expect(errors.count == 11)
    for error in errors {
      #expect(
        error?.code == .invalidArgument && error?.message.contains("is not a file name") == true)
    }
  }

  @Test func anOptionalSettingNeedsNoDefault() async throws {
    let store = PersistedStore.inMemory()
    @Persisted("name", in: store) var name: String?
    #expect(name == nil)
    name = "Ada"
    try await $name.save()
    #expect(try await store.keyspace?.value(forKey: "name") == Array(#""Ada""#.utf8))
    $name.reset()
    #expect(name == nil)
  }
}

/// A directory that cannot be written fails at opening.
@Suite(.timeLimit(.minutes(10))) struct UnwritableDirectoryTests {
  @Test func openingForWritingFailsWhereNothingCanBeWritten() async throws {
    // The process below gives up its rights, and must still be able to pass every directory above
    // the folder.
    let folder = try Folder(
      in: URL(fileURLWithPath: getuid() == 0 ? "/tmp" : NSTemporaryDirectory()))
    await #expect(processExitsWith: .success) { [url = folder.url as URL] in
      let manager = FileManager.default
      let full = url.appendingPathComponent("full")
      try manager.createDirectory(at: full, withIntermediateDirectories: false)
      for name in ["data", "settings"] {
        let path = FilePath(full.appendingPathComponent(name + ".moraine").path)
        try await withStore(at: path) { try await $0.set([1], forKey: "1") }
      }
      let empty = url.appendingPathComponent("empty")
      try manager.createDirectory(at: empty, withIntermediateDirectories: false)
      for name in ["empty", "full", "full/data.moraine", "full/settings.moraine"] {
        let path = url.appendingPathComponent(name).path
        try manager.setAttributes([.posixPermissions: 0o555], ofItemAtPath: path)
      }
      try manager.setAttributes([.posixPermissions: 0o755], ofItemAtPath: url.path)
      // Root may write everywhere. From here on this process runs as another user.
      if getuid() == 0 { #expect(setuid(65_534) == 0) }
      for directory in [empty, full] {
        let before = try manager.subpathsOfDirectory(atPath: directory.path)
        var errors: [StoreError?] = []
        errors.append(
          #expect(throws: StoreError.self) { try LocalRepository<Note>(directory: directory) })
        errors.append(
          #expect(throws: StoreError.self) { try PersistedStore(directory: directory) })
        let path = FilePath(directory.appendingPathComponent("data.moraine").path)
        errors.append(#expect(throws: StoreError.self) { try Store(at: path) })
        for error in errors {
          #expect(error?.code == .io && error?.errno == .permissionDenied, "\(directory)")
        }
        #expect(try manager.subpathsOfDirectory(atPath: directory.path) == before)
      }
    }
  }
}
