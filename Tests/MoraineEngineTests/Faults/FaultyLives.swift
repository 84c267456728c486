import MoraineEngine
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

/// Three runs of one store: created and killed, reopened and closed, reopened and read.
///
/// A fault strikes one call of one run. Each run compares what it reads with the answers that the
/// writer got; the last check has no faults.
final class FaultyLives {
  let configuration: Store.Configuration
  let misfortune: Misfortune
  let what: Comment
  let injector: FaultInjector
  var possible = PossibleStates()
  var wasPoisoned = false
  /// Number of writes that began after the fault.
  var writesSinceStrike = 0
  /// Number of reads that began after the fault.
  private var readsSinceStrike = 0

  init(_ mode: Store.Configuration.IOMode, _ misfortune: Misfortune, at target: Call?) {
    configuration = .testing(segmentSizeBytes: 600, ioMode: mode)
    self.misfortune = misfortune
    injector = FaultInjector(target, misfortune)
    what = "\(mode), \(misfortune), at \(target.map(\.description) ?? "none")"
  }

  func live() async throws {
    var disk = SimulatedDisk()
    for life in 0..<3 {
      let storage = FaultStorage(disk)
      storage.setScript(injector.script(life: life))
      let store = try await open(storage)
      guard let store else { continue }
      await see(store)
      if life < 2 { await work(on: store, life) }
      if life == 1 {
        await attempt(on: store) { () throws(StoreError) in try await store.close() }
      }
      // The kill: the contents of the files while the store is still open.
      disk = SimulatedDisk(disk.image(.everything))
      storage.setScript(nil)
      try await ignoringPoison { () throws(StoreError) in try await store.close() }
    }
    try await settle(on: disk)
  }

  /// Returns nil when the fault is permanent. A fault that strikes once must not prevent a second
  /// attempt from succeeding.
  func open(_ storage: FaultStorage) async throws -> Store? {
    for _ in 0..<2 {
      do throws(StoreError) {
        let store = try Store(on: storage, at: "store", configuration: configuration)
        wasPoisoned = false
        return store
      } catch {
        judge(error)
      }
    }
    #expect(misfortune.isPermanent, "a second attempt must open the store; \(what)")
    return nil
  }

  /// Every failure has a type, and names its cause.
  func judge(_ error: StoreError) {
    #expect([.io, .noSpace, .poisoned, .limitExceeded].contains(error.code), "\(error); \(what)")
    #expect(error.errno == misfortune.errno, "\(error); \(what)")
    #expect(injector.hasStruck, "\(error) without a fault; \(what)")
  }

  /// After one failure, only a call that leaves the contents of the disk unknown may poison.
  func checkPoison(of store: Store) {
    guard !misfortune.isPermanent, let poison = store.poison else { return }
    let operation = injector.target?.operation
    let mayPoison = operation.map { $0.isSync || [.rename, .truncate].contains($0) } ?? false
    #expect(mayPoison, "\(poison); \(what)")
  }

  func judge(untyped error: any Error) {
    guard let error = error as? StoreError else {
      Issue.record("\(error) is no error of the store; \(what)")
      return
    }
    judge(error)
  }

  private func countRead() { if injector.hasStruck { readsSinceStrike += 1 } }

  /// The read that a fault strikes may throw, and the first one after it. The second one must
  /// succeed, unless the fault lasts.
  private func judge(read error: any Error) {
    judge(untyped: error)
    let mayFail = misfortune.isPermanent || readsSinceStrike < 2
    #expect(mayFail, "read \(readsSinceStrike) after the fault: \(error); \(what)")
  }

  /// A key may be unreadable for a while, and never has a wrong value.
  func see(_ key: Key, in store: Store) async {
    countRead()
    do throws(StoreError) {
      let value = try await store.value(forKey: key)
      #expect(possible.allows(value, for: key), "\(key); \(what)")
    } catch {
      judge(read: error)
    }
  }

  func see(_ store: Store) async {
    for _ in 0..<(misfortune.isPermanent ? 1 : 3) {
      countRead()
      do {
        let state = try await store.contents()
        let isPossible = possible.saw(state)
        #expect(isPossible, what)
        return
      } catch {
        judge(read: error)
      }
    }
  }

  func ignoringPoison(_ body: () async throws(StoreError) -> Void) async throws {
    do throws(StoreError) { try await body() } catch {
      guard error.code == .poisoned || wasPoisoned else { throw error }
    }
  }

  /// Opens the store without faults, writes, closes, and opens it again.
  func settle(on disk: SimulatedDisk) async throws {
    let store = try Store(on: disk, at: "store", configuration: configuration)
    var state = try await store.contents()
    let isPossible = possible.saw(state)
    #expect(isPossible, what)
    #expect(try await store.verify().isSound, what)
    try await store.set([9], forKey: "after", durability: .sync)
    try await store.close()
    state["after"] = [9]
    let again = try Store(on: disk, at: "store", configuration: configuration)
    #expect(try await again.contents() == state, what)
    #expect(try await again.verify().isSound, what)
    try await again.close()
  }
}
