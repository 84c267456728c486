import Foundation
import MoraineEngine
import Testing

/// An entry that is not a plain file, in the place of one of the store's files, is refused, never
/// followed, and never waited for.
@Suite struct OddEntriesTests {
  enum Kind: CaseIterable, Sendable {
    case link, danglingLink, directory, pipe
  }

  static let names = ["LOCK", "MANIFEST", "MANIFEST.tmp", "RESERVE", "0000000001.segment"]

  private func place(_ kind: Kind, at url: URL, aside: URL) throws {
    let manager = FileManager.default
    if manager.fileExists(atPath: url.path) { try manager.moveItem(at: url, to: aside) }
    switch kind {
    case .link:
      if !manager.fileExists(atPath: aside.path) { try Data("mine".utf8).write(to: aside) }
      try manager.createSymbolicLink(at: url, withDestinationURL: aside)
    case .danglingLink:
      let nowhere = aside.deletingLastPathComponent().appendingPathComponent("nowhere")
      try manager.createSymbolicLink(at: url, withDestinationURL: nowhere)
    case .directory:
      try manager.createDirectory(at: url, withIntermediateDirectories: false)
    case .pipe:
      // Opening the pipe for reading would wait for a writer for ever.
      try #require(mkfifo(url.path, 0o600) == 0)
    }
  }

  @Test(arguments: names, Kind.allCases)
  func oddEntryIsRefusedAndNotChanged(name: String, kind: Kind) async throws {
    let directory = try TestDirectory()
    try await withStore(at: directory.path) { try await $0.set([1], forKey: "a") }
    let aside = directory.url.appendingPathComponent("aside")
    try place(kind, at: directory.store.appendingPathComponent(name), aside: aside)
    let names = try directory.names()
    let before = kind == .link ? try Data(contentsOf: aside) : nil
    for isReadOnly in [true, false] {
      var configuration = Store.Configuration.testing()
      configuration.isReadOnly = isReadOnly
      let error = #expect(throws: StoreError.self) {
        try Store(at: directory.path, configuration: configuration)
      }
      #expect(error?.code == .notAStore)
      #expect(error?.file == name)
    }
    #expect(try directory.names() == names)
    if let before { #expect(try Data(contentsOf: aside) == before) }
    let nowhere = directory.url.appendingPathComponent("nowhere")
    #expect(!FileManager.default.fileExists(atPath: nowhere.path))
  }

  /// Links may also appear while the store is open: nothing is written through them.
  @Test(arguments: ["MANIFEST.tmp", "RESERVE", "0000000002.segment"])
  func aLinkThatComesLaterIsNotWrittenThrough(name: String) async throws {
    let directory = try TestDirectory()
    let configuration = Store.Configuration.testing(segmentSizeBytes: 1000)
    let store = try Store(at: directory.path, configuration: configuration)
    try await store.set([1], forKey: "a", durability: .sync)
    let target = directory.url.appendingPathComponent("target")
    try Data("mine".utf8).write(to: target)
    let link = directory.store.appendingPathComponent(name)
    do { try FileManager.default.removeItem(at: link) } catch CocoaError.fileNoSuchFile {}
    try FileManager.default.createSymbolicLink(at: link, withDestinationURL: target)
    var number = 0
    while try await store.statistics().segmentCount < 3 {
      try await store.set([UInt8](0..<50), forKey: Key("\(number)"))
      number += 1
    }
    try await store.close()
    #expect(try Data(contentsOf: target) == Data("mine".utf8))
    let again = try Store(at: directory.path, configuration: configuration)
    #expect(try await again.count() == number + 1)
    #expect(try await again.verify().isSound)
    try await again.close()
  }

  /// Includes the files of later segments, of recovery and of the reserve.
  @Test func filesOfRecoveryAndRotationAreAccessibleOnlyToTheOwner() async throws {
    let directory = try TestDirectory()
    let configuration = Store.Configuration.testing(segmentSizeBytes: 400)
    let copy = try TestDirectory()
    let store = try Store(at: directory.path, configuration: configuration)
    for number in 0..<10 { try await store.set([UInt8](0..<60), forKey: Key("\(number)")) }
    // Jobs run in order: after the sync no seal is running.
    try await store.sync()
    try FileManager.default.copyItem(at: directory.store, to: copy.store)
    try await store.close()
    let again = try Store(at: copy.path, configuration: configuration)
    for number in 0..<10 { try await again.set([UInt8](0..<60), forKey: Key("again \(number)")) }
    try await again.sync()
    for name in try copy.names() {
      let path = copy.store.appendingPathComponent(name).path
      let attributes = try FileManager.default.attributesOfItem(atPath: path)
      #expect((attributes[.posixPermissions] as? NSNumber)?.intValue == 0o600, "\(name)")
    }
    try await again.close()
  }
}
