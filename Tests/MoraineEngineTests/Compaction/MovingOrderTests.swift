import MoraineFormat
import Synchronization
import Testing

@testable import MoraineEngine

/// The order of the records while the copies of a compaction take the place of the originals.
@Suite(.timeLimit(.minutes(5))) struct MovingOrderTests {
  /// Other calls run after each thousand copies. Some records are then read in the output, which
  /// comes after the inputs. The compactions go on until a reading falls into one of them.
  @Test func entriesAreInTheOrderOfTheirPutsDuringACompaction() async throws {
    var configuration = Store.Configuration.testing(segmentSizeBytes: 128 << 10)
    configuration.compaction = .manual
    let store = Store.inMemory(configuration: configuration)
    for number in 0..<12_000 { try await store.set([1], forKey: Key("\(number)")) }
    var readingsDuringMoves = 0
    while readingsDuringMoves == 0 {
      for number in stride(from: 0, to: 12_000, by: 3) {
        try await store.set([2], forKey: Key("\(number)"))
      }
      let isOver = Atomic<Bool>(false)
      let compacting = Task {
        defer { isOver.store(true, ordering: .releasing) }
        return try await store.compact()
      }
      while !isOver.load(ordering: .acquiring) {
        let (numbers, isMoving) = try await store.numbersInOneStep()
        #expect(numbers.count == 12_000)
        #expect(numbers == numbers.sorted())
        if isMoving { readingsDuringMoves += 1 }
      }
      #expect(try await compacting.value.inputSegmentCount > 1)
    }
    try await store.close()
  }
}

extension Store {
  /// Returns the numbers of all records as they are read, and whether copies take the place of
  /// originals at that moment.
  fileprivate func numbersInOneStep() throws -> (numbers: [SequenceNumber], isMoving: Bool) {
    let isMoving = engine!.log.table.isRetiring
    return (try engine!.entries(in: 0).map(\.sequence), isMoving)
  }
}
