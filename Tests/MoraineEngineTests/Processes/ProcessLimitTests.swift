#if os(Linux)
  import Foundation
  import MoraineStorage
  import SystemPackage
  import Testing

  @testable import MoraineEngine

  /// A process at its limit of descriptors or threads, each test in a process of its own. No call
  /// hangs or traps; an error is `.limitExceeded`; when the limit is lifted, the store contains
  /// everything that was acknowledged.
  @Suite(.timeLimit(.minutes(10)), .serialized) struct ProcessLimitTests {
    @Test func aStoreAtTheLimitOfDescriptorsFailsWithTypedErrors() async {
      var monitor = DispatchMonitor()
      var result: ExitTest.Result?
      repeat {
        result = await #expect(
          processExitsWith: .success, observing: [\.standardOutputContent]
        ) {
          try DispatchMonitor.reportItsTrap()
          for mode in [Store.Configuration.IOMode.mapped, .positional] {
            let store = try LimitedStore(mode)
            // From enough spare descriptors for an opening down to none.
            for spare in stride(from: 12, through: 0, by: -1) {
              let limit = try Limit(.descriptors, (try Limit.highestDescriptor()) + 1 + spare)
              try await store.useReopening()
              try limit.lift()
              try await store.check()
            }
          }
        }
      } while monitor.hasEnded(result)
    }

    /// Regression: at a sync or a seal, a store that has closed its descriptors needs one.
    @Test func anOpenStoreAtTheLimitOfDescriptorsLosesNothing() async {
      var monitor = DispatchMonitor()
      var result: ExitTest.Result?
      repeat {
        result = await #expect(
          processExitsWith: .success, observing: [\.standardOutputContent]
        ) {
          try DispatchMonitor.reportItsTrap()
          for mode in [Store.Configuration.IOMode.mapped, .positional] {
            let store = try LimitedStore(mode)
            try await store.useOpen { () throws -> Limit in
              DescriptorPool.current.parkAll()
              return try Limit(.descriptors, 0)
            }
            try await store.check()
          }
        }
      } while monitor.hasEnded(result)
    }

    /// Regression: a put whose file could not be opened again waited on a thread of Swift's pool,
    /// and then ended writing, though it had written nothing.
    @Test func storeWritesAgainAfterATemporaryLackOfDescriptors() async {
      var monitor = DispatchMonitor()
      var result: ExitTest.Result?
      repeat {
        result = await #expect(
          processExitsWith: .success, observing: [\.standardOutputContent]
        ) {
          try DispatchMonitor.reportItsTrap()
          alarm(60)
          let directory = try TestDirectory()
          let store = try await Store.open(
            at: directory.path, configuration: .testing(ioMode: .positional, durability: .sync))
          try await store.set([1], forKey: "a")
          DescriptorPool.current.parkAll()
          let limit = try Limit(.descriptors, 0)
          let error = await #expect(throws: StoreError.self) {
            try await store.set([2], forKey: "b")
          }
          #expect(error?.code == .limitExceeded)
          let second = await #expect(throws: StoreError.self) {
            try await store.write { try $0.set([3], forKey: "c") }
          }
          #expect(second?.code == .limitExceeded)
          try limit.lift()
          try await store.set([4], forKey: "d")
          #expect(try await store.value(forKey: "a") == [1])
          #expect(try await store.value(forKey: "b") == nil)
          try await store.close()
          let again = try await Store.open(at: directory.path)
          #expect(try await again.verify().isSound)
          #expect(try await again.count() == 2)
          try await again.close()
        }
      } while monitor.hasEnded(result)
    }

    /// Regression: an index for which no memory was available ended the program. Smaller
    /// allocations take memory that the process already has.
    @Test func aStoreWithoutAddressSpaceFailsWithTypedErrors() async {
      await #expect(processExitsWith: .success) {
        for mode in [Store.Configuration.IOMode.mapped, .positional] {
          let store = try LimitedStore(mode)
          try await store.useReopening()
          let limit = try Limit(.addressSpace, try Limit.addressSpaceInUse() + (1 << 20))
          let path = store.path
          let error = await #expect(throws: StoreError.self) {
            try await Store.open(at: path, configuration: .testing(ioMode: mode))
          }
          try limit.lift()
          #expect(error?.code == .limitExceeded)
          try await store.check()
        }
      }
    }

    /// The superuser may have any number of threads, so the process becomes another user.
    @Test(.enabled(if: getuid() == 0, "only root can become a user without other threads"))
    func aStoreAtTheLimitOfThreadsFailsWithTypedErrors() async {
      await #expect(processExitsWith: .success) {
        for mode in [Store.Configuration.IOMode.mapped, .positional] {
          let store = try LimitedStore(mode)
          try await store.beNobody()
          for _ in 0..<3 {
            let limit = try Limit(.threads, 1)
            try await store.useReopening()
            try limit.lift()
            try await store.check()
          }
          try await store.useOpen { try Limit(.threads, 1) }
          try await store.check()
        }
      }
    }
  }

  private struct Failure: Error, CustomStringConvertible {
    let description: String
  }

  /// A soft limit of this process, until it is lifted.
  private struct Limit {
    enum Resource { case descriptors, threads, addressSpace }

    private let resource: __rlimit_resource_t
    private let before: rlimit

    init(_ resource: Resource, _ count: Int) throws {
      self.resource =
        switch resource {
        case .descriptors: __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        case .threads: __rlimit_resource_t(__RLIMIT_NPROC.rawValue)
        case .addressSpace: __rlimit_resource_t(RLIMIT_AS.rawValue)
        }
      var limit = rlimit()
      getrlimit(self.resource, &limit)
      before = limit
      limit.rlim_cur = rlim_t(count)
      try Self.set(self.resource, limit)
    }

    func lift() throws { try Self.set(resource, before) }

    private static func set(_ resource: __rlimit_resource_t, _ limit: rlimit) throws {
      var limit = limit
      guard setrlimit(resource, &limit) == 0 else {
        throw Failure(description: "the limit cannot be set: \(errno)")
      }
    }

    static func addressSpaceInUse() throws -> Int {
      let text = try String(contentsOfFile: "/proc/self/statm", encoding: .utf8)
      guard let pages = text.split(separator: " ").first.flatMap({ Int($0) }) else {
        throw Failure(description: "/proc/self/statm has no figures: \(text)")
      }
      return pages * Int(sysconf(Int32(_SC_PAGESIZE)))
    }

    static func highestDescriptor() throws -> Int {
      try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").compactMap { Int($0) }
        .max() ?? 0
    }
  }

  /// A store and its acknowledged records. One task at a time uses it.
  private final class LimitedStore: @unchecked Sendable {
    private let directory: TestDirectory
    private let configuration: Store.Configuration
    private var acknowledged: [Key: [UInt8]] = [:]
    private var number = 0

    init(_ mode: Store.Configuration.IOMode) throws {
      directory = try TestDirectory()
      configuration = .testing(segmentSizeBytes: 64 << 10, ioMode: mode, durability: .sync)
      // A signal ends a process that hangs.
      alarm(240)
    }

    var path: FilePath { directory.path }

    func beNobody() async throws {
      guard getuid() == 0 else { return }
      let path = directory.url.path
      // The threads of Swift's own pool are started before the limit is set.
      await withTaskGroup(of: Void.self) { group in
        for _ in 0..<8 { group.addTask { usleep(20_000) } }
      }
      guard chown(path, 65534, 65534) == 0, setgid(65534) == 0, setuid(65534) == 0 else {
        throw Failure(description: "cannot become nobody: \(errno)")
      }
    }

    /// Opens, uses and closes the store under the limit.
    func useReopening() async throws {
      guard
        let store = try await allowing({
          try await Store.open(at: self.directory.path, configuration: self.configuration)
        })
      else {
        return
      }
      try await use(store)
      _ = try await allowing { try await store.close() }
    }

    /// Opens the store before the limit is set, and closes it before it is lifted.
    func useOpen(_ set: () throws -> Limit) async throws {
      let store = try await Store.open(at: directory.path, configuration: configuration)
      try await use(store)
      let limit = try set()
      try await use(store)
      _ = try await allowing { try await store.close() }
      try limit.lift()
    }

    private func use(_ store: Store) async throws {
      for _ in 0..<60 {
        number += 1
        let key = Key("\(number % 40)")
        let value = (0..<2000).map { UInt8(truncatingIfNeeded: $0 &* number) }
        let sequence = try await allowing {
          try await store.set(value, forKey: key, durability: .sync)
        }
        if sequence != nil { acknowledged[key] = value }
        _ = try await allowing { try await store.value(forKey: key) }
      }
      _ = try await allowing { try await store.compact() }
      _ = try await allowing { try await store.sync() }
    }

    /// - Returns: nil where the limit prevented the call.
    private func allowing<Result: Sendable>(
      _ body: @Sendable () async throws -> Result
    ) async throws -> Result? {
      do {
        return try await body()
      } catch let error as StoreError {
        let isRight =
          error.code == .limitExceeded
          || error.code == .poisoned && "\(error)".contains("limitExceeded")
        guard isRight else { throw error }
        return nil
      }
    }

    func check() async throws {
      let store = try await Store.open(at: directory.path, configuration: configuration)
      for (key, value) in acknowledged {
        guard let found = try await store.value(forKey: key) else {
          throw Failure(description: "\(key) was acknowledged and is gone")
        }
        guard found == value || found.count == value.count else {
          throw Failure(description: "\(key) has another value")
        }
      }
      _ = try await store.verify()
      try await store.close()
    }
  }
#endif
