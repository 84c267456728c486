import MoraineEngine
import MoraineFormat

/// The objects of one archive, read and checked. Requests that fail for a while are repeated.
struct ArchiveObjects: Sendable {
  let store: any ObjectStore
  let names: ArchiveNames
  let identity: ArchiveIdentity
  let patience: Patience

  var archiveID: StoreIdentifier { identity.archiveID }

  /// The same objects, by way of another store of objects.
  func through(_ store: any ObjectStore) -> ArchiveObjects {
    ArchiveObjects(store: store, names: names, identity: identity, patience: patience)
  }

  /// Reads bytes of an object; nil when no object has the name.
  func get(_ name: ObjectName, _ range: Range<Int>? = nil) async throws(ArchiveError) -> [UInt8]? {
    var attempts = Attempts(patience)
    while true {
      do throws(ObjectStoreError) {
        return try await store.get(name, range)
      } catch {
        try await attempts.pause(after: error)
      }
    }
  }

  /// Creates or replaces an object.
  func put(_ name: ObjectName, _ body: ObjectBody) async throws(ArchiveError) {
    var attempts = Attempts(patience)
    while true {
      do throws(ObjectStoreError) {
        return try await store.put(name, body)
      } catch {
        try await attempts.pause(after: error)
      }
    }
  }

  /// Reads a record; nil when no object has the name.
  func record<Record: ArchiveRecord>(
    _ type: Record.Type, _ name: ObjectName
  ) async throws(ArchiveError) -> Record? {
    guard let bytes = try await get(name, 0..<ArchiveLimits.recordBytes + 1) else { return nil }
    return try decoding(name) { () throws(FormatError) in try Record(bytes) }
  }

  /// Reads where the newest objects may be; nil when there is no hint, or none that can be read.
  func hint() async throws(ArchiveError) -> HeadHint? {
    do throws(ArchiveError) {
      return try await record(HeadHint.self, names.head)
    } catch {
      guard error.code == .damaged || error.code == .newerFormat else { throw error }
      return nil
    }
  }

  /// Reads a checkpoint; nil when there is none with the number.
  func checkpoint(_ number: UInt64) async throws(ArchiveError) -> CheckpointRecord? {
    // No object has a higher number. A forged object may lead to one.
    guard number <= ArchiveLimits.checkpoint else { return nil }
    let name = names.checkpoint(number)
    guard let record = try await record(CheckpointRecord.self, name) else { return nil }
    guard record.archiveID == archiveID, record.number == number else {
      throw ArchiveError(.damaged, "the checkpoint is of another archive or number", object: name)
    }
    return record
  }

  /// Checks that the store can hold an archive: that it creates a name only once, for example.
  ///
  /// - Throws: `.unsupportedStore`, `.unavailable`.
  func probe(_ extent: ObjectStoreProbe.Extent = .whole) async throws(ArchiveError) {
    var generator = SystemRandomNumberGenerator()
    let patient = PatientObjectStore(store: store, patience: patience)
    try await ObjectStoreProbe(patient, under: names.root).run(extent, using: &generator)
  }

  /// Reads the header of a commit; nil when there is none at the position.
  func header(_ position: UInt64) async throws(ArchiveError) -> CommitHeader? {
    guard position <= ArchiveLimits.position else { return nil }
    let name = names.commit(position)
    // Most headers are shorter than this, and most commits not much longer.
    guard var bytes = try await get(name, 0..<(16 << 10)) else { return nil }
    let count = try decoding(name) { () throws(FormatError) in
      try bytes.withUnsafeBufferPointer { raw throws(FormatError) in
        try CommitHeader.claimedLength(UnsafeRawBufferPointer(raw))
      }
    }
    if count > bytes.count {
      guard let more = try await get(name, 0..<count) else { return nil }
      bytes = more
    }
    let whole = bytes
    return try checked(
      try decoding(name) { () throws(FormatError) in try CommitHeader.decoded(whole) },
      at: position)
  }

  /// Reads a whole commit; nil when there is none at the position.
  func commit(_ position: UInt64) async throws(ArchiveError) -> Commit? {
    guard position <= ArchiveLimits.position else { return nil }
    let name = names.commit(position)
    guard let bytes = try await get(name, 0..<ArchiveLimits.commitBytes + 1) else { return nil }
    let commit = try decoding(name) { () throws(FormatError) in try Commit(bytes) }
    _ = try checked(commit.header, at: position)
    return commit
  }

  private func checked(
    _ header: CommitHeader, at position: UInt64
  ) throws(ArchiveError) -> CommitHeader {
    guard header.archiveID == archiveID, header.position == position else {
      throw ArchiveError(
        .damaged, "the commit is of another archive or position", object: names.commit(position))
    }
    return header
  }

  /// Reads the contents that a checkpoint or a gap names.
  func contents(_ reference: ContentsReference) async throws(ArchiveError) -> CheckpointContents {
    let name = names.data(reference.name)
    guard reference.byteCount <= ArchiveLimits.contentsObjectBytes else {
      throw ArchiveError(.damaged, "the contents of the checkpoint are too long", object: name)
    }
    guard let bytes = try await get(name, 0..<Int(reference.byteCount) + 1) else {
      throw ArchiveError(
        .stateUnavailable, "the contents of the checkpoint were removed", object: name)
    }
    let contents = try decoding(name) { () throws(FormatError) in
      try bytes.withUnsafeBufferPointer { raw throws(FormatError) in
        try reference.verify(UnsafeRawBufferPointer(raw))
        return try CheckpointContents(decodingContainer: UnsafeRawBufferPointer(raw))
      }
    }
    guard contents.archiveID == archiveID else {
      throw ArchiveError(.damaged, "the contents are of another archive", object: name)
    }
    return contents
  }

  /// Checks that the number of an object to create is not above the highest one.
  ///
  /// - Throws: `.damaged`: no writer makes so many objects.
  func checkNumber(_ request: ArchiveRequest) throws(ArchiveError) {
    let (number, limit, prefix) =
      switch request {
      case .createTerm(let term): (term, ArchiveLimits.term, names.terms)
      case .createCommit(let position, _): (position, ArchiveLimits.position, names.commits)
      case .createCheckpoint(let checkpoint):
        (checkpoint.number, ArchiveLimits.checkpoint, names.checkpoints)
      case .readTerm, .readCommit, .readCheckpoint: (0, 0, names.root)
      }
    guard number <= limit else {
      throw ArchiveError(
        .damaged, "an object has the highest number that is possible; it was not made by a writer",
        object: prefix)
    }
  }

  /// Returns the answer to a request that reads.
  func answer(_ request: ArchiveRequest) async throws(ArchiveError) -> ArchiveAnswer {
    switch request {
    case .readTerm(let term): return try await hasTerm(term) ? .exists : .absent
    case .readCommit(let position):
      guard let header = try await header(position) else { return .absent }
      return .commit(header.summary)
    case .readCheckpoint(let number):
      guard let record = try await checkpoint(number) else { return .absent }
      return .checkpoint(try await summary(record))
    case .createTerm, .createCommit, .createCheckpoint:
      preconditionFailure("a request that creates is not a read")
    }
  }

  /// Returns whether a term exists. An answer that is not its record fences no writer: it may be
  /// the page of a proxy.
  func hasTerm(_ term: UInt64) async throws(ArchiveError) -> Bool {
    guard term <= ArchiveLimits.term else { return false }
    let name = names.term(term)
    do throws(ArchiveError) { return try await record(TermRecord.self, name) != nil } catch {
      guard error.code == .damaged else { throw error }
      throw ArchiveError(
        .unavailable, "the answer is no record of a term (\(error.message))", object: name)
    }
  }

  /// Returns a checkpoint as the protocol reads it, with the term of its commit.
  ///
  /// The record has the term of its own writer. A commit that was removed has a term that is not
  /// higher.
  func summary(_ record: CheckpointRecord) async throws(ArchiveError) -> CheckpointSummary {
    var term = record.term
    if let header = try await header(record.position), header.nonce == record.commitNonce {
      term = header.term
    }
    return CheckpointSummary(
      number: record.number,
      commit: CommitReference(
        position: record.position, term: term, identity: record.commitNonce.identity))
  }
}

/// Runs a decoder, and converts its errors to errors of the archive.
func decoding<Result>(
  _ name: ObjectName, _ body: () throws(FormatError) -> Result
) throws(ArchiveError) -> Result {
  do throws(FormatError) { return try body() } catch { throw ArchiveError(error, object: name) }
}

extension CommitHeader {
  static func decoded(_ bytes: [UInt8]) throws(FormatError) -> CommitHeader {
    try bytes.withUnsafeBufferPointer { raw throws(FormatError) in
      try CommitHeader(decoding: UnsafeRawBufferPointer(raw))
    }
  }

  var reference: CommitReference {
    CommitReference(position: position, term: term, identity: nonce.identity)
  }

  /// The life of the store that a fence begins; nil when it begins none.
  var life: Manifest.Epoch? {
    instanceID.map { Manifest.Epoch(epoch: epoch, firstSequence: firstSequence, instanceID: $0) }
  }

  var summary: CommitSummary {
    CommitSummary(
      reference, previous: previousNonce == .zero ? .none : previousNonce.identity)
  }
}

extension CommitReference {
  /// The place of the commit, as the manifest of a follower has it.
  func following(_ archiveID: StoreIdentifier, checkpoint: UInt64) -> Manifest.Following {
    Manifest.Following(
      archiveID: archiveID, position: position, term: term, nonceLow: identity.low,
      nonceHigh: identity.high, checkpoint: checkpoint)
  }

  init(_ place: Manifest.Following) {
    self.init(
      position: place.position, term: place.term,
      identity: CommitIdentity(high: place.nonceHigh, low: place.nonceLow))
  }
}

extension Nonce {
  var identity: CommitIdentity { CommitIdentity(high: high, low: low) }

  init(_ identity: CommitIdentity) { self.init(low: identity.low, high: identity.high) }
}

/// How long requests that fail for a while are repeated.
struct Patience: Sendable {
  let limit: Duration
  let firstPause: Duration

  static let longestPause: Duration = .seconds(20)

  init(_ configuration: ArchiveConfiguration) {
    (limit, firstPause) = (configuration.patience, configuration.firstPause)
  }
}

/// The attempts of one request.
struct Attempts {
  private let patience: Patience
  private let began = ContinuousClock.now
  private var pause: Duration

  init(_ patience: Patience) {
    self.patience = patience
    pause = patience.firstPause
  }

  /// Waits before the next attempt.
  ///
  /// - Throws: the error, when another attempt makes no sense or the patience is over;
  ///   `.cancelled`.
  mutating func pause(after error: ObjectStoreError) async throws(ArchiveError) {
    guard error.isTemporary, ContinuousClock.now - began + pause < patience.limit else {
      throw ArchiveError(error)
    }
    // Machines that failed together do not come back together.
    let wait = pause * Double.random(in: 0.5...1)
    do { try await Task.sleep(for: wait) } catch {
      throw ArchiveError(.cancelled, "the task was cancelled while a request was repeated")
    }
    pause = min(pause * 2, Patience.longestPause)
  }
}
