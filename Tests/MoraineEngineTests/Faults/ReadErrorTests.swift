import Foundation
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

@testable import MoraineEngine

/// A read error names the file and is never reported as "missing" or "torn".
@Suite struct ReadErrorTests {
  @Test func unreadableKeyIsAnErrorOnlyForThatKey() async throws {
    let storage = FaultStorage(MemoryStorage())
    let configuration = Store.Configuration.testing(segmentSizeBytes: 400, ioMode: .positional)
    let store = try Store(on: storage, at: "store", configuration: configuration)
    for number in 0..<40 { try await store.set([UInt8](0..<30), forKey: Key("\(number)")) }
    let broken = "0000000002.segment"
    storage.setScript { event in
      event.operation == .read && event.file == broken ? .fail(.ioError) : nil
    }
    var failures = 0
    for number in 0..<40 {
      do throws(StoreError) {
        #expect(try await store.value(forKey: Key("\(number)")) == [UInt8](0..<30))
      } catch {
        #expect(error.code == .io)
        #expect(error.errno == .ioError)
        #expect(error.file == broken)
        failures += 1
      }
    }
    #expect(failures > 0 && failures < 20)
    storage.setScript(nil)
    // A failure that has ended leaves no key unreadable.
    for number in 0..<40 {
      #expect(try await store.value(forKey: Key("\(number)")) == [UInt8](0..<30))
    }
    #expect(try await store.verify().isSound)
    try await store.close()
  }

  @Test(arguments: [true, false])
  func aSegmentThatCannotBeReadIsNotATornTail(closes: Bool) async throws {
    let storage = FaultStorage(MemoryStorage())
    let configuration = Store.Configuration.testing(ioMode: .positional)
    do {
      let store = try Store(on: storage, at: "store", configuration: configuration)
      for number in 0..<40 { try await store.set([1, 2, 3], forKey: Key("\(number)")) }
      if closes { try await store.close() }
    }
    storage.setScript { event in
      event.operation == .read && event.file.hasSuffix(".segment") ? .fail(.ioError) : nil
    }
    do throws(StoreError) {
      _ = try Store(on: storage, at: "store", configuration: configuration)
      Issue.record("opened without reading")
    } catch {
      #expect(error.code == .io)
      #expect(error.file?.hasSuffix(".segment") == true)
    }
    storage.setScript(nil)
    let again = try Store(on: storage, at: "store", configuration: configuration)
    #expect(try await again.count() == 40)
    #expect(await again.recoveryReport.tornBytes == 0)
    try await again.close()
  }

  /// Regression: after a read that failed, the bytes that had been read before were others.
  @Test func bytesThatWereReadBeforeAFailureAreReadAgain() throws {
    let storage = MemoryStorage()
    try storage.createDirectory("folder")
    let folder = try #require(try storage.openDirectory("folder"))
    let file = try folder.createFile("short")
    let bytes = (0..<6000).map { UInt8($0 / 4096 + 1) }
    try bytes.withUnsafeBytes { try file.write($0, at: 0) }
    let source = ByteSource(file: file, name: "short", length: 8192, mapping: nil)
    let first = try source.bytes(at: 0, count: 16).load(as: UInt8.self)
    #expect(first == 1)
    // The second block is read in part, into the memory of the first one.
    let error = #expect(throws: StoreError.self) { _ = try source.bytes(at: 4096, count: 16) }
    #expect(error?.code == .corrupted)
    let again = try source.bytes(at: 0, count: 16).load(as: UInt8.self)
    #expect(again == 1)
  }

  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func descriptorsAreBoundedForAnyNumberOfSegments(mode: Store.Configuration.IOMode) async throws {
    let directory = try TestDirectory()
    let configuration = Store.Configuration.testing(segmentSizeBytes: 256, ioMode: mode)
    let before = try directory.descriptorCount()
    let store = try Store(at: directory.path, configuration: configuration)
    for number in 0..<240 { try await store.set([UInt8](0..<90), forKey: Key("\(number)")) }
    #expect(try await store.statistics().segmentCount > 100)
    for number in 0..<240 {
      #expect(try await store.value(forKey: Key("\(number)")) == [UInt8](0..<90))
    }
    #expect(try directory.descriptorCount() - before < 80)
    try await store.close()
    let again = try Store(at: directory.path, configuration: configuration)
    for number in 0..<240 { #expect(try await again.contains(Key("\(number)"))) }
    #expect(try directory.descriptorCount() - before < 80)
    try await again.close()
    #expect(try directory.descriptorCount() == before)
  }
}
