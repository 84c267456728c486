import Foundation
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

@testable import MoraineEngine

/// A reader holds no lock once it is open.
@Suite(.timeLimit(.minutes(10))) struct ReaderBesideWriterTests {
  private func configuration(
    _ mode: Store.Configuration.IOMode, isReadOnly: Bool = false
  ) -> Store.Configuration {
    var configuration = Store.Configuration.testing(segmentSizeBytes: 3000, ioMode: mode)
    configuration.isReadOnly = isReadOnly
    return configuration
  }

  private func fill(_ store: Store, _ byte: UInt8) async throws {
    for number in 0..<100 {
      try await store.set([UInt8](repeating: byte, count: 50), forKey: Key("\(number)"))
    }
  }

  private func check(_ store: Store, _ byte: UInt8) async throws {
    for number in 0..<100 {
      let value = try await store.value(forKey: Key("\(number)"))
      #expect(value == [UInt8](repeating: byte, count: 50), "\(number)")
    }
    #expect(try await store.count() == 100)
  }

  /// Regression: a running `dump` prevented a writer from opening.
  @Test(
    arguments: [Store.Configuration.IOMode.mapped, .positional],
    [Store.Configuration.Sharing.exclusive, .shared])
  func aWriterOpensBesideAReader(
    _ mode: Store.Configuration.IOMode, _ sharing: Store.Configuration.Sharing
  ) async throws {
    let directory = try TestDirectory()
    try await withStore(at: directory.path, configuration: configuration(mode)) {
      try await fill($0, 1)
    }
    var reading = configuration(mode, isReadOnly: true)
    reading.sharing = sharing
    let reader = try Store(at: directory.path, configuration: reading)
    try await withStore(at: directory.path, configuration: configuration(mode)) { writer in
      try await fill(writer, 2)
      try await check(reader, 1)
      try await writer.compact()
      try await check(reader, 1)
      let error = #expect(throws: StoreError.self) {
        try Store(at: directory.path, configuration: reading)
      }
      #expect(error?.code == .locked, "no reader opens beside an open writer")
    }
    if mode == .mapped { try await check(reader, 1) }
    try await reader.close()
    let last = try Store(at: directory.path, configuration: reading)
    try await check(last, 2)
    try await last.close()
  }

  /// While the store is being recovered or created, no reader begins to read it.
  @Test func readerHoldsTheLockWhileOpening() async throws {
    let directory = try TestDirectory()
    try await withStore(at: directory.path, configuration: configuration(.mapped)) {
      try await fill($0, 1)
    }
    let storage = FaultStorage(DiskStorage())
    let gate = Gate()
    storage.setScript { $0.operation == .map ? .hang(gate) : nil }
    let reading = configuration(.mapped, isReadOnly: true)
    let path = directory.path
    let opening = Task.detached(executorPreference: ThreadExecutor()) {
      try Store(on: storage, at: path, configuration: reading)
    }
    await gate.arrival()
    let error = #expect(throws: StoreError.self) { try Store(at: path) }
    #expect(error?.code == .locked)
    storage.setScript(nil)
    gate.open()
    let reader = try await opening.value
    try await withStore(at: path) { try await fill($0, 2) }
    try await check(reader, 1)
    try await reader.close()
  }

  /// Regression: the read failed with `.locked` after a tenth of a second.
  @Test func aReadBesideASlowCreationFindsNothingYet() async throws {
    let directory = try TestDirectory()
    let storage = FaultStorage(DiskStorage())
    let gate = Gate()
    let isRenamed = Atomic(false)
    // The manifest exists, and the sync of its name takes long.
    storage.setScript { event in
      if event.operation == .rename { isRenamed.store(true, ordering: .relaxed) }
      guard event.operation == .synchronizeDirectory, isRenamed.load(ordering: .relaxed) else {
        return nil
      }
      return .hang(gate)
    }
    let late = try Store(at: directory.path, configuration: .shared())
    let first = try Store(on: storage, at: directory.path, configuration: .shared())
    let creation = Task { try await first.set([1], forKey: "a") }
    await gate.arrival()
    for _ in 0..<3 { #expect(try await late.value(forKey: "a") == nil) }
    storage.setScript(nil)
    gate.open()
    _ = try await creation.value
    #expect(try await late.value(forKey: "a") == [1])
    try await late.close()
    try await first.close()
  }
}
