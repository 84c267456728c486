import Foundation
import MoraineEngine
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

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
