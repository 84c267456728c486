import MoraineArchive
import MoraineEngine
import MoraineFormat
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

/// Restores of states that a compaction has removed before they were archived.
@Suite(.timeLimit(.minutes(1))) struct CompactedStateTests {
  /// Regression: the error was that of a backup, with the code `.store`, and the directory stayed.
  @Test func stateThatWasCompactedBeforeTheFirstCopyIsUnavailable() async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    let keyspace = try store.keyspace(named: "")
    _ = try await keyspace.set([1], forKey: "k")
    _ = try await keyspace.set([2], forKey: "k")
    _ = try await store.compact()
    let writer = try await bench.attach(store)
    try await writer.detach()
    try await store.close()
    let archive = try await bench.archive()
    let first = SequenceNumber(rawValue: 1)
    let error = await #expect(throws: ArchiveError.self) {
      _ = try await archive.restore(to: "early", at: .sequence(first), on: bench.storage)
    }
    #expect(error?.code == .stateUnavailable, "\(String(describing: error))")
    let words = "the archive has no state at operation 1: "
    #expect(error?.message.hasPrefix(words) == true, "\(String(describing: error))")
    let end = "the next state that it has is that of operation 2"
    #expect(error?.message.hasSuffix(end) == true, "\(String(describing: error))")
    let left = try bench.storage.openDirectory("early")
    #expect(left == nil, "a directory was left")
    let second = SequenceNumber(rawValue: 2)
    let restored = try await bench.restored(.sequence(second), to: "next")
    #expect(restored.state == ["k": [2]])
  }
}
