#if os(Linux)
  import CTestSupport
  import Foundation
  import Glibc
  import Synchronization
  import SystemPackage
  import Testing

  @testable import MoraineStorage

  /// Failures of calls that normally succeed: each error names its operation, its file and the
  /// reason.
  @Suite(.timeLimit(.minutes(10))) struct DiskFailureTests {
    @Test func directoryWithoutADescriptorIsAnError() {
      let error = #expect(throws: StorageError.self) {
        _ = try DiskDirectory(path: "/nowhere", descriptor: -1)
      }
      #expect(error?.operation == "inspect")
      #expect(error?.file == "/nowhere")
      #expect(error?.errno == .badFileDescriptor)
    }

    /// A descriptor that only names a path; Linux can make such descriptors.
    @Test func aFileThatCannotBeLockedIsNotTakenForLocked() throws {
      let ground = try Ground(.disk)
      try ground.directory.createFile("LOCK").write("hello", at: 0)
      let placeOnly: CInt = 0o10_000_000
      let descriptor = open(ground.path.appending("LOCK").string, placeOnly)
      try #require(descriptor >= 0)
      let file = try DiskFile(
        name: "LOCK", descriptor: descriptor, access: .read,
        in: #require(ground.directory as? DiskDirectory))
      #expect(try file.lengthBytes() == 5)
      let error = #expect(throws: StorageError.self) { try file.tryLock(shared: false) }
      #expect(error?.operation == "lock")
      #expect(error?.file == "LOCK")
      #expect(error?.errno == .badFileDescriptor)
    }

    /// Runs in a process of its own: here another test would soon get the number.
    @Test func descriptorClosedByOtherCodeIsAnError() async {
      await #expect(processExitsWith: .success) {
        let descriptor = open("/proc/self/exe", O_RDONLY)
        let directory = try DiskDirectory(
          path: "/proc/self", descriptor: open("/proc/self", O_RDONLY))
        let file = try DiskFile(name: "exe", descriptor: descriptor, access: .read, in: directory)
        #expect(try file.lengthBytes() > 0)
        close(descriptor)
        let error = #expect(throws: StorageError.self) { try file.lengthBytes() }
        #expect(error?.operation == "inspect")
        #expect(error?.file == "exe")
        #expect(error?.errno == .badFileDescriptor)
      }
    }

    /// A process that may list a directory may not be allowed to inspect its entries. The storage
    /// does both one after the other, so the permission must end in between.
    @Test func anEntryThatMayNotBeLookedAtIsNamed() throws {
      let ground = try Ground(.disk)
      try ground.directory.createFile("a").write("hello", at: 0)
      let path = ground.path.string
      let flipping = try Repetition { turn in
        chmod(path, turn.isMultiple(of: 2) ? 0o444 : 0o555)
      }
      defer {
        flipping.stop()
        chmod(path, 0o700)
      }
      guard support_files_as_nobody(1) == 1 else { return }
      defer { _ = support_files_as_nobody(0) }
      while true {
        do throws(StorageError) {
          #expect(try ground.directory.entries().map(\.name) == ["a"])
        } catch {
          #expect(error.errno == .permissionDenied)
          guard error.operation == "inspect" else { continue }
          #expect(error.file == "a")
          return
        }
      }
    }

    @Test func namesMayVanishDuringAListing() throws {
      let ground = try Ground(.disk)
      for number in 0..<50 { _ = try ground.directory.createFile("stays \(number)") }
      let path = ground.path.string
      let changing = try Repetition { turn in
        let name = path + "/comes and goes \(turn / 2 % 50)"
        if turn.isMultiple(of: 2) {
          close(open(name, O_RDWR | O_CREAT, 0o600))
        } else {
          unlink(name)
        }
      }
      defer { changing.stop() }
      for _ in 0..<500 {
        let names = try ground.directory.entries().map(\.name)
        #expect(names.count { $0.hasPrefix("stays") } == 50)
      }
    }
  }

  /// Repeats an action on a thread of its own.
  private final class Repetition: Sendable {
    private let isStopped = Atomic(false)
    private let hasEnded = Atomic(false)

    init(_ body: @escaping @Sendable (Int) -> Void) throws {
      try WorkerThread.start { [self] in
        var turn = 0
        while !isStopped.load(ordering: .acquiring) {
          body(turn)
          turn += 1
        }
        hasEnded.store(true, ordering: .releasing)
      }
    }

    func stop() {
      isStopped.store(true, ordering: .releasing)
      while !hasEnded.load(ordering: .acquiring) { sched_yield() }
    }
  }
#endif
