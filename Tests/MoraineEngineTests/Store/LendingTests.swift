import MoraineEngine
import Testing

@Suite struct LendingTests {
  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func withValueBorrowsTheBytesThatValueCopies(mode: Store.Configuration.IOMode) async throws {
    let directory = try TestDirectory()
    let store = try Store(at: directory.path, configuration: .testing(ioMode: mode))
    let values: [[UInt8]] = [[], [7], Array(0...255), [UInt8](repeating: 3, count: 10_000)]
    for (index, value) in values.enumerated() {
      try await store.set(value, forKey: Key("\(index)"))
    }
    for (index, value) in values.enumerated() {
      let lent = try await store.withValue(forKey: Key("\(index)")) { span in
        span.withUnsafeBytes { [UInt8]($0) }
      }
      #expect(lent == value)
    }
    #expect(try await store.withValue(forKey: "absent") { $0.byteCount } == nil)
    struct Stop: Error {}
    await #expect(throws: Stop.self) {
      try await store.withValue(forKey: "1") { _ in throw Stop() }
    }
    try await store.close()
    await #expect(throws: StoreError.self) { try await store.withValue(forKey: "1") { _ in } }
  }

  /// Closures of the main actor may capture variables and return results.
  @MainActor @Test func closuresComeFromTheMainActor() async throws {
    let store = Store.inMemory()
    let names = ["a", "b", "c"]
    var written = 0
    let last = try await store.write { batch in
      for name in names {
        try batch.set(Array(name.utf8), forKey: Key(name))
        written += 1
      }
      return batch.count
    }
    #expect(last == 3 && written == 3)
    var seen: [String] = []
    try await store.scan { entry in
      seen.append(entry.key.description)
      return true
    }
    #expect(seen == names)
  }

  @Test func aBatchReadsItsOwnWrites() async throws {
    let store = Store.inMemory()
    try await store.set([1], forKey: "kept")
    try await store.set([1], forKey: "gone")
    try await store.write { batch in
      try batch.set([2], forKey: "new")
      #expect(try batch.value(forKey: "new") == [2])
      #expect(try batch.value(forKey: "kept") == [1])
      try batch.set([3], forKey: "new")
      #expect(try batch.value(forKey: "new") == [3])
      #expect(try batch.removeValue(forKey: "gone"))
      #expect(try !batch.removeValue(forKey: "gone"))
      #expect(try batch.value(forKey: "gone") == nil)
      try batch.set([4], forKey: "gone")
      #expect(try batch.contains("gone"))
    }
    #expect(try await store.value(forKey: "gone") == [4])
    #expect(try await store.value(forKey: "new") == [3])
    #expect(try await store.count() == 3)
    #expect(try await store.verify().isSound)
  }
}
