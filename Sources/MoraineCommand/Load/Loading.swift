import Moraine
import SystemPackage

/// One run of `load`: reads lines and stores them in batches.
struct Loading: ~Copyable {
  private let options: StoreOptions
  private let keyspace: KeyspaceOptions
  private let inputName: String
  /// Nil if all of the input is one batch.
  private let batchLimit: Int?
  /// Whether the keyspace must be ordered.
  private let isOrdered: Bool
  /// The records of the next batch, with the numbers of their lines.
  private var pending: [(key: Key, value: [UInt8], line: Int)] = []
  /// The store, opened at the first commit: a program that reads the same store can produce the
  /// input, and a bad first line changes nothing.
  private var store: Store?
  private(set) var storedCount = 0

  init(
    options: StoreOptions, keyspace: KeyspaceOptions, inputName: String, batchLimit: Int?,
    isOrdered: Bool
  ) {
    self.isOrdered = isOrdered
    self.options = options
    self.keyspace = keyspace
    self.inputName = inputName
    self.batchLimit = batchLimit
  }

  /// Reads all lines and commits the full batches.
  mutating func take(
    _ lines: inout LineReader, _ field: KeyField, _ bar: ProgressBar
  ) async throws {
    var number = 0
    while let line = try read(&lines) {
      number += 1
      if let (key, value) = try model(line, number, field) {
        pending.append((key, value, number))
      }
      if let batchLimit, pending.count >= batchLimit { try await commit() }
      if number.isMultiple(of: 256) { bar.update(lines.readBytes, of: lines.totalBytes) }
    }
  }

  private func read(_ lines: inout LineReader) throws -> LineReader.Line? {
    do { return try lines.read() } catch Errno.isDirectory {
      throw Failure.usage("cannot read \(inputName): it is a directory")
    } catch {
      throw Failure("read \(inputName)", error)
    }
  }

  /// Returns nil for a blank line.
  private func model(
    _ line: LineReader.Line, _ number: Int, _ field: KeyField
  ) throws(Failure) -> (Key, [UInt8])? {
    guard case .bytes(var bytes) = line else {
      throw .usage(
        "line \(number): longer than a value, \(StoreLimits.valueLengthBytes) bytes at most")
    }
    if number == 1, bytes.starts(with: [0xEF, 0xBB, 0xBF]) { bytes.removeFirst(3) }
    guard bytes.contains(where: { $0 != 0x20 && $0 != 0x09 && $0 != 0x0D }) else { return nil }
    do throws(LineProblem) {
      let key = try field.key(of: bytes)
      // Before the store is opened: a keyspace that was made ordered stays ordered.
      if isOrdered { try Self.checkOrdered(key) }
      return (key, bytes)
    } catch {
      throw .usage("line \(number): \(error.message)")
    }
  }

  private static func checkOrdered(_ key: Key) throws(LineProblem) {
    let (count, limit) = (key.bytes.count, StoreLimits.orderedKeyLengthBytes)
    guard count <= limit else {
      throw LineProblem(
        message: "the key has \(count) bytes; the limit of an ordered keyspace is \(limit)")
    }
  }

  /// Stores the last batch and closes the store. An empty input opens the store too, so that its
  /// errors are reported.
  mutating func finish(_ bar: ProgressBar) async throws {
    if batchLimit == nil { bar.say("storing \(pending.count) records") }
    try await commit()
    try await store?.close()
  }

  private mutating func commit() async throws {
    let opened: Store
    if let store { opened = store } else { opened = try await options.openForWriting() }
    store = opened
    let models = pending
    pending = []
    let target =
      isOrdered ? try opened.orderedKeyspace(named: keyspace.name) : try keyspace(opened)
    do {
      try await opened.write { batch in
        for (key, value, line) in models {
          do throws(StoreError) { try batch.set(value, forKey: key, in: target) } catch {
            guard error.code == .keyTooLarge else { throw error }
            throw Failure.usage("line \(line): \(error.message)")
          }
        }
      }
    } catch let error as StoreError where error.code == .keyTooLarge {
      // A keyspace that was ordered before: the store compares when it has the whole batch.
      let limit = StoreLimits.orderedKeyLengthBytes
      guard let model = models.first(where: { $0.key.bytes.count > limit }) else { throw error }
      throw Failure.usage("line \(model.line): \(error.message)")
    } catch let error as StoreError where error.code == .valueTooLarge && batchLimit == nil {
      throw Failure.usage("\(error.message); --batch N splits the input")
    }
    storedCount += models.count
  }

  /// Closes the store after an error, and reports how many records were already stored.
  func abandon() async {
    do { try await store?.close() } catch { Output.error("while closing: \(error)") }
    if storedCount > 0 { Output.error("\(storedCount) records of earlier batches are stored") }
  }
}
