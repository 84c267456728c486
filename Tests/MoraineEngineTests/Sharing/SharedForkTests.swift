import CMoraineShims
import Foundation
import MoraineStorage
import SystemPackage
import Testing

@testable import MoraineEngine

/// A child of a process that shares a store has its parent's locks, and must not touch them.
@Suite struct SharedForkTests {
  /// Runs in another process, which believes that it was forked.
  @Test func aChildTouchesNeitherThePageNorTheLocks() async {
    await #expect(processExitsWith: .success) {
      let memory = MemoryStorage()
      let store = try Store(on: memory, at: "store", configuration: .shared())
      let other = try Store(on: memory, at: "store", configuration: .shared())
      try await store.set([1], forKey: "a")
      try await other.set([2], forKey: "b")
      let before = await store.pageSnapshot()
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
      do throws(StoreError) { try await store.compact() } catch { codes.append(error.code) }
      guard codes == Array(repeating: .usedAfterFork, count: 4) else { exit(1) }
      guard await store.pageSnapshot() == before else { exit(2) }
    }
  }

  /// Regression: a read that read the store again made the child a writer of its own.
  @Test func aChildThatReadsWhatWasCompactedMayNotWrite() async {
    await #expect(processExitsWith: .success) {
      let memory = MemoryStorage()
      let configuration = Store.Configuration.shared(segmentSizeBytes: 4096)
      let store = try Store(on: memory, at: "store", configuration: configuration)
      let other = try Store(on: memory, at: "store", configuration: configuration)
      for number in 0..<200 {
        try await other.set([UInt8](0..<50), forKey: Key("\(number % 10)"))
      }
      guard try await store.value(forKey: "1") != nil else { exit(1) }
      try await other.compact()
      let before = await store.pageSnapshot()
      moraine_note_fork()
      var code: StoreError.Code?
      do throws(StoreError) { _ = try await store.value(forKey: "1") } catch { code = error.code }
      guard code == nil || code == .usedAfterFork else { exit(2) }
      code = nil
      do throws(StoreError) { try await store.set([2], forKey: "a") } catch { code = error.code }
      guard code == .usedAfterFork else { exit(3) }
      guard await store.pageSnapshot() == before else { exit(4) }
    }
  }

  /// Regression: the end of a child's copy of an iterator moved the parent's pin on the page, and
  /// other processes compacted what the parent's iterator had not seen.
  @Test func aChildsIteratorMovesNoPin() async {
    await #expect(processExitsWith: .success) {
      let store = try Store(on: MemoryStorage(), at: "store", configuration: .shared())
      store.waitForIteratorsForever()
      try await store.set([1], forKey: "a")
      var iterator: ChangeSequence.Iterator? = store.contentsAndChanges().makeAsyncIterator()
      guard try await iterator?.next() != nil else { exit(1) }
      guard let before = await store.leastPinOnPage(), before < .max else { exit(2) }
      moraine_note_fork()
      iterator = nil
      guard await store.leastPinOnPage() == before else { exit(3) }
    }
  }

  /// Regression: a child waited for ever for a lock that a thread of its parent had held.
  @Test func aChildWaitsForNoLockOfThePins() async {
    await #expect(processExitsWith: .success) {
      let store = try Store(on: MemoryStorage(), at: "store", configuration: .shared())
      try await store.set([1], forKey: "a")
      let pins = store.observers.pins
      moraine_note_fork()
      var least: UInt64 = 0
      pins.whileLocked {
        let pin = pins.add(1)
        pin.move(to: 2)
        least = pins.leastSequence
      }
      guard least == .max else { exit(1) }
    }
  }
}

extension Store {
  func pageSnapshot() -> SharedPage.Publication? { engine?.log.link?.page.snapshot() }

  fileprivate func leastPinOnPage() -> UInt64? {
    engine?.log.link?.page.leastPin(now: SystemClock.monotonicNanoseconds())
  }
}
