import MoraineFormat
import MoraineStorage
import Testing

@testable import MoraineEngine

/// Memory and files that opening keeps, beside the index.
@Suite struct OpeningMemoryTests {
  /// Regression: each segment kept a window of its bytes (a megabyte in a store with large
  /// segments) and its file.
  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func coveredSegmentsKeepNeitherWindowsNorFiles(mode: Store.Configuration.IOMode) async throws {
    let directory = try TestDirectory()
    var configuration = Store.Configuration.testing(segmentSizeBytes: 2000, ioMode: mode)
    configuration.checkpointFloorBytes = 0
    configuration.compaction = .manual
    try await withStore(at: directory.path, configuration: configuration) { store in
      for number in 0..<200 {
        try await store.set(
          [UInt8](repeating: UInt8(number), count: 1000), forKey: Key("\(number)"))
      }
    }
    let opener = Opener(
      storage: DiskStorage(), path: directory.path, configuration: configuration,
      pipeline: CommitPipeline(), observers: Observers())
    defer { opener.pipeline.stop() }
    let base = try #require(try DiskStorage().openDirectory(directory.path))
    let listing = try DirectoryContents(base)
    let manifest = try #require(try ManifestFile.read(base, listing))
    var problem: StoreError?
    let checkpoint = try #require(
      opener.loadCheckpoint(base, listing, manifest, &problem))
    let recovery = Recovery(listing: listing, opener: opener, checkpoint: checkpoint)
    var state = try EngineState(
      directory: base, lock: nil, manifest: manifest, configuration: configuration,
      pipeline: opener.pipeline, observers: Observers())
    try recovery.adoptCheckpoint(&state)
    let opened = try recovery.openCovered(&state)
    #expect(opened.count == manifest.segments.count && opened.count >= 3)
    #expect(opened.values.allSatisfy { $0.source == nil })
  }

  /// Opening first reads the header of a segment; only replay reads further.
  @Test func aHeaderIsReadWithoutAWindow() async throws {
    let directory = try TestDirectory()
    try await withStore(at: directory.path, configuration: .testing()) { store in
      try await store.set([UInt8](repeating: 0, count: 1 << 10), forKey: "a")
      try await store.set(
        (0..<200_000).map { UInt8(truncatingIfNeeded: $0 &* 7 >> 3) }, forKey: "b")
    }
    let base = try #require(try DiskStorage().openDirectory(directory.path))
    let source = try #require(
      try SegmentFile.source(base, "0000000001.segment", limit: nil))
    _ = try SegmentFile.header(source, "0000000001.segment")
    #expect(source.heldBytes <= 4096)
    source.release()
    #expect(source.heldBytes == 0)
    _ = try SegmentFile.header(source, "0000000001.segment")
  }
}
