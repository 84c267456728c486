import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

@testable import MoraineEngine

@Suite(.timeLimit(.minutes(10))) struct CheckpointRemovalTests {
  /// Regression: the engine forgot the new checkpoint together with the old one that could not be
  /// removed, and the new one stayed for ever.
  @Test func checkpointThatCouldNotBeRemovedIsRemovedWithTheNext() async throws {
    let directory = try TestDirectory()
    var configuration = Store.Configuration.testing()
    configuration.checkpointFloorBytes = 0
    configuration.compaction = .manual
    let storage = FaultStorage(DiskStorage())
    func indexes() throws -> [String] { try directory.names().filter { $0.hasSuffix(".index") } }
    let store = try Store(on: storage, at: directory.path, configuration: configuration)
    for round in 0..<3 {
      if round == 1 {
        storage.setScript { event in
          event.operation == .remove && event.file.hasSuffix(".index") ? .fail(.ioError) : nil
        }
      }
      for number in 0..<100 { try await store.set([UInt8](0..<50), forKey: Key("\(number)")) }
      try await store.compact()
      let names = try indexes()
      #expect(names.count == [1, 2, 1][round], "round \(round): \(names)")
      #expect(await store.checkpointFailure?.code == (round == 1 ? .io : nil))
      storage.setScript(nil)
    }
    try await store.close()
    #expect(try indexes().count == 1)
    let again = try Store(at: directory.path, configuration: configuration)
    #expect(await again.recoveryReport.usedCheckpoint)
    #expect(try await again.count() == 100)
    try await again.close()
  }
}
