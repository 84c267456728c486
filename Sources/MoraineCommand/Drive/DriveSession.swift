import Moraine
import MoraineArchive
import MoraineTesting
import Synchronization
import SystemPackage

/// Answers the lines of `drive`'s protocol, each before it reads the next.
final class DriveSession {
  struct Misuse: Error {
    let message: String
  }

  private let store: Store
  /// The unnamed keyspace, which all lines are about.
  private let keyspace: Keyspace
  /// The clock that lines set; nil for the clock of the system.
  private let clock: ManualClock?
  /// The writer of the store's archive; nil without an archive.
  private let archive: ArchiveWriter?
  private var lines: LineReader

  init(_ keyspace: Keyspace, _ clock: ManualClock?, _ archive: ArchiveWriter?) {
    self.keyspace = keyspace
    self.clock = clock
    self.archive = archive
    store = keyspace.store
    // A put at the limits of the format, in hexadecimal digits, and 64 bytes for the other words.
    let limit = 2 * (StoreLimits.keyLengthBytes + StoreLimits.valueLengthBytes) + 64
    lines = LineReader(.standardInput, limitBytes: limit)
  }

  static func text(_ error: StoreError) -> String {
    var text = "err \(error.code) \(error.message)"
    if let file = error.file {
      text += " [\(file)" + (error.offset.map { " at byte \($0)" } ?? "") + "]"
    }
    // One line, even if the name of a file contains control characters.
    return text.replacing(/[\p{Cc}]/, with: " ")
  }

  static func text(_ error: ArchiveError) -> String {
    "err \(error.code) \(error.message)\(error.storePlace)".replacing(/[\p{Cc}]/, with: " ")
  }

  /// Answers lines until `close` or the end of the input.
  func run() async throws {
    while let line = try read() {
      let isLast: Bool
      do {
        isLast = try await answer(line)
      } catch let error as StoreError {
        try say(Self.text(error))
        // A store whose close failed is closed nevertheless.
        guard line.isClose else { continue }
        throw Failure(code: error.exitCode, message: nil)
      } catch let error as ArchiveError {
        try say(Self.text(error))
        guard line.isClose else { continue }
        throw Failure(code: error.exitCode, message: nil)
      } catch let error as Misuse {
        try say("err usage \(error.message)")
        continue
      }
      if isLast { return }
    }
    try await detach()
  }

  /// Archives what was written since the last time: at the end of the input, as at a `close`.
  private func detach() async throws {
    do throws(ArchiveError) {
      try await archive?.detach()
    } catch {
      try say(Self.text(error))
      throw Failure(code: error.exitCode, message: nil)
    }
  }

  private func read() throws -> DriveLine? {
    do {
      guard let line = try lines.read() else { return nil }
      return DriveLine(line, hasEnd: lines.lastLineHasEnd)
    } catch {
      throw Failure("read standard input", error)
    }
  }

  /// Prints an answer and flushes it: the other program waits for it.
  private func say(_ text: String) throws(Failure) {
    try Output.line(text)
    try Output.flush()
  }

  /// - Returns: whether it was the last line.
  private func answer(_ line: DriveLine) async throws -> Bool {
    switch try line.verb {
    case .put, .del: try say(try await apply(try line.operation))
    case .get: try answer(value: try await keyspace.value(forKey: try line.key))
    case .getv:
      let found = try await keyspace.versionedValue(forKey: try line.key)
      try answer(value: found?.value, sequence: found?.sequence)
    case .putx: try say(try await putExpiring(line))
    case .clock: try say(try setClock(try line.milliseconds))
    case .reap: try say("ok \(try await store.removeExpired())")
    case .cas: try say(try await compareAndSet(line))
    case .batch: try say(try await batch(line))
    case .scan: try say(try await scan())
    case .range: try await range(line)
    case .sync: try say("ok \(try await store.sync())")
    case .stats: try say("stats \(try await store.statistics().json)")
    case .compact:
      _ = try await store.compact()
      try say("ok")
    case .flush: try say("ok \(try await writer.flush())")
    case .checkpoint:
      try await writer.checkpoint()
      try say("ok")
    case .close:
      try await archive?.detach()
      try await store.close()
      try say("ok")
      return true
    }
    return false
  }

  private var writer: ArchiveWriter {
    get throws {
      guard let archive else { throw Misuse(message: "this line needs --archive") }
      return archive
    }
  }

  private func putExpiring(_ line: DriveLine) async throws -> String {
    try line.checkEnd()
    let expiry = Expiry.at(milliseconds: try line.milliseconds)
    return "ok \(try await keyspace.set(try line.value, forKey: try line.key, expiring: expiry))"
  }

  private func setClock(_ time: UInt64) throws -> String {
    guard let clock else { throw Misuse(message: "clock needs --manual-clock") }
    if time < clock.milliseconds {
      clock.set(toMilliseconds: time)
    } else {
      clock.advance(toMilliseconds: time)
    }
    return "ok"
  }

  private func compareAndSet(_ line: DriveLine) async throws -> String {
    try line.checkEnd()
    let (key, condition) = (try line.key, try line.condition)
    guard
      let sequence = try await keyspace.set(try line.conditionalValue, forKey: key, if: condition)
    else { return "err conflict the key has another value than the one that the write replaces" }
    return "ok \(sequence)"
  }

  private func answer(value: [UInt8]?, sequence: SequenceNumber? = nil) throws(Failure) {
    guard let value else { return try say("none") }
    try Output.write { text in
      text.append(contentsOf: "value ".utf8)
      if let sequence { text.append(contentsOf: "\(sequence) ".utf8) }
      Hexadecimal.append(value, to: &text)
      text.append(UInt8(ascii: "\n"))
    }
    try Output.flush()
  }

  private func apply(_ operation: DriveLine.Operation) async throws -> String {
    if let value = operation.value {
      return "ok \(try await keyspace.set(value, forKey: operation.key))"
    }
    let sequence = try await keyspace.removeValue(forKey: operation.key)
    return "ok " + (sequence.map { "\($0)" } ?? "-")
  }

  /// Reads all lines of the batch before it answers, so that each later answer matches its line.
  private func batch(_ line: DriveLine) async throws -> String {
    let count = try line.count
    var operations: [DriveLine.Operation] = []
    var failure: (any Error)?
    for index in 0..<count {
      guard let line = try read() else {
        throw Misuse(message: "the input ended in a batch, before line \(index + 1) of \(count)")
      }
      guard failure == nil else { continue }
      do {
        operations.append(try line.operation)
      } catch let error as Misuse {
        failure = Misuse(message: "line \(index + 1) of the batch: \(error.message)")
      } catch {
        failure = error
      }
    }
    if let failure { throw failure }
    // Not `lastSequence`: the last number of the store may already be another process's.
    let receipt = Mutex<CommitReceipt?>(nil)
    let numbered = operations.map { KeyspaceOperation(key: $0.key, value: $0.value) }
    try await keyspace.commit(numbered, durability: nil) { done in
      receipt.withLock { $0 = done }
    }
    return "ok " + (receipt.withLock { $0?.sequence }.map { "\($0)" } ?? "-")
  }

  private func range(_ line: DriveLine) async throws {
    let (range, order, limit) = try line.range
    let page =
      try await limit == 0
      ? [] : keyspace.entries(in: range, order: order, limit: limit ?? Int.max).entries
    try Output.write { text in
      text.append(contentsOf: "count \(page.count)\n".utf8)
      for entry in page {
        Hexadecimal.append(entry.key.bytes, to: &text)
        text.append(UInt8(ascii: " "))
        Hexadecimal.append(entry.value, to: &text)
        text.append(UInt8(ascii: "\n"))
      }
    }
    try Output.flush()
  }

  private func scan() async throws -> String {
    var digest = DriveDigest()
    try await store.scan { entry in
      digest.add(entry)
      return true
    }
    return digest.text
  }
}
