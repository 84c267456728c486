import MoraineFormat
import MoraineStorage
import Testing

@testable import MoraineEngine

@Suite(.timeLimit(.minutes(10))) struct SegmentCountTests {
  /// Regression: more than a million segments were a trap.
  @Test func lastSegmentSlotIsRefusedWithAnError() async throws {
    var configuration = Store.Configuration.testing(segmentSizeBytes: 256)
    configuration.compaction = .manual
    let store = Store.inMemory(configuration: configuration)
    for number in 0..<10 { try await store.set([UInt8](0..<100), forKey: Key("\(number)")) }
    await store.fillSegmentTable(leaving: 1)
    let error = await #expect(throws: StoreError.self) {
      for number in 0..<10 { try await store.set([UInt8](0..<100), forKey: Key("\(number)")) }
    }
    #expect(error?.code == .noSpace)
    #expect(error?.message.contains("1048575") == true)
    for number in 0..<10 {
      #expect(try await store.value(forKey: Key("\(number)")) == [UInt8](0..<100))
    }
    // The last slot is reserved for compaction, which replaces many segments by one.
    try await store.compact(segments: 0..<4)
    for number in 0..<2 { try await store.set([1], forKey: Key("\(number)")) }
    #expect(try await store.verify().isSound)
    try await store.close()
  }
}

extension Store {
  fileprivate func fillSegmentTable(leaving count: Int) {
    let none = SegmentView(base: nil, end: 0, seed: Checksum())
    let nobody = SegmentInfo(number: SegmentNumber(rawValue: 0), epoch: 0, salt: 0)
    while engine!.log.table.vacancyCount > count { _ = engine!.log.table.place(none, nobody) }
  }
}
