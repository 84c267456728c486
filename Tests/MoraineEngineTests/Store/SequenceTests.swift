import MoraineEngine
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

/// Sequence numbers always rise: after errors, after unclean stops, and when no record is left
/// (rule 8).
@Suite struct SequenceTests {
  @Test func failedOperationUsesUpItsNumber() async throws {
    let storage = FaultStorage(MemoryStorage())
    let configuration = Store.Configuration.testing(segmentSizeBytes: 1000, ioMode: .positional)
    let store = try Store(on: storage, at: "store", configuration: configuration)
    let first = try await store.set([1], forKey: "a")
    storage.setScript { event in
      event.operation == .write && event.file.hasSuffix(".segment") ? .fail(.ioError) : nil
    }
    await #expect(throws: StoreError.self) { try await store.set([2], forKey: "b") }
    await #expect(throws: StoreError.self) {
      try await store.write { batch in
        try batch.set([3], forKey: "c")
        try batch.set([3], forKey: "d")
      }
    }
    storage.setScript(nil)
    // A wait for the used-up numbers would never end.
    #expect(try await store.sync() == first)
    let next = try await store.set([4], forKey: "e")
    #expect(next.rawValue == first.rawValue + 4)
    #expect(try await store.count() == 2)
    // Continues into the next segment, whose header names the last number.
    for number in 0..<12 { try await store.set([UInt8](0..<60), forKey: "more \(number)") }
    let last = try await store.lastSequence()
    try await store.close()
    let again = try Store(on: storage, at: "store", configuration: configuration)
    #expect(try await again.lastSequence() >= last)
    #expect(try await again.value(forKey: "b") == nil)
    #expect(try await again.value(forKey: "e") == [4])
    try await again.close()
  }

  /// Regression: a used-up number at the very end of a segment was taken for corruption.
  @Test func aSegmentMayEndInFailedOperations() async throws {
    let disk = SimulatedDisk()
    let storage = FaultStorage(disk)
    let gate = Gate()
    let configuration = Store.Configuration.testing(segmentSizeBytes: 1000, ioMode: .positional)
    let store = try Store(on: storage, at: "store", configuration: configuration)
    for number in 0..<8 { try await store.set([UInt8](0..<60), forKey: "\(number)") }
    storage.setScript { event in
      event.operation == .write && event.file.hasSuffix(".segment") ? .fail(.ioError) : nil
    }
    await #expect(throws: StoreError.self) { try await store.set([2], forKey: "b") }
    // Both segments stay open: the seal of the first one hangs.
    storage.setScript { event in
      event.operation == .truncate && event.file == "0000000001.segment" ? .hang(gate) : nil
    }
    for number in 0..<4 { try await store.set([UInt8](0..<60), forKey: "then \(number)") }
    await gate.arrival()
    #expect(try await store.statistics().segmentCount == 2)
    let image = SimulatedDisk(disk.image(.everything))
    gate.open()
    try await store.close()
    let again = try Store(on: image, at: "store", configuration: configuration)
    #expect(try await again.count() == 12)
    #expect(try await again.lastSequence().rawValue == 13)
    try await again.close()
  }

  @Test func deletingEverythingResetsNothing() async throws {
    let storage = MemoryStorage()
    var last = SequenceNumber.none
    for _ in 0..<3 {
      let store = try Store(on: storage, at: "store", configuration: .testing())
      #expect(try await store.set([1], forKey: "a") > last)
      last = try #require(try await store.removeValue(forKey: "a"))
      #expect(try await store.count() == 0)
      try await store.close()
    }
    #expect(last.rawValue == 6)
  }
}
