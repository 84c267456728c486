import MoraineFormat

/// The values that one record has in the indexes of its keyspace.
///
/// The row is stored beside the entries: when the record is replaced or removed, its old entries
/// are found in the row, and the old value need not be decoded.
package struct IndexRow: Hashable, Sendable {
  /// One value in one index.
  package struct Value: Hashable, Sendable {
    package let bytes: [UInt8]
    /// Whether no other record may have the value.
    package let isUnique: Bool

    package init(_ bytes: [UInt8], isUnique: Bool) {
      (self.bytes, self.isUnique) = (bytes, isUnique)
    }
  }

  /// The values in one index. A record that is not in the index has none.
  package struct Part: Hashable, Sendable {
    package let index: UInt64
    package let values: [Value]

    package init(index: UInt64, values: [Value]) {
      (self.index, self.values) = (index, values)
    }
  }

  package private(set) var parts: [Part]

  package init(_ parts: [Part]) { self.parts = parts }

  /// Returns the entries for the record with a key.
  package func entries(for key: Key) -> [SecondaryIndexEntry] {
    parts.flatMap { part in
      part.values.map {
        SecondaryIndexEntry(index: part.index, value: $0.bytes, key: key, isUnique: $0.isUnique)
      }
    }
  }

  /// Whether the record has a value in a unique index.
  package var hasUniqueValues: Bool {
    parts.contains { $0.values.contains(where: \.isUnique) }
  }

  /// The memory of the row, about.
  var memoryBytes: Int {
    parts.reduce(0) { $0 + 48 + $1.values.reduce(0) { $0 + 48 + $1.bytes.count } }
  }

  /// Returns the row with the parts of some indexes only.
  func restricted(to indexes: [UInt64]) -> IndexRow {
    // Most rows have nothing else, and keep their memory.
    if parts.allSatisfy({ indexes.contains($0.index) }) { return self }
    return IndexRow(parts.filter { indexes.contains($0.index) })
  }

  /// Whether the row has a part for each of some indexes.
  package func covers(_ indexes: [UInt64]) -> Bool {
    indexes.allSatisfy { number in parts.contains { $0.index == number } }
  }
}

/// A row as its record holds it.
package struct StoredIndexRow: Sendable {
  private static let version: UInt8 = 1

  package let row: IndexRow
  /// The expiry of the record, which its entries have too: milliseconds since 1970; 0 for never.
  package let expiry: UInt64

  package init(_ row: IndexRow, expiry: UInt64) { (self.row, self.expiry) = (row, expiry) }

  package var bytes: [UInt8] {
    var writer = ByteWriter()
    writer.reserve(
      row.parts.reduce(11) { $0 + 12 + $1.values.reduce(0) { $0 + 3 + $1.bytes.count } })
    writer.append(Self.version)
    writer.append(expiry)
    writer.append(UInt16(row.parts.count))
    for part in row.parts {
      writer.append(part.index)
      writer.append(UInt32(part.values.count))
      for value in part.values {
        writer.append(UInt8(value.isUnique ? 1 : 0))
        writer.append(UInt16(value.bytes.count))
        writer.append(contentsOf: value.bytes)
      }
    }
    return writer.bytes
  }

  /// - Throws: `.corrupted`, `.newerFormat`.
  package init(_ bytes: [UInt8], of key: Key) throws(StoreError) {
    // The message names no key, because messages of damage are logged.
    func damaged(_ why: String) -> StoreError {
      StoreError(.corrupted, "the index row of a record is damaged: \(why)")
    }
    let result: Result<StoredIndexRow, StoreError> = bytes.withUnsafeBytes { bytes in
      do throws(FormatError) {
        return .success(try Self.read(bytes))
      } catch {
        return .failure(
          error.kind == .newer
            ? StoreError(.newerFormat, "the index row of the key '\(key)': \(error.reason)")
            : damaged(error.reason))
      }
    }
    self = try result.get()
  }

  private static func read(
    _ bytes: UnsafeRawBufferPointer
  ) throws(FormatError) -> StoredIndexRow {
    var reader = ByteReader(bytes)
    guard try reader.read(UInt8.self) == version else {
      throw FormatError(newer: "it has another version", at: 0)
    }
    let expiry: UInt64 = try reader.read()
    var parts: [IndexRow.Part] = []
    for _ in 0..<Int(try reader.read(UInt16.self)) {
      let index: UInt64 = try reader.read()
      var values: [IndexRow.Value] = []
      // The count is not verified: each value is read before the next one.
      for _ in 0..<Int(try reader.read(UInt32.self)) {
        let flag: UInt8 = try reader.read()
        guard flag <= 1 else { throw FormatError(newer: "an unknown flag", at: reader.offset) }
        let length = Int(try reader.read(UInt16.self))
        guard length <= IndexLayout.valueLengthBytes else {
          throw FormatError("a value is too long", at: reader.offset)
        }
        values.append(IndexRow.Value([UInt8](try reader.take(length)), isUnique: flag == 1))
      }
      parts.append(IndexRow.Part(index: index, values: values))
    }
    guard reader.remaining == 0 else {
      throw FormatError("bytes follow its last value", at: reader.offset)
    }
    return StoredIndexRow(IndexRow(parts), expiry: expiry)
  }
}
