#if os(Linux)
  import CTestSupport
  import Foundation
  import MoraineStorage
  import SystemPackage
  import Testing

  @testable import MoraineEngine

  private let isOnOverlay =
    support_lies_on_overlay(FileManager.default.temporaryDirectory.path) != 0

  /// Many stores in one process, each test in a process of its own. The tests print their figures.
  @Suite(
    .timeLimit(.minutes(10)), .serialized,
    .disabled(if: isOnOverlay, "a store keeps two descriptors on overlayfs")
  ) struct ManyStoresTests {
    /// Regression: a store had three descriptors for as long as it was open, so a process had at
    /// most 340 stores under `ulimit -n 1024`.
    @Test func twoThousandStoresAreOpenUnderALimitOf1024Descriptors() async {
      await #expect(processExitsWith: .success) {
        try await ManyStores(count: 2000, descriptors: 1024).run()
      }
    }

    @Test func positionalStoresReleaseDescriptors() async {
      await #expect(processExitsWith: .success) {
        try await ManyStores(count: 300, descriptors: 128) { $0.ioMode = .positional }.run()
      }
    }

    /// Regression: a store with unsynced writes kept its descriptor.
    @Test func storesThatNeverSyncReleaseDescriptors() async {
      await #expect(processExitsWith: .success) {
        for mode in [Store.Configuration.IOMode.mapped, .positional] {
          try await ManyStores(count: 200, descriptors: 128) { configuration in
            configuration.ioMode = mode
            configuration.durability = .none
          }.run()
        }
      }
    }

    @Test func readersReleaseDescriptors() async {
      await #expect(processExitsWith: .success) {
        let stores = try ManyStores(count: 200, descriptors: 128)
        try await stores.run()
        try await stores.read()
      }
    }

    /// Regression: each shared store that was followed had a thread, and two descriptors for
    /// events.
    @Test func followedSharedStoresHaveNoThreadsOfTheirOwn() async {
      await #expect(processExitsWith: .success) {
        try await ManyStores(count: 100, descriptors: 1024) { $0.sharing = .shared }.run()
      }
    }
  }

  private struct Failure: Error, CustomStringConvertible {
    let description: String
  }

  /// Opens many stores at the same time, uses each, and closes them all.
  private struct ManyStores {
    let directory: TestDirectory
    let count: Int
    let descriptors: Int
    let configuration: Store.Configuration

    init(
      count: Int, descriptors: Int, _ configure: (inout Store.Configuration) -> Void = { _ in }
    ) throws {
      self.count = count
      self.descriptors = descriptors
      var configuration = Store.Configuration()
      configure(&configuration)
      self.configuration = configuration
      directory = try TestDirectory()
      var limit = rlimit(rlim_cur: rlim_t(descriptors), rlim_max: rlim_t(descriptors))
      guard setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else {
        throw Failure(description: "the limit cannot be set: \(errno)")
      }
    }

    private func path(_ number: Int) -> FilePath {
      FilePath(directory.url.path).appending("store-\(number)")
    }

    func run() async throws {
      let before = Self.entries("/proc/self/fd")
      var began = ContinuousClock.now
      let stores = try await each { try await Store.open(at: path($0), configuration: $1) }
      report("open", since: began)
      let followers = follow(stores)
      try await use(stores, "first")
      try check("descriptors of open stores", Self.entries("/proc/self/fd"), descriptors)
      try check("threads", Self.entries("/proc/self/task"), 64)
      try await use(stores, "second")
      try await checkLocks()
      began = .now
      _ = try await each { number, _ in try await stores[number].close() }
      report("close", since: began)
      for follower in followers { try await follower.value }
      try check("descriptors of closed stores", Self.entries("/proc/self/fd") - before, 4)
      try await checkContents()
    }

    /// Opens all stores read-only.
    func read() async throws {
      var configuration = configuration
      configuration.isReadOnly = true
      let readers = try await each { [configuration] number, _ in
        try await Store.open(at: path(number), configuration: configuration)
      }
      for _ in 0..<2 {
        for (number, reader) in readers.enumerated() {
          guard try await reader.value(forKey: "second") == value(number) else {
            throw Failure(description: "reader \(number) has no value")
          }
        }
      }
    }

    private func value(_ number: Int) -> [UInt8] { Array("\(number)".utf8) }

    /// Follows the changes of shared stores, so that each store watches the other processes.
    private func follow(_ stores: [Store]) -> [Task<Void, any Error>] {
      guard configuration.sharing == .shared else { return [] }
      return stores.map { store in
        Task { for try await _ in store.changes() {} }
      }
    }

    /// Writes to each store once, reads it back, and syncs all.
    private func use(_ stores: [Store], _ round: String) async throws {
      let times = try await each { number, _ in
        var began = ContinuousClock.now
        try await stores[number].set(value(number), forKey: Key(round))
        let put = ContinuousClock.now - began
        began = .now
        guard try await stores[number].value(forKey: Key(round)) == value(number) else {
          throw Failure(description: "store \(number) lost the value of \(round)")
        }
        return (put: put, get: .now - began)
      }
      let (puts, gets) = (times.map(\.put).sorted(), times.map(\.get).sorted())
      print("\(round): put \(puts[count / 2]), get \(gets[count / 2])")
      let began = ContinuousClock.now
      _ = try await each { number, _ in try await stores[number].sync() }
      report("sync", since: began)
    }

    /// Checks that a store whose descriptors were closed is locked like any other.
    private func checkLocks() async throws {
      guard configuration.sharing == .exclusive else { return }
      for number in stride(from: 0, to: count, by: max(1, count / 20)) {
        guard await isLocked(number) else {
          throw Failure(description: "store \(number) was opened twice")
        }
      }
    }

    private func isLocked(_ number: Int) async -> Bool {
      do throws(StoreError) {
        _ = try await Store.open(at: path(number))
        return false
      } catch {
        return error.code == .locked
      }
    }

    private func checkContents() async throws {
      for number in stride(from: 0, to: count, by: max(1, count / 100)) {
        let store = try await Store.open(at: path(number), configuration: configuration)
        for round in ["first", "second"] {
          guard try await store.value(forKey: Key(round)) == value(number) else {
            throw Failure(description: "store \(number) has no value of \(round)")
          }
        }
        try await store.close()
      }
    }

    /// Runs the body for each store, 32 at a time. The results are in the order of the stores.
    private func each<Result: Sendable>(
      _ body: @escaping @Sendable (Int, Store.Configuration) async throws -> Result
    ) async throws -> [Result] {
      try await withThrowingTaskGroup(of: (Int, Result).self) { group in
        var results: [Int: Result] = [:]
        for number in 0..<count {
          if number >= 32, let done = try await group.next() { results[done.0] = done.1 }
          group.addTask { [configuration] in (number, try await body(number, configuration)) }
        }
        for try await done in group { results[done.0] = done.1 }
        return (0..<count).compactMap { results[$0] }
      }
    }

    private func report(_ what: String, since began: ContinuousClock.Instant) {
      print("\(count) stores: \(what) \(ContinuousClock.now - began)")
    }

    private func check(_ what: String, _ found: Int, _ most: Int) throws {
      print("\(what): \(found)")
      if found > most { throw Failure(description: "\(what): \(found), more than \(most)") }
    }

    private static func entries(_ path: String) -> Int {
      guard let directory = opendir(path) else { return .max }
      defer { closedir(directory) }
      var count = 0
      while let entry = readdir(directory) {
        if entry.pointee.d_name.0 != 46 { count += 1 }
      }
      return count
    }
  }
#endif
