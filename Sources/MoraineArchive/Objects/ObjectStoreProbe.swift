/// The check that a store of objects can hold an archive.
///
/// Stores exist that replace an object which a request asked only to create, that let two of many
/// concurrent requests create one name, or that answer an absent name with an empty object. An
/// archive in such a store would lose acknowledged writes. The check makes the requests on which an
/// archive depends, under random names, and compares the answers. It finds a store that never
/// creates exclusively; it finds with high probability, not for certain, a store that fails only
/// when requests race. It runs at every attach.
package struct ObjectStoreProbe: Sendable {
  private let store: any ObjectStore
  private let place: ObjectName
  private let width: Int

  /// - Parameters:
  ///   - store: the store of objects.
  ///   - root: the root of the archive. The objects of the check are under its part `probe`, and
  ///     are removed at the end, also after a failure if the store allows it.
  ///   - width: the number of requests that create one name at the same time.
  package init(_ store: any ObjectStore, under root: ObjectName, width: Int = 16) {
    precondition(width >= 2, "one request alone does not race")
    self.store = store
    place = root.appending("probe")
    self.width = width
  }

  /// The requests that a check makes.
  package enum Extent: Sendable {
    /// The check makes all requests.
    case whole
    /// The check makes six requests, one after the other. They show whether the store creates a
    /// name only once, as this machine reaches it. Another machine has made the whole check.
    case creations
  }

  /// Checks the store.
  ///
  /// - Parameters:
  ///   - extent: which requests to make.
  ///   - generator: gives the random parts of names and the bytes of objects.
  /// - Throws: `.unsupportedStore`, with a sentence about the answer of the store and its likely
  ///   causes; otherwise the error of a request.
  package func run(
    _ extent: Extent = .whole, using generator: inout some RandomNumberGenerator
  ) async throws(ArchiveError) {
    let single = place.appending(Self.part(using: &generator))
    let raced = place.appending(Self.part(using: &generator))
    let bodies = (0..<max(3, width)).map { number in
      Self.bytes(number, using: &generator)
    }
    do throws(ObjectStoreError) {
      try await check(extent, single, raced, bodies)
    } catch {
      // The caller needs the first error. What remains under `probe` disturbs no later check.
      do throws(ObjectStoreError) { try await store.remove([single, raced]) } catch {}
      throw ArchiveError(error)
    }
  }

  private func check(
    _ extent: Extent, _ single: ObjectName, _ raced: ObjectName, _ bodies: [[UInt8]]
  ) async throws(ObjectStoreError) {
    try await checkAbsence(single)
    try await checkCreation(single, bodies)
    if extent == .creations { return try await store.remove([single]) }
    try await checkReplacement(single, bodies)
    try await openConnections(single)
    try await checkRace(raced, Array(bodies.prefix(width)))
    try await checkRemoval([single, raced])
  }

  /// 128 random bits as a part of a name.
  private static func part(using generator: inout some RandomNumberGenerator) -> String {
    (0..<2).map { _ in
      let digits = String(UInt64.random(in: 0...UInt64.max, using: &generator), radix: 16)
      return String(repeating: "0", count: 16 - digits.count) + digits
    }.joined()
  }

  /// 32 random bytes; the first of them is a number, so that two bodies always differ.
  private static func bytes(
    _ number: Int, using generator: inout some RandomNumberGenerator
  ) -> [UInt8] {
    [UInt8(truncatingIfNeeded: number), UInt8(truncatingIfNeeded: number >> 8)]
      + (0..<30).map { _ in UInt8.random(in: 0...UInt8.max, using: &generator) }
  }
}

/// The steps of the check.
extension ObjectStoreProbe {
  private func checkAbsence(_ name: ObjectName) async throws(ObjectStoreError) {
    guard let bytes = try await store.get(name, nil) else { return }
    throw refusal(
      name, "it returned \(Self.words(bytes)) for a name that was never written",
      "a proxy or a gateway that answers each request with a page of its own, or a cache")
  }

  private func checkCreation(
    _ name: ObjectName, _ bodies: [[UInt8]]
  ) async throws(ObjectStoreError) {
    let first = try await store.create(name, ObjectBody(bodies[0]))
    let created = try await store.get(name, nil)
    if created != bodies[0] {
      // A store may report `.exists` for its own repeated request, but then it has the bytes.
      guard first == .created else {
        throw refusal(
          name,
          "it reported that an object exists under a name that was never written, and then "
            + "returned \(Self.words(created))",
          "a gateway that evaluates the condition 'create if absent' the wrong way round")
      }
      throw refusal(
        name, "it returned \(Self.words(created)) right after it had created an object of 32 bytes",
        "a cache in between, replication that reads an older copy, or writes that are lost")
    }
    let second = try await store.create(name, ObjectBody(bodies[1]))
    let kept = try await store.get(name, nil)
    if second == .created || kept == bodies[1] {
      throw refusal(
        name, "it replaced an object by a request that may only create one",
        "a server or a gateway that ignores 'If-None-Match: *', such as an old version or "
          + "'rclone serve s3'")
    }
    if kept != bodies[0] {
      throw refusal(
        name, "it returned \(Self.words(kept)) in place of an object that no request had replaced",
        "a cache in between, replication that reads an older copy, or writes that are lost")
    }
  }

  private func checkReplacement(
    _ name: ObjectName, _ bodies: [[UInt8]]
  ) async throws(ObjectStoreError) {
    try await store.put(name, ObjectBody(bodies[2]))
    let written = try await store.get(name, nil)
    if written != bodies[2] {
      throw refusal(
        name, "it returned \(Self.words(written)) right after other bytes were written",
        "a cache in between, replication that reads an older copy, or writes that are lost")
    }
    let range = 8..<20
    let part = try await store.get(name, range)
    if part != Array(bodies[2][range]) {
      throw refusal(
        name, "it returned \(Self.words(part)) for a range of \(range.count) bytes",
        "a server or a gateway that ignores ranges")
    }
  }

  /// Reads an object as many times at once as the race has requests, so that their connections
  /// exist when the race begins. Otherwise the requests begin one after the other.
  private func openConnections(_ name: ObjectName) async throws(ObjectStoreError) {
    let errors = await withTaskGroup(
      of: ObjectStoreError?.self, returning: [ObjectStoreError].self
    ) { group in
      for _ in 0..<width { group.addTask { await self.errorOfReading(name) } }
      var errors: [ObjectStoreError] = []
      for await error in group { if let error { errors.append(error) } }
      return errors
    }
    if let first = errors.first { throw first }
  }

  private func errorOfReading(_ name: ObjectName) async -> ObjectStoreError? {
    do throws(ObjectStoreError) {
      _ = try await store.get(name, nil)
      return nil
    } catch {
      return error
    }
  }

  private func checkRace(
    _ name: ObjectName, _ bodies: [[UInt8]]
  ) async throws(ObjectStoreError) {
    let creations = try await createAtOnce(name, bodies)
    let winners = creations.indices.filter { creations[$0] == .created }
    let found = try await store.get(name, nil)
    let cause =
      "a store that evaluates 'create if absent' separately on several servers or endpoints, or "
      + "before and not while it writes"
    if winners.count > 1 {
      throw refusal(
        name, "it let \(winners.count) of \(width) concurrent requests create one name", cause)
    }
    guard let found, let holder = bodies.firstIndex(of: found) else {
      throw refusal(
        name,
        "after \(width) concurrent requests to create one name, it returned "
          + Self.words(found), cause)
    }
    // Without a winner, the answer to the request that created the object was lost.
    if let winner = winners.first, winner != holder {
      throw refusal(
        name,
        "of \(width) concurrent requests to create one name, it has the bytes of a request "
          + "that it had refused", cause)
    }
  }

  /// The answer to one of several concurrent requests.
  private struct Answer: Sendable {
    let number: Int
    let result: Result<ObjectCreation, ObjectStoreError>
  }

  /// Makes all requests at the same time.
  ///
  /// - Throws: the error of a request, after all requests have ended.
  private func createAtOnce(
    _ name: ObjectName, _ bodies: [[UInt8]]
  ) async throws(ObjectStoreError) -> [ObjectCreation] {
    let answers = await withTaskGroup(of: Answer.self, returning: [Answer].self) { group in
      for (number, bytes) in bodies.enumerated() {
        group.addTask { await self.answer(number, name, bytes) }
      }
      var answers: [Answer] = []
      for await answer in group { answers.append(answer) }
      return answers
    }
    var creations = [ObjectCreation](repeating: .exists, count: bodies.count)
    for answer in answers.sorted(by: { $0.number < $1.number }) {
      creations[answer.number] = try answer.result.get()
    }
    return creations
  }

  /// Makes one request. Swift 6.3.1 returned a wrong number from an optimized closure of the group
  /// with the same statements, so they have a function of their own.
  private func answer(_ number: Int, _ name: ObjectName, _ bytes: [UInt8]) async -> Answer {
    do throws(ObjectStoreError) {
      let creation = try await store.create(name, ObjectBody(bytes))
      return Answer(number: number, result: .success(creation))
    } catch {
      return Answer(number: number, result: .failure(error))
    }
  }

  private func checkRemoval(_ names: [ObjectName]) async throws(ObjectStoreError) {
    try await store.remove(names)
    for name in names {
      guard let bytes = try await store.get(name, nil) else { continue }
      throw refusal(
        name, "it returned \(Self.words(bytes)) after the object was removed",
        "a cache in between, or replication that reads an older copy")
    }
  }

  private static func words(_ bytes: [UInt8]?) -> String {
    switch bytes?.count {
    case nil: "no object"
    case 0: "an empty object"
    case 1: "an object of 1 byte"
    case let count?: "an object of \(count) bytes"
    }
  }

  private func refusal(
    _ name: ObjectName, _ observation: String, _ causes: String
  ) -> ObjectStoreError {
    ObjectStoreError(
      .unsupported,
      "this store of objects cannot hold an archive: \(observation). Likely causes: \(causes). Use "
        + "another store, or configure this one", object: name, mayHaveHadEffect: true)
  }
}
