import Foundation
import MoraineEngine
import SystemPackage
import Testing

/// P5: damage to any byte has no effect, or gives a typed error that names file and offset.
@Suite struct DamageTests {
  private let value = [UInt8](
    "a value that is long enough to be compressed, compressed, compressed".utf8)

  private func makeStore(_ directory: TestDirectory) async throws -> [Key: [UInt8]] {
    let configuration = Store.Configuration.testing(segmentSizeBytes: 600)
    let model: [Key: [UInt8]] = ["a": value, "b": [1, 2, 3], "d": value + value]
    try await withStore(at: directory.path, configuration: configuration) { store in
      try await store.set([9], forKey: "a")
      try await store.set(value, forKey: "a")
      try await store.set([9], forKey: "c")
      try await store.write { batch in
        try batch.set([1, 2, 3], forKey: "b")
        try batch.removeValue(forKey: "c")
        try batch.set(value + value, forKey: "d")
      }
    }
    return model
  }

  private func judge(_ directory: TestDirectory, _ model: [Key: [UInt8]]) async throws -> String? {
    do throws(StoreError) {
      let store = try Store(at: directory.path, configuration: .testing())
      let report = try await store.verify()
      for (key, expected) in model {
        guard try await store.value(forKey: key) == expected else { return "a wrong value" }
      }
      let count = try await store.count()
      try await store.close()
      guard report.isSound || report.problems.allSatisfy({ $0.file != nil }) else {
        return "a problem without a file"
      }
      return count == model.count ? nil : "\(count) keys"
    } catch {
      guard error.code == .corrupted, error.file != nil else { return error.description }
      return nil
    }
  }

  @Test func everyFlippedByteIsFoundOrHarmless() async throws {
    let directory = try TestDirectory()
    let model = try await makeStore(directory)
    for name in try directory.names() {
      let url = directory.store.appendingPathComponent(name)
      let original = try Data(contentsOf: url)
      for offset in original.indices {
        var damaged = original
        damaged[offset] ^= 0x41
        try damaged.write(to: url)
        let complaint = try await judge(directory, model)
        #expect(complaint == nil, "\(name) at byte \(offset)")
        try original.write(to: url)
      }
    }
    #expect(try await judge(directory, model) == nil)
  }

  @Test func everyTruncationOfASealedSegmentIsFound() async throws {
    let directory = try TestDirectory()
    _ = try await makeStore(directory)
    for url in try directory.segments() {
      let original = try Data(contentsOf: url)
      for length in 0..<original.count {
        try original.prefix(length).write(to: url)
        do {
          _ = try Store(at: directory.path)
          Issue.record("\(url.lastPathComponent) cut to \(length) bytes was accepted as whole")
        } catch {
          #expect(error.code == .corrupted)
        }
        try original.write(to: url)
      }
    }
  }

  @Test func missingFilesAreNamedAndNothingIsCreated() async throws {
    for missing in ["MANIFEST", "0000000001.segment"] {
      let directory = try TestDirectory()
      _ = try await makeStore(directory)
      try FileManager.default.removeItem(at: directory.store.appendingPathComponent(missing))
      let before = try directory.names()
      do {
        _ = try Store(at: directory.path)
        Issue.record("opened without \(missing)")
      } catch {
        #expect(error.code == .corrupted)
        #expect(error.file == missing)
      }
      #expect(try directory.names() == before)
    }
  }

  @Test func foreignFilesAreIgnoredAndReported() async throws {
    let directory = try TestDirectory()
    let model = try await makeStore(directory)
    for name in [".DS_Store", "._x", "0000000001 copy.segment", "1.segment"] {
      try Data("junk".utf8).write(to: directory.store.appendingPathComponent(name))
    }
    let store = try Store(at: directory.path, configuration: .testing())
    #expect(await store.recoveryReport.foreignFiles.count == 4)
    #expect(try await store.count() == model.count)
    try await store.close()
  }
}
