import MoraineArchive
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

/// Objects in a directory when one call of the storage fails.
@Suite("Objects in a directory, with faults") struct DirectoryObjectFaultTests {
  enum Request: CaseIterable {
    case create, createTaken, createInNewFolder, put, putNew, remove, get, getMissing, list

    var name: String {
      switch self {
      case .createTaken, .put, .remove, .get: "old/a"
      case .createInNewFolder: "new/deep/b"
      case .create, .putNew, .getMissing, .list: "old/b"
      }
    }

    var isRead: Bool { [.get, .getMissing, .list].contains(self) }

    /// The object after the request.
    var after: String? {
      switch self {
      case .createTaken, .get: "old"
      case .remove, .getMissing, .list: nil
      case .create, .createInNewFolder, .put, .putNew: "new"
      }
    }

    /// Runs the request. Returns false when its answer is wrong.
    func run(on objects: DirectoryObjectStore) async throws(ObjectStoreError) -> Bool {
      switch self {
      case .create, .createInNewFolder:
        return try await objects.create(name, ObjectBody("new")) == .created
      case .createTaken: return try await objects.create(name, ObjectBody("new")) == .exists
      case .put, .putNew: try await objects.put(name, ObjectBody("new"))
      case .remove: try await objects.remove([name])
      case .get: return try await objects.text(name) == "old"
      case .getMissing: return try await objects.text(name) == nil
      case .list: return try await objects.names() == ["old/a"]
      }
      return true
    }
  }

  private struct Ground {
    let memory = MemoryStorage()
    let faults: FaultStorage
    let objects: DirectoryObjectStore
    /// The same directory, without faults.
    let witness: DirectoryObjectStore

    init() async throws {
      faults = FaultStorage(memory)
      objects = DirectoryObjectStore(path: "root", on: faults)
      witness = DirectoryObjectStore(path: "root", on: memory)
      try await objects.createRoot()
      try await objects.put("old/a", ObjectBody("old"))
      faults.clearTrace()
    }
  }

  private static func code(of errno: Errno) -> ObjectStoreError.Code {
    switch errno {
    case .noSpace, .diskQuotaExceeded: .noSpace
    case .permissionDenied, .notPermitted, .readOnlyFileSystem: .denied
    default: .unavailable
    }
  }

  /// The number of calls before the object can have its name, or can lose it.
  private static func firstEffect(_ trace: [StorageEvent]) -> Int {
    trace.firstIndex { $0.operation == .rename || $0.operation == .remove } ?? trace.count
  }

  @Test(
    arguments: Request.allCases,
    [
      Errno.ioError, .noSpace, .diskQuotaExceeded, .permissionDenied, .notPermitted,
      .readOnlyFileSystem, .tooManyOpenFiles, .timedOut,
    ])
  func failedCallGivesTheRightError(_ request: Request, _ errno: Errno) async throws {
    let quiet = try await Ground()
    #expect(try await request.run(on: quiet.objects))
    let trace = quiet.faults.trace
    let firstEffect = Self.firstEffect(trace)
    #expect(trace.count > 3)
    var failureCount = 0
    for index in trace.indices {
      let ground = try await Ground()
      let before = try await ground.witness.text(request.name)
      ground.faults.setScript { $0.index == index ? .fail(errno) : nil }
      let place = "\(request), \(errno) at \(trace[index])"
      do throws(ObjectStoreError) {
        #expect(try await request.run(on: ground.objects), "\(place)")
        #expect(try await ground.witness.text(request.name) == request.after, "\(place)")
      } catch {
        failureCount += 1
        #expect(error.code == Self.code(of: errno), "\(place)")
        let now = try await ground.witness.text(request.name)
        if error.mayHaveHadEffect {
          #expect(!request.isRead && index >= firstEffect, "\(place): no effect is possible")
          #expect(now == before || now == request.after, "\(place)")
        } else {
          #expect(now == before, "\(place): it had an effect")
        }
      }
      // The fault was temporary: the same request has its effect now.
      ground.faults.setScript(nil)
      _ = try await request.run(on: ground.objects)
      #expect(try await ground.witness.text(request.name) == request.after, "\(place)")
      #expect(try await ground.witness.names().count <= 2)
    }
    #expect(failureCount > trace.count / 2)
  }

  /// A refused naming has no effect; after an error of the device or the network it may have one.
  @Test(arguments: [
    (Errno.noSpace, false), (.permissionDenied, false), (.ioError, true),
    (.timedOut, true), (.interrupted, true), (.staleNFSFileHandle, true),
  ])
  func failedNamingSaysWhetherItMayHaveAnEffect(_ errno: Errno, _ may: Bool) async throws {
    for request in [Request.create, .put] {
      let ground = try await Ground()
      ground.faults.setScript { $0.operation == .rename ? .fail(errno) : nil }
      let error = try await objectError { () async throws(ObjectStoreError) in
        _ = try await request.run(on: ground.objects)
      }
      #expect(error.mayHaveHadEffect == may, "\(request), \(errno)")
      #expect(error.object?.text == request.name)
    }
  }

  @Test(arguments: [Request.create, .put])
  func failedSyncAfterTheNamingMayHaveAnEffect(_ request: Request) async throws {
    let ground = try await Ground()
    ground.faults.setScript { $0.operation == .synchronizeDirectory ? .fail(.ioError) : nil }
    let error = try await objectError { () async throws(ObjectStoreError) in
      _ = try await request.run(on: ground.objects)
    }
    #expect(error.code == .unavailable)
    #expect(error.mayHaveHadEffect)
    #expect(try await ground.witness.text(request.name) == "new")
  }

  @Test func fileSystemWithoutExclusiveNamesIsUnsupported() async throws {
    let ground = try await Ground()
    ground.faults.setScript { $0.operation == .rename ? .fail(.notSupported) : nil }
    let error = try await objectError { () async throws(ObjectStoreError) in
      _ = try await ground.objects.create("b", ObjectBody("x"))
    }
    #expect(error.code == .unsupported)
    #expect(!error.isTemporary)
    #expect(!error.mayHaveHadEffect)
  }

  /// Nothing remains of an object that does not fit.
  @Test func fullStorageKeepsItsObjectsAndHasRoomAgain() async throws {
    let memory = MemoryStorage(capacityBytes: 64 << 10)
    let objects = DirectoryObjectStore(path: "root", on: memory)
    try await objects.createRoot()
    try await objects.put("a", ObjectBody(randomBytes(20_000, seed: 1)))
    let body = ObjectBody(randomBytes(60_000, seed: 2), inPiecesOf: [10_000])
    for _ in 0..<5 {
      let error = try await objectError { () async throws(ObjectStoreError) in
        _ = try await objects.create("b", body)
      }
      #expect(error.code == .noSpace)
      #expect(error.isTemporary)
      #expect(!error.mayHaveHadEffect)
    }
    #expect(try await objects.names() == ["a"])
    try await objects.remove(["a"])
    #expect(try await objects.create("b", body) == .created)
  }

  @Test func messageNamesTheCallAndTheError() async throws {
    let ground = try await Ground()
    ground.faults.setScript { $0.operation == .write ? .fail(.noSpace) : nil }
    let error = try await objectError { () async throws(ObjectStoreError) in
      _ = try await ground.objects.create("b", ObjectBody("x"))
    }
    #expect(error.message.contains("write"))
    #expect(error.message.contains("errno 28"))
    #expect(error.object?.text == "b")
  }
}
