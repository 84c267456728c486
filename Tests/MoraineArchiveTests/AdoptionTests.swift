import Foundation
import MoraineArchive
import MoraineEngine
import MoraineTesting
import SystemPackage
import Testing

/// Stores on a real disk are replaced by the newest state of their archive.
@Suite(.timeLimit(.minutes(5))) struct AdoptionTests {
  /// Regression: the restored store stayed beside the directory, and was in the way of each later
  /// adoption. A store that a program had open was noticed only when all was restored.
  @Test func refusedAdoptionIsNotInTheWayOfTheNextOne() async throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { _ = Result { try FileManager.default.removeItem(at: folder) } }
    let (bench, path) = (ArchiveBench(), FilePath(folder.path).appending("store"))
    let staged = FilePath(path.string + ".adopting")
    var store = try Store(at: path)
    try await store.set([1], forKey: "a")
    try await bench.attach(store).detach()
    let archive = try await bench.archive()
    bench.objects.clearTrace()
    let early = await #expect(throws: ArchiveError.self) { try await archive.adopt(in: path) }
    #expect(early?.storeError?.code == .locked)
    #expect(bench.objects.trace.isEmpty)
    try await store.close()
    // A program opens the store while the archive is restored.
    let gate = RequestGate()
    bench.objects.setScript { $0.object.text.contains("/obj/") ? .hang(gate) : nil }
    let adoption = Task { try await archive.adopt(in: path) }
    await gate.arrival()
    store = try Store(at: path)
    #expect(try await store.value(forKey: "a") == [1])
    gate.open()
    let late = await #expect(throws: ArchiveError.self) { try await adoption.value }
    #expect(late?.storeError?.code == .locked)
    #expect(!FileManager.default.fileExists(atPath: staged.string))
    try await store.close()
    // A call that was killed has left a whole store.
    try await archive.restore(to: staged)
    #expect(try await archive.adopt(in: path).lastComponent?.string == "store.branch-1")
    #expect(!FileManager.default.fileExists(atPath: staged.string))
    store = try Store(at: path)
    #expect(try await store.value(forKey: "a") == [1])
    try await store.close()
  }

  /// A store beside the directory may have operations that no archive has.
  @Test func storeWithOperationsOfItsOwnIsNotRemoved() async throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { _ = Result { try FileManager.default.removeItem(at: folder) } }
    let (bench, path) = (ArchiveBench(), FilePath(folder.path).appending("store"))
    let beside = FilePath(path.string + ".adopting")
    let store = try Store(at: path)
    try await store.set([1], forKey: "a")
    try await bench.attach(store).detach()
    try await store.close()
    let archive = try await bench.archive()
    try await archive.restore(to: beside)
    let other = try Store(at: beside)
    try await other.set([2], forKey: "b")
    try await other.close()
    let error = await #expect(throws: ArchiveError.self) { try await archive.adopt(in: path) }
    #expect(error?.storeError?.code == .notAStore)
    #expect(error?.description.contains(beside.string) == true)
    let kept = try Store(at: beside)
    #expect(try await kept.value(forKey: "b") == [2])
    try await kept.close()
  }
}
