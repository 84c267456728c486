import MoraineArchive
import MoraineEngine
import MoraineFormat
import MoraineTesting
import SystemPackage
import Testing

/// Objects that no writer made are errors, whatever number or length they have.
@Suite(.timeLimit(.minutes(1))) struct ForgedNumberTests {
  /// An archive with one checkpoint, and its store.
  private func archived(_ bench: ArchiveBench) async throws -> (Store, CheckpointRecord) {
    let store = try bench.store()
    try await store.set([1], forKey: "a")
    let writer = try await bench.attach(store)
    try await writer.checkpoint()
    try await writer.detach()
    let names = try ArchiveNames(root: ArchiveBench.root)
    let number = writer.status.checkpoint
    let record = try CheckpointRecord(try #require(bench.objects[names.checkpoint(number)]))
    return (store, record)
  }

  /// Calls everything that looks for the newest objects; each may throw.
  private func useAll(_ bench: ArchiveBench, _ store: Store) async throws {
    let archive = try await bench.archive()
    do { _ = try await archive.info() } catch {}
    do { _ = try await bench.restored(to: "restored") } catch {}
    do { _ = try await bench.restored(.sequence(SequenceNumber(rawValue: 1)), to: "earlier") } catch
    {}
    do { try await bench.follower("follower").close() } catch {}
    do { _ = try await archive.attach(store).checkpoint() } catch {}
  }

  @Test func highestPositionIsNoTrap() async throws {
    let bench = ArchiveBench()
    let (store, record) = try await archived(bench)
    let names = try ArchiveNames(root: ArchiveBench.root)
    var forged = record
    forged.number += 1
    forged.position = ArchiveLimits.position
    bench.objects[names.checkpoint(forged.number)] = forged.encoded()
    try await useAll(bench, store)
    let error = await #expect(throws: ArchiveError.self) { try await bench.attach(store) }
    #expect(error?.code == .damaged || error?.code == .stateUnavailable)
    try await store.close()
  }

  @Test func highestTermIsNoTrap() async throws {
    let bench = ArchiveBench()
    let (store, _) = try await archived(bench)
    let names = try ArchiveNames(root: ArchiveBench.root)
    let term = try #require(bench.objects.objects.keys.filter { $0.text.contains("/term/") }.first)
    var forged = try TermRecord(try #require(bench.objects[term]))
    forged.term = ArchiveLimits.term
    bench.objects[names.term(ArchiveLimits.term)] = forged.encoded()
    let hint = HeadHint(
      archiveID: forged.archiveID, term: ArchiveLimits.term, checkpoint: 1, position: 1)
    bench.objects[names.head] = hint.encoded()
    try await useAll(bench, store)
    let error = await #expect(throws: ArchiveError.self) { try await bench.attach(store) }
    #expect(error?.code == .damaged)
    try await store.close()
  }

  @Test func longRecordIsNotReadWhole() async throws {
    let bench = ArchiveBench()
    let (store, record) = try await archived(bench)
    let names = try ArchiveNames(root: ArchiveBench.root)
    let long = [UInt8](repeating: 0, count: 50 << 20)
    bench.objects[names.checkpoint(record.number + 1)] = long
    bench.objects.clearTrace()
    let error = await #expect(throws: ArchiveError.self) { try await bench.restored(to: "copy") }
    #expect(error?.code == .damaged)
    #expect(bench.objects.traffic.receivedBytes < 1 << 20)
    try await store.close()
  }
}
