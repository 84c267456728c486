import MoraineStorage
import Synchronization
import Testing

@testable import MoraineEngine

/// The thread that looks for what others have written, without a disk.
@Suite(.timeLimit(.minutes(10))) struct OthersWatchTests {
  private final class Memory: FileMapping {
    let lengthBytes = SharedPage.lengthBytes
    private let address: UInt

    init() {
      let bytes = UnsafeMutableRawPointer.allocate(byteCount: lengthBytes, alignment: 4096)
      bytes.initializeMemory(as: UInt8.self, repeating: 0, count: lengthBytes)
      address = UInt(bitPattern: bytes)
    }

    deinit { base.deallocate() }

    var base: UnsafeMutableRawPointer { UnsafeMutableRawPointer(bitPattern: address)! }

    func prefault(from start: Int, to end: Int) {}
  }

  /// A wait is over at once: it stands for the second after which the thread looks by itself.
  private final class Looks: FileEvents {
    let count = Atomic<Int>(0)

    func wait(atMostMilliseconds: Int) { count.add(1, ordering: .sequentiallyConsistent) }
    func interrupt() {}
  }

  /// Regression: the thread took for seen what was published before it ran; a process heard of that
  /// only with the next change, which might never come. A thread takes its time to begin.
  @Test func whatIsPublishedRightAfterTheStartIsTold() throws {
    for round in 0..<500 {
      let page = SharedPage(Memory(), isWritable: true)
      page.make(SharedPage.Snapshot(), nextSegment: 1, nonce: 1)
      let looks = Looks()
      let watch = OthersWatch(page, looks)
      let told = Told()
      try watch.start { told.count.add(1, ordering: .sequentiallyConsistent) }
      page.publish(SharedPage.Snapshot(lastSequence: 1))
      let first = looks.count.load(ordering: .sequentiallyConsistent)
      // The second look from here began when all of it was published.
      while looks.count.load(ordering: .sequentiallyConsistent) < first + 4 {}
      watch.stop()
      #expect(told.count.load(ordering: .sequentiallyConsistent) == 1, "round \(round)")
    }
  }

  private final class Told: Sendable {
    let count = Atomic<Int>(0)
  }
}
