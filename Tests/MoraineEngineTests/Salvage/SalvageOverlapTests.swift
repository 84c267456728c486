import MoraineEngine
import MoraineFormat
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

/// Without a manifest, segments that compaction has replaced may lie beside their replacements:
/// sequence numbers decide, not files.
@Suite struct SalvageOverlapTests {
  @Test func segmentsThatCompactionReplacedChangeNothing() async throws {
    for seed in 0..<UInt64(20) {
      var random = SeededGenerator(seed: seed)
      var damaged = DamagedStore()
      try await damaged.write(&random)
      let expected = damaged.expected()
      let before = damaged.originals
      let store = try Store(
        on: damaged.storage, at: DamagedStore.path, configuration: damaged.configuration)
      _ = try await store.compact()
      try await store.close()
      let directory = try #require(try damaged.storage.openDirectory(DamagedStore.path))
      let names = Set(try directory.entries().map(\.name))
      var replaced = before.keys.filter { $0.hasSuffix(".segment") && !names.contains($0) }.sorted()
      #expect(replaced.count > 1)
      let areAllThere = seed % 2 == 0
      if !areAllThere { replaced.removeAll { _ in random.next() % 3 == 0 } }
      for name in replaced {
        let file = try directory.createFile(name)
        try before[name]!.withUnsafeBytes { try file.write($0, at: 0) }
      }
      try directory.remove(Manifest.fileName)
      let (state, report) = try await damaged.salvage()
      #expect(report.losses.map(\.kind) == [.manifest])
      let (found, wanted) = (values(state), values(expected))
      // A removal may be lost with its segment: compaction has dropped it elsewhere.
      let isRight =
        areAllThere ? found == wanted : wanted.allSatisfy { found[$0.key] == $0.value }
      #expect(isRight, "seed \(seed)")
    }
  }

  /// Returns the values of the unnamed keyspace; the other keyspaces have lost their names.
  private func values(_ state: DamagedStore.State) -> [Key: [UInt8]] {
    Dictionary(
      uniqueKeysWithValues: state.filter { $0.key.keyspace.isEmpty }.map { ($0.key.key, $0.value) })
  }
}
