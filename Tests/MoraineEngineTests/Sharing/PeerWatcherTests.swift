import MoraineStorage
import Synchronization
import Testing

@testable import MoraineEngine

/// The watching of other processes' writes, without a disk.
@Suite(.timeLimit(.minutes(10))) struct PeerWatcherTests {
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

  /// Stands for the file system's events: the test says when an event comes.
  private final class Events: DirectoryWatch {
    let look: @Sendable () -> Void

    init(_ look: @escaping @Sendable () -> Void) { self.look = look }
  }

  private final class Told: Sendable {
    let count = Atomic<Int>(0)
  }

  /// Regression: a publication before the watching thread ran counted as seen; the process learned
  /// of it only with the next change, which might never come.
  @Test func publicationRightAfterTheStartIsReported() throws {
    for round in 0..<500 {
      let page = SharedPage(Memory(), isWritable: true)
      page.make(SharedPage.Publication(), nextSegment: 1, nonce: 1)
      let told = Told()
      let watch = PeerWatcher(page) { told.count.add(1, ordering: .sequentiallyConsistent) }
      let events = Mutex<Events?>(nil)
      try watch.start { look in
        let made = Events(look)
        events.withLock { $0 = made }
        return made
      }
      page.publish(SharedPage.Publication(lastSequence: 1))
      let look = try #require(events.withLock { $0 }).look
      look()
      look()
      watch.stop()
      #expect(told.count.load(ordering: .sequentiallyConsistent) == 1, "round \(round)")
      #expect(page.load(.watchers) == 0)
    }
  }
}
