import MoraineEngine
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

/// A full disk: errors are typed, nothing is lost, deletes continue, and the store recovers without
/// reopening.
@Suite struct NoSpaceTests {
  struct Case: Sendable {
    let mode: Store.Configuration.IOMode
    let errno: Errno
  }

  static let cases: [Case] = [Store.Configuration.IOMode.mapped, .positional].flatMap { mode in
    [Errno.noSpace, .diskQuotaExceeded].map { Case(mode: mode, errno: $0) }
  }

  @Test(arguments: cases)
  func aFullDiskRefusesPutsTakesDeletesAndHeals(_ item: Case) async throws {
    let disk = FullDisk(errno: item.errno)
    let storage = FaultStorage(MemoryStorage())
    storage.setScript { disk.judge($0) }
    let configuration = Store.Configuration.testing(ioMode: item.mode)
    let store = try Store(on: storage, at: "store", configuration: configuration)
    for number in 0..<50 { try await store.set(Self.value, forKey: Key("\(number)")) }
    disk.fill()

    let refused = try await putUntilRefused(store)
    #expect(refused.code == .noSpace)
    #expect(refused.errno == item.errno)
    #expect(try await store.value(forKey: "7") == Self.value)
    for number in 0..<20 {
      #expect(try await store.removeValue(forKey: Key("\(number)")) != nil)
    }
    try await store.write { batch in
      for number in 20..<30 { try batch.removeValue(forKey: Key("\(number)")) }
    }
    // Puts may not use the reserve for deletes.
    let again = try await putUntilRefused(store, attempts: 1)
    #expect(again.code == .noSpace)

    disk.empty()
    try await store.set([1], forKey: "healed", durability: .sync)
    #expect(store.poison == nil)
    try await store.close()
    let reopened = try Store(on: storage, at: "store", configuration: configuration)
    #expect(try await reopened.value(forKey: "healed") == [1])
    #expect(try await reopened.value(forKey: "29") == nil)
    #expect(try await reopened.value(forKey: "30") == Self.value)
    #expect(try await reopened.verify().isSound)
    try await reopened.close()
  }

  private static let value = [UInt8](repeating: 5, count: 3) + Array(0..<90)

  /// In mapped mode puts succeed until the allocated part is used up.
  private func putUntilRefused(_ store: Store, attempts: Int = 5000) async throws -> StoreError {
    for number in 0..<attempts {
      do throws(StoreError) {
        try await store.set(Self.value, forKey: Key("more \(number)"))
      } catch {
        return error
      }
    }
    Issue.record("a full disk took \(attempts) puts")
    return StoreError(.io, "none")
  }
}

/// A disk without a free block, except those that the reserve releases.
private final class FullDisk: Sendable {
  private let errno: Errno
  /// The number of calls that still find space, and whether the reserve was refused more.
  private let state = Mutex((credit: Int.max, isRefused: false))

  init(errno: Errno) {
    self.errno = errno
  }

  func fill() { state.withLock { $0.credit = 0 } }
  func empty() { state.withLock { $0.credit = .max } }

  func judge(_ event: StorageEvent) -> StorageFault? {
    state.withLock { state in
      guard state.credit != .max else { return nil }
      if event.file == "RESERVE" { return judgeReserve(event, &state) }
      guard [.allocate, .write, .createFile].contains(event.operation) else { return nil }
      guard state.credit > 0 else { return .fail(errno) }
      state.credit -= 1
      return nil
    }
  }

  private func judgeReserve(
    _ event: StorageEvent, _ state: inout (credit: Int, isRefused: Bool)
  ) -> StorageFault? {
    switch event.operation {
    // A reserve is larger than the space that the last segment leaves.
    case .allocate, .createFile:
      state.isRefused = true
      return .fail(errno)
    // After a refusal, a truncation only reverts the refused allocation, and frees nothing.
    case .truncate, .remove:
      if !state.isRefused { state.credit += 200 }
      state.isRefused = false
      return nil
    default: return nil
    }
  }
}
