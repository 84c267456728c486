import MoraineFormat

/// The system keyspace that holds the indexes of one keyspace: its name, and the keys of its
/// records. Layout: `FileFormat.md`, "Indexes".
package enum IndexLayout {
  private static let namePrefix = "moraine.index/"

  /// Length of the longest key that a model of an indexed keyspace can have, in bytes.
  package static let keyLengthBytes = 200
  /// Length of the longest encoded value of an index, in bytes.
  package static let valueLengthBytes = 300

  /// The record that lists the indexes. See ``IndexCatalog``.
  package static let catalogKey = Key([0])
  private static let pending: UInt8 = 1
  private static let row: UInt8 = 2
  private static let entry: UInt8 = 3

  /// Returns the name of the keyspace that holds the indexes of a keyspace.
  package static func name(for indexed: String) -> String { namePrefix + indexed }

  /// Returns the name of the keyspace whose indexes a keyspace holds; nil when it holds none.
  package static func indexedName(of name: String) -> String? {
    name.utf8.starts(with: namePrefix.utf8)
      ? String(decoding: name.utf8.dropFirst(namePrefix.utf8.count), as: UTF8.self) : nil
  }

  /// Returns the key of the mark that says that a record lacks entries of an index.
  package static func pendingKey(of key: Key) -> Key { Key([pending] + key.bytes) }

  /// The marks of all records that lack entries.
  package static let allPending = KeyRange.prefix(Key([pending]))

  /// Returns the key of the index row of a record. See ``IndexRow``.
  package static func rowKey(of key: Key) -> Key { Key([row] + key.bytes) }

  /// All index rows.
  package static let allRows = KeyRange.prefix(Key([row]))

  /// The entries of all indexes.
  package static let allEntries = KeyRange.prefix(Key([entry]))

  /// Returns what the keys of all entries of an index begin with.
  package static func prefix(of index: UInt64) -> [UInt8] {
    var bytes: [UInt8] = []
    appendPrefix(of: index, to: &bytes)
    return bytes
  }

  fileprivate static func appendPrefix(of index: UInt64, to bytes: inout [UInt8]) {
    bytes.append(entry)
    withUnsafeBytes(of: index.bigEndian) { bytes.append(contentsOf: $0) }
  }

  /// Length of what the keys of all entries of an index begin with.
  package static let prefixLength = 9

  /// Returns the key of a record to which a mark or a row belongs.
  package static func indexedKey(of key: Key) -> Key { Key([UInt8](key.bytes.dropFirst())) }
}

/// One entry of an index.
package struct SecondaryIndexEntry: Hashable, Sendable {
  /// The number of the index.
  package let index: UInt64
  /// The encoded value.
  package let value: [UInt8]
  /// The key of the record that has the value.
  package let key: Key
  /// Whether no other record may have the value.
  package let isUnique: Bool

  package init(index: UInt64, value: [UInt8], key: Key, isUnique: Bool) {
    (self.index, self.value, self.key, self.isUnique) = (index, value, key, isUnique)
  }

  /// The key of the entry's record. Entries with equal values are in the order of their keys.
  package var recordKey: Key {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(IndexLayout.prefixLength + value.count + key.bytes.count + 1)
    IndexLayout.appendPrefix(of: index, to: &bytes)
    bytes += value
    if isUnique { return Key(bytes) }
    bytes += key.bytes
    bytes.append(UInt8(truncatingIfNeeded: key.bytes.count))
    return Key(bytes)
  }

  /// The value of the entry's record.
  package var recordValue: [UInt8] { isUnique ? [1] + key.bytes : [] }

  /// Reads an entry from its record.
  ///
  /// - Throws: `.corrupted` when the record is not that of an entry.
  package init(_ record: Store.Entry) throws(StoreError) {
    let bytes = record.key.bytes
    // The message names no key, because messages of damage are logged.
    func damaged() -> StoreError {
      StoreError(
        .corrupted,
        "a record of the indexes is not an entry of an index; remove the keyspace's indexes and "
          + "add them again")
    }
    guard bytes.count >= IndexLayout.prefixLength else { throw damaged() }
    index = bytes[1..<IndexLayout.prefixLength].reduce(0) { $0 << 8 | UInt64($1) }
    let rest = bytes[IndexLayout.prefixLength...]
    if !record.value.isEmpty {
      isUnique = true
      value = Array(rest)
      key = Key([UInt8](record.value.dropFirst()))
      return
    }
    isUnique = false
    guard let length = rest.last, rest.count > Int(length) else { throw damaged() }
    let pair = rest.dropLast()
    value = Array(pair.dropLast(Int(length)))
    key = Key([UInt8](pair.suffix(Int(length))))
  }
}
