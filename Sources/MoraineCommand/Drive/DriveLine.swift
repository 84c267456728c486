import Moraine

/// A line of `drive`'s protocol, split into words.
struct DriveLine {
  typealias Operation = (key: Key, value: [UInt8]?)

  /// Nil if the line is longer than the limit.
  private let line: [UInt8]?
  let words: [ArraySlice<UInt8>]
  /// Whether the line had an end; false when the input ended within it.
  private let hasEnd: Bool

  init(_ line: LineReader.Line, hasEnd: Bool) {
    self.hasEnd = hasEnd
    switch line {
    case .bytes(let bytes):
      self.line = bytes
      words = bytes.split(separator: UInt8(ascii: " "))
    case .tooLong:
      self.line = nil
      words = []
    }
  }

  var command: String {
    get throws {
      guard line != nil else { throw StoreError(.invalidArgument, "the line is too long") }
      guard let word = words.first else { throw DriveSession.Misuse(message: "an empty line") }
      return String(decoding: word, as: UTF8.self)
    }
  }

  /// The command, with as many words as it takes.
  var verb: DriveVerb {
    get throws {
      guard let verb = DriveVerb(rawValue: try command) else {
        throw DriveSession.Misuse(message: "unknown command; the commands are \(DriveVerb.list)")
      }
      guard verb.wordCounts.contains(words.count) else {
        throw DriveSession.Misuse(message: "wrong number of words")
      }
      return verb
    }
  }

  /// Checks that the input did not end within the line. Only a part of the last key, value or
  /// number may have arrived, and a line that writes must not store such a part.
  func checkEnd() throws {
    guard hasEnd else { throw DriveSession.Misuse(message: "the input ended within a line") }
  }

  var isClose: Bool { words.first.map { $0.elementsEqual("close".utf8) } ?? false }

  var key: Key {
    get throws { Key(try bytes(1)) }
  }

  /// The number of operations in a batch.
  var count: Int {
    get throws {
      let digits = String(decoding: words[1], as: UTF8.self)
      guard digits.utf8.allSatisfy({ UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 }),
        let count = Int(digits)
      else { throw DriveSession.Misuse(message: "batch takes a number") }
      return count
    }
  }

  /// The condition of a compare and set.
  var condition: WriteCondition {
    get throws {
      let word = String(decoding: words[2], as: UTF8.self)
      if word == "absent" { return .absent }
      guard word.utf8.allSatisfy({ UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 }),
        let number = UInt64(word)
      else { throw DriveSession.Misuse(message: "cas takes a sequence number or absent") }
      return .sequence(SequenceNumber(rawValue: number))
    }
  }

  /// The bounds, the order and the largest number of the entries of a range.
  var range: (KeyRange, KeyOrder, Int?) {
    get throws {
      func bound(_ index: Int) throws -> Key? {
        words[index].elementsEqual("-".utf8) ? nil : Key(try bytes(index))
      }
      var rest = words[3...].map { String(decoding: $0, as: UTF8.self) }
      let isReverse = rest.first == "reverse"
      if isReverse { rest.removeFirst() }
      let limit = rest.first.flatMap { Int($0) }
      guard rest.count <= 1, rest.isEmpty || (limit ?? -1) >= 0 else {
        throw DriveSession.Misuse(message: "expected range FROM TO [reverse] [LIMIT]")
      }
      let range = KeyRange(from: try bound(1), upTo: try bound(2))
      return (range, isReverse ? .descending : .ascending, limit)
    }
  }

  /// The time that the line ends with, in milliseconds since 1970.
  var milliseconds: UInt64 {
    get throws {
      let word = words.last.map { String(decoding: $0, as: UTF8.self) } ?? ""
      guard word.utf8.allSatisfy({ UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 }),
        let time = UInt64(word)
      else { throw DriveSession.Misuse(message: "expected a time in milliseconds") }
      return time
    }
  }

  /// The value of a put that expires.
  var value: [UInt8] {
    get throws { try bytes(2) }
  }

  /// The value of a compare and set.
  var conditionalValue: [UInt8] {
    get throws { try bytes(3) }
  }

  /// The operation of a put or a delete, in a batch or not.
  var operation: Operation {
    get throws {
      try checkEnd()
      return switch (try command, words.count) {
      case ("put", 3): (try key, try bytes(2))
      case ("del", 2): (try key, nil)
      default: throw DriveSession.Misuse(message: "expected put KEY VALUE or del KEY")
      }
    }
  }

  private func bytes(_ index: Int) throws -> [UInt8] {
    guard let bytes = Hexadecimal.decode(words[index]) else {
      throw DriveSession.Misuse(message: "word \(index + 1) is not pairs of hexadecimal digits")
    }
    return bytes
  }
}

/// A command of `drive`'s protocol: the first word of a line. The help of `drive` describes each.
enum DriveVerb: String, CaseIterable {
  case put, putx, del, get, cas, getv, batch, scan, range, sync, clock, reap, compact, flush
  case checkpoint, stats, close

  /// The number of words that a line can have, with the verb.
  var wordCounts: ClosedRange<Int> {
    switch self {
    case .scan, .sync, .reap, .compact, .flush, .checkpoint, .stats, .close: 1...1
    case .del, .get, .getv, .batch, .clock: 2...2
    case .put: 3...3
    case .putx, .cas: 4...4
    case .range: 3...5
    }
  }

  /// The names of all commands, for the answer to a line with another one.
  static var list: String { allCases.map(\.rawValue).joined(separator: ", ") }
}
