import Foundation
import MoraineArchive
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

/// Promises of a store of objects in a directory.
@Suite("Objects in a directory") struct DirectoryObjectStoreTests {
  /// Runs each verb and returns the errors.
  private func errors(of objects: any ObjectStore) async throws -> [ObjectStoreError] {
    [
      try await objectError { () async throws(ObjectStoreError) in
        _ = try await objects.create("a/b", ObjectBody("x"))
      },
      try await objectError { () async throws(ObjectStoreError) in
        try await objects.put("a/b", ObjectBody("x"))
      },
      try await objectError { () async throws(ObjectStoreError) in
        _ = try await objects.get("a/b", nil)
      },
      try await objectError { () async throws(ObjectStoreError) in
        try await objects.remove(["a/b"])
      },
      try await objectError { () async throws(ObjectStoreError) in
        _ = try await objects.list(under: .root, after: nil, limit: 5)
      },
    ]
  }

  @Test(arguments: ObjectMedium.directories)
  func missingRootIsUnavailableAndNotEmpty(_ medium: ObjectMedium) async throws {
    let ground = try await ObjectGround(medium)
    defer { withExtendedLifetime(ground) {} }
    let objects = DirectoryObjectStore(path: ground.path.appending("other"), on: ground.storage)
    for error in try await errors(of: objects) {
      #expect(error.code == .unavailable)
      #expect(error.message.contains("does not exist"))
      #expect(!error.mayHaveHadEffect)
    }
    #expect(try ground.storage.openDirectory(ground.path.appending("other")) == nil)
  }

  /// A place at which no disk is mounted is an empty directory.
  @Test(arguments: ObjectMedium.directories)
  func directoryWithoutMarkerIsUnavailable(_ medium: ObjectMedium) async throws {
    let ground = try await ObjectGround(medium)
    defer { withExtendedLifetime(ground) {} }
    let path = ground.path.appending("other")
    try ground.storage.createDirectory(path)
    let objects = DirectoryObjectStore(path: path, on: ground.storage)
    for error in try await errors(of: objects) {
      #expect(error.code == .unavailable)
      #expect(error.message.contains("mount it"))
      #expect(!error.mayHaveHadEffect)
    }
    try await objects.createRoot()
    #expect(try await objects.get("a/b", nil) == nil)
  }

  @Test(arguments: ObjectMedium.directories)
  func creatingTheRootAgainKeepsTheObjects(_ medium: ObjectMedium) async throws {
    let ground = try await ObjectGround(medium)
    defer { withExtendedLifetime(ground) {} }
    try await ground.objects.put("a/b", ObjectBody("x"))
    let objects = DirectoryObjectStore(path: ground.path, on: ground.storage)
    try await objects.createRoot()
    #expect(try await objects.text("a/b") == "x")
    #expect(try ground.temporaryNames() == [])
  }

  @Test func rootWithoutParentIsUnavailable() async throws {
    let ground = try await ObjectGround(.disk)
    defer { withExtendedLifetime(ground) {} }
    let objects = DirectoryObjectStore(ground.path.appending("no/such/place").string)
    let error = try await objectError { () async throws(ObjectStoreError) in
      try await objects.createRoot()
    }
    #expect(error.code == .unavailable)
  }

  /// The absence is seen in a directory that is not the root any more.
  @Test(arguments: [StorageEvent.Operation.openFile, .entries, .rename, .synchronizeDirectory])
  func rootThatLeavesDuringARequestIsUnavailable(
    _ operation: StorageEvent.Operation
  ) async throws {
    let memory = MemoryStorage()
    let faults = FaultStorage(memory)
    let objects = DirectoryObjectStore(path: "root", on: faults)
    try await objects.createRoot()
    try await objects.put("old", ObjectBody("x"))
    faults.setScript { event in
      if event.operation == operation {
        do throws(StorageError) { try memory.renameDirectory("root", to: "elsewhere") } catch {}
      }
      return nil
    }
    let error = try await objectError { () async throws(ObjectStoreError) in
      switch operation {
      case .openFile: _ = try await objects.get("new", nil)
      case .entries: _ = try await objects.names()
      case .rename: try await objects.put("new", ObjectBody("x"))
      default: try await objects.remove(["old"])
      }
    }
    #expect(error.code == .unavailable)
    #expect(error.message.contains("unmounted"))
    #expect(error.mayHaveHadEffect == [.rename, .synchronizeDirectory].contains(operation))
  }

  @Test(arguments: ObjectMedium.directories)
  func nameIsAnObjectOrAFolder(_ medium: ObjectMedium) async throws {
    let ground = try await ObjectGround(medium)
    defer { withExtendedLifetime(ground) {} }
    let objects = ground.objects
    try await objects.put("a/b", ObjectBody("x"))
    try await objects.put("c/d/e", ObjectBody("y"))
    for name in ["a/b/c", "a/b/c/d", "c/d", "c"] {
      for isPut in [true, false] {
        let error = try await objectError { () async throws(ObjectStoreError) in
          if isPut {
            try await objects.put(name, ObjectBody("z"))
          } else {
            _ = try await objects.create(name, ObjectBody("z"))
          }
        }
        #expect(error.code == .unsupported, "\(name)")
        #expect(!error.mayHaveHadEffect)
        #expect(!error.isTemporary)
      }
      #expect(try await objects.get(name, nil) == nil, "\(name)")
      try await objects.remove([name])
    }
    #expect(try await objects.names() == ["a/b", "c/d/e"])
    #expect(try await objects.names(under: "a/b") == [])
    #expect(try await objects.text("a/b") == "x")
  }
}

/// Bodies of another length than they promise.
extension DirectoryObjectStoreTests {
  @Test(arguments: ObjectMedium.directories, [0, 2, 4, 9])
  func bodyOfAnotherLengthIsRefused(_ medium: ObjectMedium, _ byteCount: Int) async throws {
    let ground = try await ObjectGround(medium)
    defer { withExtendedLifetime(ground) {} }
    let body = ObjectBody(byteCount: byteCount) { visit in
      for _ in 0..<3 { guard [UInt8(7)].withUnsafeBytes({ visit($0) }) else { return } }
    }
    let error = try await objectError { () async throws(ObjectStoreError) in
      _ = try await ground.objects.create("a", body)
    }
    #expect(error.code == .unreadableBody)
    #expect(error.message.contains("should have \(byteCount) bytes"))
    #expect(!error.mayHaveHadEffect)
    #expect(try ground.folder().entries().map(\.name) == ["objects.moraine"])
  }
}

/// The check at an attach.
extension DirectoryObjectStoreTests {
  @Test(arguments: ObjectMedium.directories, [2, 16, 40])
  func directoryPassesTheProbe(_ medium: ObjectMedium, _ width: Int) async throws {
    let ground = try await ObjectGround(medium)
    defer { withExtendedLifetime(ground) {} }
    var generator = SeededGenerator(seed: 5)
    try await ObjectStoreProbe(ground.objects, under: objectName("users"), width: width)
      .run(using: &generator)
    #expect(try await ground.objects.names() == [])
    #expect(try ground.temporaryNames(in: "users/probe") == [])
  }
}

/// Temporary files, and files of others.
extension DirectoryObjectStoreTests {
  private static let temporaryName = String(repeating: "0a", count: 16) + ".new"

  @Test(arguments: ObjectMedium.directories)
  func listRemovesAbandonedTemporaryFilesAlone(_ medium: ObjectMedium) async throws {
    let ground = try await ObjectGround(medium)
    defer { withExtendedLifetime(ground) {} }
    try await ground.objects.put("a/b", ObjectBody("x"))
    for folder in ["", "a"] {
      let directory = try ground.folder(folder)
      var file: (any StorageFile)? = try directory.createFile(Self.temporaryName)
      #expect(try file?.tryLock(shared: false) == true)
      #expect(try await ground.objects.names() == ["a/b"])
      #expect(try ground.temporaryNames(in: folder) == [Self.temporaryName], "its process lives")
      file = nil
      #expect(try await ground.objects.names() == ["a/b"])
      #expect(try ground.temporaryNames(in: folder) == [])
    }
    #expect(try await ground.objects.text("a/b") == "x")
  }

  /// A process that cannot lock may remove the file of a living one.
  @Test(arguments: [true, false])
  func requestWhoseTemporaryFileIsRemovedHasNoEffect(_ isPut: Bool) async throws {
    let memory = MemoryStorage()
    let faults = FaultStorage(memory)
    let objects = DirectoryObjectStore(path: "root", on: faults)
    try await objects.createRoot()
    faults.setScript { event in
      guard event.operation == .rename else { return nil }
      do throws(StorageError) {
        try memory.openDirectory("root")?.remove(event.file)
      } catch {}
      return nil
    }
    let error = try await objectError { () async throws(ObjectStoreError) in
      if isPut {
        try await objects.put("a", ObjectBody("x"))
      } else {
        _ = try await objects.create("a", ObjectBody("x"))
      }
    }
    #expect(error.code == .unavailable)
    #expect(error.isTemporary)
    #expect(!error.mayHaveHadEffect)
    faults.setScript(nil)
    #expect(try await objects.get("a", nil) == nil)
    #expect(try await objects.create("a", ObjectBody("x")) == .created)
  }

  @Test(arguments: ObjectMedium.directories)
  func requestsLeaveNoTemporaryFiles(_ medium: ObjectMedium) async throws {
    let ground = try await ObjectGround(medium)
    defer { withExtendedLifetime(ground) {} }
    let objects = ground.objects
    try await objects.put("a/b", ObjectBody("x"))
    _ = try await objects.create("a/b", ObjectBody("y"))
    _ = try await objects.create("a/c", ObjectBody("y"))
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<16 {
        group.addTask { _ = try await objects.create("a/d", ObjectBody("z")) }
      }
      try await group.waitForAll()
    }
    #expect(try ground.folder("a").entries().map(\.name).sorted() == ["b", "c", "d"])
    #expect(try ground.folder().entries().map(\.name).sorted() == ["a", "objects.moraine"])
  }

  @Test(arguments: ObjectMedium.directories)
  func filesOfOthersAreNotShownAndStay(_ medium: ObjectMedium) async throws {
    let ground = try await ObjectGround(medium)
    defer { withExtendedLifetime(ground) {} }
    try await ground.objects.put("a/b", ObjectBody("x"))
    for name in [".DS_Store", "README.md", "Upper", "short.new"] {
      _ = try ground.folder("a").createFile(name)
    }
    #expect(try await ground.objects.names() == ["a/b"])
    #expect(try ground.folder("a").entries().count == 5)
  }

  @Test func linkIsNotFollowedAndIsNoAbsence() async throws {
    let ground = try await ObjectGround(.disk)
    defer { withExtendedLifetime(ground) {} }
    try await ground.objects.put("real/a", ObjectBody("x"))
    let manager = FileManager.default
    for (link, target) in [("folder", "real"), ("object", "real/a"), ("lost", "nowhere")] {
      try manager.createSymbolicLink(
        atPath: ground.path.appending(link).string, withDestinationPath: target)
    }
    for name in ["folder/a", "folder/b", "object", "lost", "lost/a"] {
      let error = try await objectError { () async throws(ObjectStoreError) in
        _ = try await ground.objects.get(name, nil)
      }
      #expect(error.code == .unavailable, "\(name)")
    }
    #expect(try await ground.objects.create("lost", ObjectBody("y")) == .exists)
    #expect(try await ground.objects.names() == ["real/a"])
  }
}

/// Threads.
extension DirectoryObjectStoreTests {
  /// A request that hangs in the storage keeps neither other requests nor the cooperative pool.
  @Test func requestThatHangsDelaysNoOther() async throws {
    let faults = FaultStorage(MemoryStorage())
    let objects = DirectoryObjectStore(path: "root", on: faults)
    try await objects.createRoot()
    let gates = (0..<4).map { _ in Gate() }
    let calls = Counter()
    faults.setScript { event in
      guard event.operation == .write else { return nil }
      let number = calls.next()
      return number < gates.count ? .hang(gates[number]) : nil
    }
    var hanging: [Task<ObjectCreation, any Error>] = []
    for (number, gate) in gates.enumerated() {
      let name = "hanging-\(number)"
      hanging.append(Task { try await objects.create(name, ObjectBody("x")) })
      await gate.arrival()
    }
    #expect(try await objects.create("quick", ObjectBody("y")) == .created)
    #expect(try await objects.names() == ["quick"])
    for gate in gates { gate.open() }
    for task in hanging { #expect(try await task.value == .created) }
    #expect(try await objects.names().count == 5)
  }
}
