import Foundation
import MoraineEngine
import Synchronization
import SystemPackage

/// A writer that saves records durably, one at a time in each of several tasks.
enum Writer {
  static let taskCount = 16

  /// - Parameter acknowledge: called with the index of each record after the record is durable.
  static func save(
    _ records: [Record], _ indices: [Int], to store: Store,
    acknowledge: @escaping @Sendable (Int) -> Void
  ) async throws {
    try await withThrowingTaskGroup(of: Void.self) { group in
      let cursor = Cursor()
      for _ in 0..<taskCount {
        group.addTask {
          while let place = cursor.next(below: indices.count) {
            let index = indices[place]
            try await store.set(
              records[index].value, forKey: records[index].key, durability: .sync)
            acknowledge(index)
          }
        }
      }
      try await group.waitForAll()
    }
  }

  /// Runs the process that will be killed. Prints the index of each record on a line after the
  /// record is durable.
  static func runUntilKilled(_ directory: FilePath, _ records: [Record]) async throws {
    let store = try await Store.open(at: directory)
    try await save(records, Array(records.indices), to: store) { index in
      FileHandle.standardOutput.write(Data("\(index)\n".utf8))
    }
    try await store.close()
  }
}

/// A counter that returns each number once.
final class Cursor: Sendable {
  private let value = Atomic<Int>(0)

  func next(below limit: Int) -> Int? {
    let number = value.wrappingAdd(1, ordering: .relaxed).oldValue
    return number < limit ? number : nil
  }
}
