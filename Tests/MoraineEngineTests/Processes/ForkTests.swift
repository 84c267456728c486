import CMoraineShims
import CTestSupport
import Foundation
import MoraineTesting
import Testing

@testable import MoraineEngine

/// A fork with an open store: the child may not write, and the end of the child does not affect the
/// parent.
@Suite struct ForkTests {
  @Test func aChildsEndNeitherUnlocksNorCuts() async throws {
    let directory = try TestDirectory()
    let store = try Store(at: directory.path)
    try await store.set([1], forKey: "before")
    let own = moraine_fork_generation()
    #expect(support_forks_seen_by_child(moraine_fork_generation) == Int32(own) + 1)
    #expect(moraine_fork_generation() == own, "the parent keeps its generation")
    let error = #expect(throws: StoreError.self) { try Store(at: directory.path) }
    #expect(error?.code == .locked)
    try await store.set([2], forKey: "after", durability: .sync)
    try await store.close()
    let again = try Store(at: directory.path)
    #expect(try await again.value(forKey: "before") == [1])
    #expect(try await again.value(forKey: "after") == [2])
    #expect(try await again.verify().isSound)
    try await again.close()
  }

  /// Runs in another process, which believes that it was forked.
  @Test func aChildsWritesAreRefused() async {
    await #expect(processExitsWith: .success) {
      let store = Store.inMemory(configuration: .testing(durability: .none))
      try await store.set([1], forKey: "a")
      moraine_note_fork()
      var codes: [StoreError.Code] = []
      do throws(StoreError) { try await store.set([2], forKey: "a") } catch {
        codes.append(error.code)
      }
      do throws(StoreError) { try await store.removeValue(forKey: "a") } catch {
        codes.append(error.code)
      }
      do {
        try await store.write { try $0.set([3], forKey: "b") }
      } catch {
        codes.append((error as? StoreError)?.code ?? .io)
      }
      do throws(StoreError) { try await store.sync() } catch { codes.append(error.code) }
      guard codes == Array(repeating: .usedAfterFork, count: 4),
        try await store.value(forKey: "a") == [1]
      else { exit(1) }
      let syncs = await store.knownStatistics.syncCount
      try await store.close()
      guard await store.knownStatistics.syncCount == syncs else { exit(2) }
    }
  }

  /// In a child no task of the parent's stores ever ends.
  @Test func tasksOfTheParentDelayNoOpeningInAChild() async {
    await #expect(processExitsWith: .success) {
      let directory = try TestDirectory()
      let store = try Store(at: directory.path)
      try await store.set([1], forKey: "a")
      store.observers.phase.beginTask()
      guard StorePhase.isAnyLeaving, let identity = store.observers.phase.directory,
        StorePhase.holder(of: identity) == .busy
      else { exit(1) }
      moraine_note_fork()
      guard !StorePhase.isAnyLeaving, StorePhase.holder(of: identity) == .elsewhere else { exit(2) }
    }
  }

  /// Regression: the end of a child's copy of a snapshot removed files that the parent reads.
  @Test func aChildsSnapshotRemovesNoFile() async {
    await #expect(processExitsWith: .success) {
      let directory = try TestDirectory()
      var configuration = Store.Configuration.testing(segmentSizeBytes: 2000, ioMode: .positional)
      configuration.compaction = .manual
      let store = try Store(at: directory.path, configuration: configuration)
      for number in 0..<100 { try await store.set([UInt8](0..<50), forKey: Key("\(number)")) }
      var snapshot: Store.Snapshot? = try await store.snapshot()
      for number in 0..<100 { try await store.removeValue(forKey: Key("\(number)")) }
      _ = try await store.compact()
      let before = try directory.segments().count
      guard snapshot?.count == 100, before > 3 else { exit(1) }
      moraine_note_fork()
      snapshot = nil
      // Jobs run in order, also one that would remove files.
      try await store.pipeline.run { () throws(StoreError) in }
      guard try directory.segments().count == before else { exit(2) }
    }
  }

  /// Regression: a child that released its copies of a reader and of the store trapped.
  @Test func aChildMayReleaseAReaderAndThenTheStore() async {
    await #expect(processExitsWith: .success) {
      var store: Store? = .inMemory(configuration: .testing(durability: .none))
      try await store?.set([1], forKey: "a")
      var reader: Store.Reader? = try await store?.reader()
      guard try reader?.value(forKey: "a") == [1] else { exit(1) }
      moraine_note_fork()
      reader = nil
      store = nil
    }
  }

  /// Regression: a child that released its copy of a store waited for ever for a lock that a thread
  /// of its parent had held.
  @Test func aChildsStoreEndsWithoutTheLocksOfItsParent() async {
    await #expect(processExitsWith: .success) {
      let phase = StorePhase()
      phase.tookLock()
      moraine_note_fork()
      // A wait for ever ends the process.
      alarm(60)
      phase.whileLocked {
        phase.beginClosing()
        phase.releasedLock()
        phase.end()
      }
      guard phase.isClosing else { exit(1) }
    }
  }

  /// Regression: an opening in a child waited for ever for the list of the parent's stores.
  @Test func aChildOpensAStoreWithoutTheLocksOfItsParent() async {
    await #expect(processExitsWith: .success) {
      let directory = try TestDirectory()
      let store = try Store(at: directory.path)
      try await store.set([1], forKey: "a")
      try await store.close()
      var isListed = false
      StorePhase.whileListIsLocked {
        moraine_note_fork()
        // A wait for ever ends the process.
        alarm(60)
        do throws(StoreError) {
          let own = try Store(at: directory.path)
          isListed = own.observers.phase.directory != nil
        } catch {
          exit(1)
        }
      }
      guard isListed else { exit(2) }
    }
  }

  /// Regression: `close()` in a child waited for ever for a lock that a thread of its parent had
  /// held.
  @Test func aChildClosesWithoutTheLocksOfItsParent() async {
    await #expect(processExitsWith: .success) {
      let store = Store.inMemory(configuration: .testing(durability: .none))
      try await store.set([1], forKey: "a")
      let (views, observers, gate) = (await store.views, store.observers, Gate())
      Thread.detachNewThread { views.whileLocked { observers.whileLocked { gate.pass() } } }
      await gate.arrival()
      moraine_note_fork()
      // A wait for ever ends the process.
      alarm(60)
      try await store.close()
    }
  }

  /// Regression: `close()` in a child waited for ever for a gate that a task of its parent had held
  /// at the fork.
  @Test func aChildClosesWithoutTheGatesOfItsParent() async {
    await #expect(processExitsWith: .success) {
      for gate in ParentsGate.allCases {
        var configuration = Store.Configuration.testing(durability: .none)
        configuration.compaction = .manual
        let store = Store.inMemory(configuration: configuration)
        try await store.set([1], forKey: "a")
        await store.hold(gate)
        moraine_note_fork()
        // A wait for ever ends the process.
        alarm(60)
        if gate == .room {
          do throws(StoreError) {
            try await store.set([2], forKey: "b")
            exit(2)
          } catch {
            guard error.code == .usedAfterFork else { exit(3) }
          }
        }
        try await store.close()
        guard await store.isClosed else { exit(1) }
      }
    }
  }

  /// Regression: `suspend()` in a child waited for ever for a gate that a task of its parent had
  /// held at the fork.
  @Test func aChildSuspendsWithoutTheGatesOfItsParent() async {
    await #expect(processExitsWith: .success) {
      for gate in ParentsGate.allCases {
        let directory = try TestDirectory()
        var configuration = Store.Configuration.testing()
        configuration.compaction = .manual
        let store = try Store(at: directory.path, configuration: configuration)
        try await store.set([1], forKey: "a")
        await store.hold(gate)
        moraine_note_fork()
        // A wait for ever ends the process.
        alarm(60)
        try await store.suspend()
        guard await store.isSuspended else { exit(1) }
        // A suspended store may be closed.
        try await store.close()
      }
    }
  }
}

/// What a task of the parent holds at the fork. In the child, that task does not exist.
private enum ParentsGate: CaseIterable {
  case compaction, room, turn
}

extension Store {
  fileprivate var views: LiveViews { readers.views }

  fileprivate func hold(_ gate: ParentsGate) {
    switch gate {
    case .compaction: compaction.begin()
    case .room: writing.roomGate.take()
    case .turn: lifecycle.turnGate.take()
    }
  }
}
