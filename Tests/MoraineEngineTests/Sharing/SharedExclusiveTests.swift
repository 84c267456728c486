import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

@testable import MoraineEngine

/// A reader has followed processes that shared the store. After they have ended, a program opens
/// the store exclusively, and leaves their page as it was.
@Suite(.timeLimit(.minutes(10))) struct SharedExclusiveTests {
  private let memory = MemoryStorage()

  private func open(
    _ mode: Store.Configuration.IOMode, _ sharing: Store.Configuration.Sharing = .shared,
    readOnly: Bool = false
  ) throws -> Store {
    var configuration = Store.Configuration.testing(ioMode: mode)
    configuration.sharing = sharing
    configuration.compaction = .manual
    configuration.isReadOnly = readOnly
    return try Store(on: memory, at: "store", configuration: configuration)
  }

  /// Returns a reader that has read all but the last publication of a writer that has ended.
  private func reader(_ mode: Store.Configuration.IOMode) async throws -> Store {
    let writer = try open(mode)
    try await writer.set([1], forKey: "k")
    try await writer.sealForCompaction()
    let reader = try open(mode, readOnly: true)
    #expect(try await reader.value(forKey: "k") == [1])
    try await writer.set([1], forKey: "j")
    try await writer.close()
    return reader
  }

  /// Regression: the reader read the log only as far as the page said, and the segments with the
  /// older records were compacted away.
  @Test(arguments: SharedStoreTests.modes)
  func readerDoesNotBelieveThePageOfWritersThatHaveEnded(
    mode: Store.Configuration.IOMode
  ) async throws {
    let reader = try await reader(mode)
    let alone = try open(mode, .exclusive)
    try await alone.set([2], forKey: "k")
    try await alone.compact(segments: 0..<1)
    await alone.releaseTheLockLikeTheKernel()
    #expect(try await reader.value(forKey: "k") == [2])
    #expect(try await reader.contents() == ["j": [1], "k": [2]])
    try await reader.close()
    withExtendedLifetime(alone) {}
  }

  @Test(arguments: SharedStoreTests.modes)
  func readerAppliesNoPartOfWhatAnExclusiveWriterWrote(
    mode: Store.Configuration.IOMode
  ) async throws {
    let reader = try await reader(mode)
    let alone = try open(mode, .exclusive)
    try await alone.set([2], forKey: "k")
    try await alone.sealForCompaction()
    try await alone.set([1], forKey: "p")
    try await alone.sealForCompaction()
    try await alone.set([3], forKey: "k")
    // The segments of the sharing writer stay.
    try await alone.compact(segments: 2..<3)
    let beside = try await reader.contents()
    #expect(beside["p"] == nil || beside["k"] == [3], "a part of the log: \(beside)")
    try await alone.close()
    #expect(try await reader.contents() == ["j": [1], "k": [3], "p": [1]])
    try await reader.close()
  }

  @Test(arguments: SharedStoreTests.modes)
  func readerFollowsWritersThatCameAfterAnExclusiveOne(
    mode: Store.Configuration.IOMode
  ) async throws {
    let reader = try await reader(mode)
    let alone = try open(mode, .exclusive)
    try await alone.set([2], forKey: "k")
    try await alone.compact(segments: 0..<1)
    try await alone.close()
    #expect(try await reader.value(forKey: "k") == [2])
    let next = try open(mode)
    try await next.set([3], forKey: "k")
    try await next.close()
    #expect(try await reader.value(forKey: "k") == [3])
    try await reader.close()
  }
}

extension Store {
  /// Releases the lock of a store as the kernel does when the process is killed.
  fileprivate func releaseTheLockLikeTheKernel() { engine?.lockHandle()?.unlock() }
}
