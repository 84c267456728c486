import Foundation
import Moraine
import MoraineArchive
import SystemPackage
import Testing

/// The code of the article Archiving.
@Suite struct ArchivingArticleTests {
  /// The lines that need a place that every machine has are compiled, and the others run too.
  @Test func storeIsArchivedAndRestored() async throws {
    let ground = try Ground()
    let store = try Store(at: FilePath(ground.folder.appending(path: "users.moraine").path))
    let number = try await store.set([1], forKey: "a")
    let place = ground.folder.appending(path: "archive").path
    let objects = DirectoryObjectStore(place)
    try await objects.createRoot()  // once, by a person

    let archive = try await Archive.open(objects, at: .root, createIfMissingFor: store)
    let writer = try await archive.attach(store)

    try await writer.flush()  // the archive has all earlier writes
    try await writer.detach()

    let status = writer.status
    if let moment = status.upToDateAt {
      print("the archive lags by at most \(ContinuousClock.now - moment)")
    }
    print("\(status.traffic.requestCount) requests, \(status.traffic.sentBytes) bytes sent")
    print("\(status.heldBytes) bytes of replaced segments wait")
    #expect(status.upToDateAt != nil && status.traffic.requestCount > 0)
    #expect(writer.status.archivedSequence == number)
    try await store.close()
    let restored = FilePath(ground.folder.appending(path: "restored.moraine").path)
    try await archive.restore(to: restored, at: .sequence(number))
    let again = try Store(at: restored)
    #expect(try await again.value(forKey: "a") == [1])
    try await again.close()
  }

  private func onAServer(_ archive: Archive, noon: UInt64, number: SequenceNumber) async throws {
    let objects = DirectoryObjectStore("/mnt/nas/users")
    try await objects.createRoot()  // once, by a person

    try await archive.restore(to: "/data/users.moraine")
    try await archive.restore(to: "/data/yesterday.moraine", at: .time(milliseconds: noon))
    try await archive.restore(to: "/data/before.moraine", at: .sequence(number))

    let rule = RetentionRule(moments: .seconds(2 * 86_400), days: 90)
    // Returns what would be removed.
    let planned = try await archive.clean(rule, isDryRun: true)
    try await archive.clean(rule)
    #expect(planned.commitCount >= 0)

    for checkpoint in try await archive.checkpoints() where checkpoint.extent != .removed {
      print(checkpoint.milliseconds, checkpoint.sequence, checkpoint.extent)
    }
  }

  @Test func writerCleansByItself() {
    var configuration = ArchiveConfiguration()
    // A day of moments, and 30 days of states.
    configuration.retention = RetentionRule()
    #expect(configuration.retention?.days == 30)
  }
}
