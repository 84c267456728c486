import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

@testable import MoraineEngine

/// A batch stores short values with its keys and long values separately; neither kind may be taken
/// for the other, and the batch reads what it wrote.
@Suite struct BatchValueTests {
  private static let lengths = [0, 1, 100, 4095, 4096, 4097, 5000, 100_000]

  private static func value(_ generator: inout SeededGenerator) -> [UInt8] {
    let length = lengths[Int(generator.next() % UInt64(lengths.count))]
    let byte = UInt8(truncatingIfNeeded: generator.next())
    return (0..<length).map { $0.isMultiple(of: 3) ? byte : UInt8(truncatingIfNeeded: $0) }
  }

  @Test(arguments: [true, false], [Store.Configuration.IOMode.mapped, .positional])
  func batchAndStoreReadTheWritesOfTheBatch(
    readsEarly: Bool, mode: Store.Configuration.IOMode
  ) async throws {
    for seed in 0..<40 as Range<UInt64> {
      let storage = MemoryStorage()
      let store = try Store(on: storage, at: "store", configuration: .testing(ioMode: mode))
      let other = try store.keyspace(named: "other")
      let model = try await store.write { batch in
        var generator = SeededGenerator(seed: seed)
        var model: [BatchOperations.Place: [UInt8]] = [:]
        for step in 0..<60 {
          let isOther = generator.next() % 2 == 0
          let key = Key([UInt8](repeating: 65, count: Int(generator.next() % 12)))
          let place = BatchOperations.Place(keyspace: isOther ? 1 : 0, key: key)
          if generator.next() % 4 == 0 {
            let was =
              try isOther
              ? batch.removeValue(forKey: key, in: other) : batch.removeValue(forKey: key)
            let wasThere = model.removeValue(forKey: place) != nil
            try #require(was == wasThere, "seed \(seed), step \(step)")
          } else {
            let value = Self.value(&generator)
            model[place] = value
            if isOther {
              try batch.set(value, forKey: key, in: other)
            } else {
              try batch.set(value, forKey: key)
            }
          }
          guard readsEarly || step > 40 else { continue }
          let read = try isOther ? batch.value(forKey: key, in: other) : batch.value(forKey: key)
          // The values are long: they must not be printed, least of all a hundred times.
          let isRight = read == model[place]
          try #require(isRight, "seed \(seed), step \(step)")
        }
        return model
      }
      try await Self.expect(store, model, seed)
      try await store.close()
      try await Self.expect(
        try Store(on: storage, at: "store", configuration: .testing(ioMode: mode)), model, seed)
    }
  }

  private static func expect(
    _ store: Store, _ model: [BatchOperations.Place: [UInt8]], _ seed: UInt64
  ) async throws {
    #expect(try await store.count() == model.count, "seed \(seed)")
    let other = try store.keyspace(named: "other")
    for (place, value) in model {
      let read =
        try await place.keyspace == 1
        ? other.value(forKey: place.key) : store.value(forKey: place.key)
      let isRight = read == value
      try #require(isRight, "seed \(seed), \(place)")
    }
    #expect(try await store.verify().problems.isEmpty)
  }
}
