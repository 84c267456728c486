/// The names of the objects of one archive. All of them lie below the archive's root.
package struct ArchiveNames: Hashable, Sendable {
  package let root: ObjectName

  /// The most bytes that the names of an archive add to its root.
  private static let addedBytes = DataObjectName.lengthBytes + 1

  /// - Throws: `.invalidName` when the root is so long that an object's name would exceed the
  ///   limit.
  package init(root: ObjectName) throws(ArchiveError) {
    guard root.text.utf8.count <= ObjectName.lengthBytes - Self.addedBytes else {
      throw ArchiveError(
        .invalidName,
        "the name of an archive has at most \(ObjectName.lengthBytes - Self.addedBytes) bytes",
        object: root)
    }
    self.root = root
  }

  /// The identity of the archive.
  package var identity: ObjectName { root.appending("archive") }
  /// The hint where its newest objects are.
  package var head: ObjectName { root.appending("head") }

  /// Prefix of all terms.
  package var terms: ObjectName { root.appending("term") }
  /// Prefix of all commits.
  package var commits: ObjectName { root.appending("log") }
  /// Prefix of all checkpoints.
  package var checkpoints: ObjectName { root.appending("chk") }
  /// Prefix of all data objects.
  package var dataObjects: ObjectName { root.appending(DataObjectName.folder) }

  /// The name of a term. Terms begin with 1.
  package func term(_ number: UInt64) -> ObjectName {
    precondition(number >= 1 && number <= ArchiveLimits.term, "a term has one to ten digits")
    return terms.appending(FixedDecimal.text(number, digits: 10))
  }

  /// The name of a commit. Positions begin with 1.
  package func commit(_ position: UInt64) -> ObjectName {
    precondition(
      position >= 1 && position <= ArchiveLimits.position, "a position has one to fifteen digits")
    return commits.appending(FixedDecimal.text(position, digits: 15))
  }

  /// The name of a checkpoint. Their numbers begin with 1.
  package func checkpoint(_ number: UInt64) -> ObjectName {
    precondition(
      number >= 1 && number <= ArchiveLimits.checkpoint, "a checkpoint has one to ten digits")
    return checkpoints.appending(FixedDecimal.text(number, digits: 10))
  }

  /// The name of a data object in the store of objects.
  package func data(_ name: DataObjectName) -> ObjectName {
    root.appending(name.description)
  }

  /// Prefix of the data objects that the writer of a term created.
  package func dataObjects(ofTerm term: UInt64) -> ObjectName {
    precondition(term >= 1 && term <= ArchiveLimits.term, "a term has one to ten digits")
    return dataObjects.appending(FixedDecimal.text(term, digits: 10))
  }
}

extension ArchiveNames {
  /// An object of an archive, as its name says.
  package enum Object: Hashable, Sendable {
    case identity
    case head
    case term(UInt64)
    case commit(UInt64)
    case checkpoint(UInt64)
    case data(DataObjectName)
  }

  /// Returns the object that has a name; nil when the name is not one of this archive.
  package func object(named name: ObjectName) -> Object? {
    var path = name.text[...]
    if !root.text.isEmpty {
      guard path.hasPrefix(root.text + "/") else { return nil }
      path = path.dropFirst(root.text.count + 1)
    }
    let parts = path.split(separator: "/", omittingEmptySubsequences: false)
    switch (parts.first, parts.count) {
    case ("archive", 1): return .identity
    case ("head", 1): return .head
    case ("term", 2):
      return FixedDecimal.number(parts[1], digits: 10, limit: ArchiveLimits.term).map(Object.term)
    case ("log", 2):
      return FixedDecimal.number(parts[1], digits: 15, limit: ArchiveLimits.position).map(
        Object.commit)
    case ("chk", 2):
      return FixedDecimal.number(parts[1], digits: 10, limit: ArchiveLimits.checkpoint).map(
        Object.checkpoint)
    default: return DataObjectName(path).map(Object.data)
    }
  }
}

/// Numbers in names: a fixed number of decimal digits, so that names are in the order of numbers.
enum FixedDecimal {
  /// Returns a number in decimal, with zeros before it.
  static func text(_ number: UInt64, digits: Int) -> String {
    let text = String(number)
    precondition(text.utf8.count <= digits, "a number has more digits than its name")
    return String(repeating: "0", count: digits - text.utf8.count) + text
  }

  /// Returns the number that a text of exactly `digits` decimal digits shows; nil for any other
  /// text, and for a number that is 0 or above the limit.
  static func number(_ text: some StringProtocol, digits: Int, limit: UInt64) -> UInt64? {
    guard text.utf8.count == digits,
      text.utf8.allSatisfy({ UInt8(ascii: "0") <= $0 && $0 <= UInt8(ascii: "9") }),
      let value = UInt64(text), value > 0, value <= limit
    else { return nil }
    return value
  }
}
