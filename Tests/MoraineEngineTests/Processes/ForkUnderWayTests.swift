import CMoraineShims
import CTestSupport
import Foundation
import MoraineEngine
import MoraineStorage
import MoraineTesting
import Testing

/// Forks while the parent's log is open, full, or being synced.
@Suite struct ForkUnderWayTests {
  /// The child's end changes no byte and no length of the open log.
  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func aChildsEndLeavesTheFilesAsTheyAre(mode: Store.Configuration.IOMode) async throws {
    let directory = try TestDirectory()
    let configuration = Store.Configuration.testing(segmentSizeBytes: 1000, ioMode: mode)
    let store = try Store(at: directory.path, configuration: configuration)
    var number = 0
    while try await store.statistics().segmentCount < 3 {
      try await store.set([UInt8](0..<50), forKey: Key("\(number)"))
      number += 1
    }
    try await store.sync()
    let forgery = Forgery(directory: directory)
    let before = try forgery.contents()
    for _ in 0..<4 { #expect(support_forks_seen_by_child(moraine_fork_generation) > 0) }
    #expect(try forgery.contents() == before)
    let error = #expect(throws: StoreError.self) { try Store(at: directory.path) }
    #expect(error?.code == .locked)
    // Continues into the next segment as if the fork had not happened.
    for more in 0..<40 { try await store.set([UInt8](0..<50), forKey: Key("more \(more)")) }
    try await store.close()
    let again = try Store(at: directory.path, configuration: configuration)
    #expect(try await again.count() == number + 40)
    #expect(try await again.verify().isSound)
    try await again.close()
  }

  /// The parent's commit runs on a thread that the child does not have.
  @Test func aForkDuringASyncHarmsNoAcknowledgement() async throws {
    let directory = try TestDirectory()
    let storage = FaultStorage(DiskStorage())
    let store = try Store(on: storage, at: directory.path, configuration: .testing())
    try await store.set([1], forKey: "a", durability: .sync)
    let gate = Gate()
    storage.setScript { $0.operation == .synchronizeData ? .hang(gate) : nil }
    let waiting = Task { try await store.set([2], forKey: "b", durability: .sync) }
    await gate.arrival()
    let before = store.durableSequence
    #expect(support_forks_seen_by_child(moraine_fork_generation) > 0)
    #expect(store.durableSequence == before)
    gate.open()
    #expect(store.durableSequence >= before)
    let sequence = try await waiting.value
    #expect(store.durableSequence >= sequence)
    try await store.close()
    let again = try Store(at: directory.path)
    #expect(try await again.value(forKey: "b") == [2])
    try await again.close()
  }
}
