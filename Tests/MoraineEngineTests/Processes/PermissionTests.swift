import Foundation
import MoraineEngine
import Testing

/// Created files belong to their owner alone; entries that are not plain files are not opened.
@Suite struct PermissionTests {
  @Test func createdFilesAreAccessibleOnlyToTheOwner() async throws {
    let directory = try TestDirectory()
    let store = try Store(at: directory.path, configuration: .testing(segmentSizeBytes: 400))
    for number in 0..<10 { try await store.set([UInt8](0..<60), forKey: "\(number)") }
    // Sealing a segment in the background creates temporary files that vanish while the test looks.
    try await store.waitUntilIdle()
    #expect(try mode(directory.store) == 0o700)
    let names = try directory.names()
    #expect(names.contains("LOCK") && names.contains("MANIFEST") && names.contains("RESERVE"))
    for name in names { #expect(try mode(directory.store.appendingPathComponent(name)) == 0o600) }
    try await store.close()
  }

  @Test(arguments: ["LOCK", "MANIFEST"])
  func aLinkInAFilesPlaceIsRefused(name: String) async throws {
    let directory = try TestDirectory()
    try await withStore(at: directory.path) { try await $0.set([1], forKey: "a") }
    let file = directory.store.appendingPathComponent(name)
    let elsewhere = directory.url.appendingPathComponent("elsewhere")
    try FileManager.default.moveItem(at: file, to: elsewhere)
    let before = try Data(contentsOf: elsewhere)
    try FileManager.default.createSymbolicLink(at: file, withDestinationURL: elsewhere)
    let error = #expect(throws: StoreError.self) { try Store(at: directory.path) }
    #expect(error?.code == .notAStore)
    #expect(error?.file == name)
    #expect(try Data(contentsOf: elsewhere) == before)
  }

  /// The superuser may read everything, so the test has nothing to check then.
  @Test(.enabled(if: getuid() != 0)) func fileWithoutReadPermissionIsNamed() async throws {
    let directory = try TestDirectory()
    try await withStore(at: directory.path) { try await $0.set([1], forKey: "a") }
    let segment = try #require(try directory.segments().first)
    try FileManager.default.setAttributes([.posixPermissions: 0], ofItemAtPath: segment.path)
    let error = #expect(throws: StoreError.self) { try Store(at: directory.path) }
    #expect(error?.code == .io)
    #expect(error?.file == segment.lastPathComponent)
  }

  private func mode(_ url: URL) throws -> Int? {
    let attributes = try FileManager.default.attributesOfItem(atPath: url.path)
    return (attributes[.posixPermissions] as? NSNumber)?.intValue
  }
}
