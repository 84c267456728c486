import Foundation
import MoraineFormat
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

@testable import MoraineEngine

/// Rotations that a full disk refuses.
@Suite(.timeLimit(.minutes(10))) struct FailedRotationTests {
  /// Regression: the file of a failed rotation was left to the next segment with its number. A
  /// compaction that had taken the next number kept this one from being used again.
  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func rotationThatFailsBesideACompactionLeavesNoFile(
    mode: Store.Configuration.IOMode
  ) async throws {
    let directory = try TestDirectory()
    let storage = FaultStorage(DiskStorage())
    var configuration = Store.Configuration.testing(segmentSizeBytes: 1000, ioMode: mode)
    configuration.compaction = .manual
    configuration.checkpointFloorBytes = 1 << 40
    let store = try Store(on: storage, at: directory.path, configuration: configuration)
    var count = 0
    while try await store.statistics().segmentCount < 2 {
      try await store.set([UInt8](0..<50), forKey: Key("\(count)"))
      count += 1
    }
    try await store.waitUntilIdle()
    let gate = Gate()
    storage.setScript { event in
      let isManifest = event.file == Manifest.temporaryFileName
      return isManifest && event.operation == .createFile ? .hang(gate) : nil
    }
    let writing = Task {
      for number in 0..<1000 {
        try await store.set([UInt8](0..<50), forKey: Key("more \(number)"))
      }
    }
    await gate.arrival()
    let file = try #require(
      storage.trace.last { $0.operation == .createFile && $0.file.hasSuffix(".segment") }?.file)
    let beginning = Gate()
    beginning.open()
    storage.setScript { event in
      if event.operation == .createFile, event.file.hasSuffix(".segment") {
        return .hang(beginning)
      }
      let isManifest = event.file == Manifest.temporaryFileName
      return isManifest && event.operation == .write ? .fail(.noSpace) : nil
    }
    let compaction = Task { try await store.compact(segments: 0..<1) }
    await beginning.arrival()
    gate.open()
    await #expect(throws: StoreError.self) { try await writing.value }
    await #expect(throws: StoreError.self) { try await compaction.value }
    storage.setScript(nil)
    #expect(try !directory.names().contains(file))
    for number in 0..<count { #expect(try await store.contains(Key("\(number)"))) }
    try await store.set([1], forKey: "last")
    #expect(try await store.verify().isSound)
    try await store.close()
  }
}
