import MoraineEngine
import MoraineFormat
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

/// A salvage that is interrupted leaves no store, or the whole one.
@Suite(.timeLimit(.minutes(10))) struct SalvageCrashTests {
  private struct Wrong: Error {
    let what: String
  }

  /// Writes forty keys, and damages one of them.
  private static func prepare(
    _ storage: any Storage, _ configuration: Store.Configuration
  ) async throws {
    let store = try Store(on: storage, at: "store", configuration: configuration)
    for number in 0..<40 {
      try await store.set([UInt8](repeating: 7, count: 30), forKey: Key("key \(number)"))
    }
    try await store.close()
    let directory = try storage.openDirectory("store")
    guard let file = try directory?.openFile("0000000001.segment", .readWrite) else {
      throw Wrong(what: "no segment")
    }
    try [UInt8(1)].withUnsafeBytes { try file.write($0, at: 170) }
    try file.synchronize(.full)
  }

  @Test(arguments: BackupBench.modes)
  func everyCrashLeavesAWholeStoreOrNoStore(mode: Store.Configuration.IOMode) async throws {
    let configuration = Store.Configuration.testing(segmentSizeBytes: 800, ioMode: mode)
    var experiment = CrashExperiment()
    (experiment.subsetsPerPoint, experiment.tornPerPoint) = (2, 1)
    experiment.killPeriod = 7
    let tally = try await experiment.run { disk, ledger in
      try await Self.prepare(disk, configuration)
      ledger.begin()
      _ = try await Store.salvage("store", to: "salvaged", on: disk)
      ledger.becomeDurable()
    } check: { disk, steps in
      let manifest = try disk.openDirectory("salvaged")?.openFile("MANIFEST", .read)
      if manifest == nil {
        guard steps.contains(0) else { throw Wrong(what: "the store is gone") }
        // The salvage can be repeated as soon as a source exists.
        do throws(StoreError) {
          _ = try await Store.salvage("store", to: "salvaged", on: disk)
        } catch {
          guard error.code == .notAStore else { throw error }
          return
        }
      }
      let store = try disk.openStore(at: "salvaged", configuration: configuration)
      // Before the salvage began, only a check that was crashed itself can have created a store.
      let isFromCheck = manifest == nil || steps.upperBound == 0
      guard try await store.count() == 39 || isFromCheck else { throw Wrong(what: "half a store") }
      guard try await store.verify().isSound else { throw Wrong(what: "not sound") }
      try await store.close()
    }
    #expect(tally.crashPoints > 50)
  }

  /// Every call of a salvage fails once: it throws an error or has the same result as without the
  /// fault; then it can be repeated.
  @Test(arguments: BackupBench.modes, [Errno.ioError, .noSpace])
  func aFailedSalvageMakesNoStore(mode: Store.Configuration.IOMode, errno: Errno) async throws {
    let memory = MemoryStorage()
    let configuration = Store.Configuration.testing(segmentSizeBytes: 800, ioMode: mode)
    try await Self.prepare(memory, configuration)
    var refusalCount = 0
    for index in 0... {
      let faulty = FaultStorage(memory)
      faulty.setScript { $0.index == index ? .fail(errno) : nil }
      let path = FilePath("salvaged \(index)")
      var refusal: StoreError?
      do throws(StoreError) {
        _ = try await Store.salvage("store", to: path, on: faulty)
      } catch {
        refusal = error
      }
      guard faulty.trace.count > index else { break }
      if let refusal {
        refusalCount += 1
        #expect([.io, .noSpace, .poisoned].contains(refusal.code), "call \(index): \(refusal)")
        // After the last rename the store may exist as a whole.
        if try memory.openDirectory(path)?.openFile("MANIFEST", .read) == nil {
          _ = try await Store.salvage("store", to: path, on: memory)
        }
      }
      let store = try Store(on: memory, at: path, configuration: configuration)
      #expect(try await store.count() == 39, "call \(index)")
      try await store.close()
    }
    #expect(refusalCount > 10)
  }
}
