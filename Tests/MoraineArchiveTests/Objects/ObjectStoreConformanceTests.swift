import MoraineArchive
import MoraineEngine
import MoraineStorage
import MoraineTesting
import Testing

/// Promises of every store of objects.
@Suite("Every store of objects") struct ObjectStoreConformanceTests {
  @Test(arguments: ObjectMedium.allCases)
  func objectIsCreatedOnceAndKeepsItsBytes(_ medium: ObjectMedium) async throws {
    let ground = try await ObjectGround(medium)
    defer { withExtendedLifetime(ground) {} }
    let objects = ground.objects
    #expect(try await objects.get("users/log/1", nil) == nil)
    #expect(try await objects.create("users/log/1", ObjectBody("one")) == .created)
    #expect(try await objects.text("users/log/1") == "one")
    #expect(try await objects.create("users/log/1", ObjectBody("two")) == .exists)
    #expect(try await objects.create("users/log/1", ObjectBody("one")) == .exists)
    #expect(try await objects.text("users/log/1") == "one")
    #expect(try await objects.names() == ["users/log/1"])
  }

  @Test(arguments: ObjectMedium.allCases)
  func putReplacesAndRemovalFrees(_ medium: ObjectMedium) async throws {
    let ground = try await ObjectGround(medium)
    defer { withExtendedLifetime(ground) {} }
    let objects = ground.objects
    try await objects.put("head", ObjectBody("one"))
    try await objects.put("head", ObjectBody("second"))
    #expect(try await objects.text("head") == "second")
    #expect(try await objects.create("head", ObjectBody("three")) == .exists)
    try await objects.remove(["head"])
    #expect(try await objects.get("head", nil) == nil)
    try await objects.remove(["head", "never", "no/folder"])
    #expect(try await objects.create("head", ObjectBody("three")) == .created)
    #expect(try await objects.text("head") == "three")
  }

  @Test(arguments: ObjectMedium.allCases)
  func removalOfManyRemovesThemAlone(_ medium: ObjectMedium) async throws {
    let ground = try await ObjectGround(medium)
    defer { withExtendedLifetime(ground) {} }
    let objects = ground.objects
    let names = ["b/1", "a/1", "b/2", "c", "a/deep/1", "a/2", "d"]
    for name in names { try await objects.put(name, ObjectBody(name)) }
    try await objects.remove(["b/2", "c", "a/deep/1", "a/1", "c", "e/1"])
    #expect(try await objects.names() == ["a/2", "b/1", "d"])
    try await objects.remove([])
    #expect(try await objects.text("d") == "d")
  }

  @Test(arguments: ObjectMedium.allCases)
  func rangesEndWithTheObject(_ medium: ObjectMedium) async throws {
    let ground = try await ObjectGround(medium)
    defer { withExtendedLifetime(ground) {} }
    let objects = ground.objects
    let bytes = Array("0123456789".utf8)
    try await objects.put("ten", ObjectBody(bytes))
    try await objects.put("empty", ObjectBody([]))
    for (range, part) in [
      (0..<10, "0123456789"), (0..<3, "012"), (7..<10, "789"), (7..<99, "789"), (3..<3, ""),
      (10..<20, ""), (50..<60, ""), (0..<Int.max, "0123456789"),
    ] {
      #expect(try await objects.get("ten", range) == Array(part.utf8), "\(range)")
    }
    #expect(try await objects.get("empty", nil) == [])
    #expect(try await objects.get("empty", 0..<5) == [])
    #expect(try await objects.get("missing", 0..<5) == nil)
    #expect(try await objects.get("missing", 5..<5) == nil)
  }

  @Test(arguments: ObjectMedium.allCases)
  func longBodyInPiecesIsReadWholeAndInParts(_ medium: ObjectMedium) async throws {
    let ground = try await ObjectGround(medium)
    defer { withExtendedLifetime(ground) {} }
    let objects = ground.objects
    let bytes = randomBytes(3 << 20 | 17, seed: 11)
    let body = ObjectBody(bytes, inPiecesOf: [65_536, 1, 0, 999_999, 4096, 3])
    #expect(try await objects.create("obj/1/long", body) == .created)
    #expect(try await objects.get("obj/1/long", nil) == bytes)
    #expect(
      try await objects.get("obj/1/long", 1_000_000..<2_000_003)
        == Array(bytes[1_000_000..<2_000_003]))
    #expect(
      try await objects.get("obj/1/long", (3 << 20)..<(4 << 20)) == Array(bytes[(3 << 20)...]))
    let other = randomBytes(1 << 20, seed: 12)
    try await objects.put("obj/1/long", ObjectBody(other, inPiecesOf: [300_000]))
    #expect(try await objects.get("obj/1/long", nil) == other)
  }

  @Test(arguments: ObjectMedium.allCases)
  func oneOfManyCreatorsWins(_ medium: ObjectMedium) async throws {
    let ground = try await ObjectGround(medium)
    defer { withExtendedLifetime(ground) {} }
    let objects = ground.objects
    for round in 0..<20 {
      let name = "log/\(round)"
      let answers = try await withThrowingTaskGroup(
        of: (creation: ObjectCreation, own: String, seen: String?).self
      ) { group in
        for number in 0..<16 {
          group.addTask {
            let creation = try await objects.create(name, ObjectBody("\(number)"))
            return (creation, "\(number)", try await objects.text(name))
          }
        }
        return try await group.reduce(into: []) { $0.append($1) }
      }
      let winners = answers.filter { $0.creation == .created }.map(\.own)
      #expect(winners.count == 1, "round \(round)")
      #expect(answers.allSatisfy { $0.seen == winners.first }, "round \(round)")
    }
  }

  @Test(arguments: ObjectMedium.allCases)
  func readersSeeWholeObjectsWhileTheyAreReplaced(_ medium: ObjectMedium) async throws {
    let ground = try await ObjectGround(medium)
    defer { withExtendedLifetime(ground) {} }
    let objects = ground.objects
    func body(_ number: Int) -> ObjectBody {
      ObjectBody([UInt8](repeating: UInt8(number), count: 10_000 + number))
    }
    try await objects.put("head", body(0))
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask { for number in 1...60 { try await objects.put("head", body(number)) } }
      for _ in 0..<3 {
        group.addTask {
          for _ in 0..<60 {
            let bytes = try #require(try await objects.get("head", nil))
            let first = try #require(bytes.first)
            #expect(bytes == [UInt8](repeating: first, count: 10_000 + Int(first)))
          }
        }
      }
      try await group.waitForAll()
    }
    #expect(try await objects.get("head", nil)?.count == 10_060)
  }

  @Test(arguments: ObjectMedium.allCases)
  func cancelledTaskGetsItsErrorAndHasNoEffect(_ medium: ObjectMedium) async throws {
    let ground = try await ObjectGround(medium)
    defer { withExtendedLifetime(ground) {} }
    let objects = ground.objects
    let error = try await Task {
      withUnsafeCurrentTask { $0?.cancel() }
      return try await objectError { () async throws(ObjectStoreError) in
        _ = try await objects.create("a", ObjectBody("a"))
      }
    }.value
    #expect(error.code == .cancelled)
    #expect(!error.mayHaveHadEffect)
    #expect(try await objects.names().isEmpty)
  }
}

/// Bodies that cannot be read.
extension ObjectStoreConformanceTests {
  @Test(arguments: ObjectMedium.allCases)
  func unreadableBodyIsReportedAndHasNoEffect(_ medium: ObjectMedium) async throws {
    let ground = try await ObjectGround(medium)
    let objects = ground.objects
    let broken = ObjectBody(byteCount: 10) { visit throws(StoreError) in
      _ = [UInt8](1...3).withUnsafeBytes { visit($0) }
      throw StoreError(.corrupted, "a segment is damaged")
    }
    try await objects.put("old", ObjectBody("old"))
    for (name, isPut) in [("new", false), ("new", true), ("old", true)] {
      let error = try await objectError { () async throws(ObjectStoreError) in
        if isPut {
          try await objects.put(name, broken)
        } else {
          _ = try await objects.create(name, broken)
        }
      }
      #expect(error.code == .unreadableBody)
      #expect(error.message.contains("a segment is damaged"))
      #expect(!error.mayHaveHadEffect)
    }
    #expect(try await objects.names() == ["old"])
    #expect(try await objects.text("old") == "old")
    if ObjectMedium.directories.contains(medium) { #expect(try ground.temporaryNames() == []) }
  }
}

/// Lists.
extension ObjectStoreConformanceTests {
  /// Names of few letters, of which none is the beginning of another one.
  private static func randomNames(_ generator: inout SeededGenerator) -> [String] {
    let parts = ["a", "a-b", "a0", "b", "0", "ab", "-"]
    var names: Set<String> = []
    for _ in 0..<48 {
      let depth = Int.random(in: 1...4, using: &generator)
      let name = (0..<depth).map { _ in parts.randomElement(using: &generator) ?? "a" }
        .joined(separator: "/")
      let isFree = names.allSatisfy { !$0.hasPrefix(name + "/") && !name.hasPrefix($0 + "/") }
      if isFree { names.insert(name) }
    }
    return names.sorted()
  }

  @Test(arguments: ObjectMedium.allCases, 1...4)
  func listsAgreeWithAModel(_ medium: ObjectMedium, _ seed: Int) async throws {
    let ground = try await ObjectGround(medium)
    defer { withExtendedLifetime(ground) {} }
    let objects = ground.objects
    var generator = SeededGenerator(seed: UInt64(seed))
    let names = Self.randomNames(&generator)
    for name in names { try await objects.put(name, ObjectBody(name)) }
    var prefixes = ["", "a", "a/b", "a-b", "z", "a/a-b/0"]
    prefixes += names.filter { _ in Int.random(in: 0..<6, using: &generator) == 0 }
    for prefix in prefixes {
      let under = names.filter { prefix.isEmpty || $0.hasPrefix(prefix + "/") }
      var places: [String?] = [nil, "0", "a", "a/zz", "b/-", "zz"]
      places += under.filter { _ in Int.random(in: 0..<4, using: &generator) == 0 }
      for last in places {
        let limit = Int.random(in: 1...12, using: &generator)
        let all = under.filter { name in last.map { $0 < name } ?? true }
        for limit in [limit, .max] {
          let found = try await objects.list(
            under: objectName(prefix), after: last.map(objectName), limit: limit)
          #expect(
            found.map(\.text) == Array(all.prefix(limit)),
            "seed \(seed), under '\(prefix)' after '\(last ?? "nil")' limit \(limit)")
        }
      }
    }
  }

  @Test(arguments: ObjectMedium.allCases)
  func pagesOfAListContainEachNameOnce(_ medium: ObjectMedium) async throws {
    let ground = try await ObjectGround(medium)
    defer { withExtendedLifetime(ground) {} }
    let objects = ground.objects
    var generator = SeededGenerator(seed: 9)
    let names = Self.randomNames(&generator)
    for name in names { try await objects.put(name, ObjectBody("")) }
    var found: [ObjectName] = []
    while found.count <= names.count {
      let page = try await objects.list(under: .root, after: found.last, limit: 7)
      if page.isEmpty { break }
      found += page
    }
    #expect(found.map(\.text) == names)
  }
}
