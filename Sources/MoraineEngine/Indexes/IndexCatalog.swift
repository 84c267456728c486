import MoraineFormat

/// The indexes of a keyspace, as the system keyspace lists them.
package struct IndexCatalog: Equatable, Sendable {
  /// The state of an index.
  package enum State: UInt8, Sendable {
    /// Records that were saved before the index was added may have no entries yet.
    case building = 0
    /// Every record has its entries, or a mark that says that it lacks them.
    case ready = 1
    /// The index is no longer used; its entries are being removed.
    case dropped = 2
  }

  /// One index.
  package struct Index: Equatable, Sendable {
    /// The number, which follows from the definition: another definition has another number.
    package let number: UInt64
    package let name: String
    /// The version of the models that the program had which has added the index.
    package let modelVersion: UInt32
    package var state: State
    /// A random number that is new each time that the index is added.
    package var addition: UInt64

    package init(
      number: UInt64, name: String, modelVersion: UInt32, state: State, addition: UInt64
    ) {
      (self.number, self.name) = (number, name)
      (self.modelVersion, self.state, self.addition) = (modelVersion, state, addition)
    }
  }

  private static let version: UInt8 = 1
  /// The most indexes of one keyspace, with those that are being removed.
  package static let limit = 128

  package var indexes: [Index]

  package init(_ indexes: [Index] = []) { self.indexes = indexes }

  /// The numbers of the indexes in which every record must have its entries.
  package var live: [UInt64] { indexes.filter { $0.state != .dropped }.map(\.number) }

  /// The numbers of the indexes that queries use.
  package var ready: [UInt64] { indexes.filter { $0.state == .ready }.map(\.number) }

  /// Returns the index with a number; nil when the catalog has none.
  package subscript(number: UInt64) -> Index? { indexes.first { $0.number == number } }

  /// Marks indexes that were being built as ready, unless they were removed and added again since.
  package mutating func markReady(_ built: [Index]) {
    for index in built {
      if let position = indexes.firstIndex(of: index) { indexes[position].state = .ready }
    }
  }

  /// Marks the indexes with a name as dropped.
  package mutating func drop(named name: String) {
    for position in indexes.indices where indexes[position].name == name {
      indexes[position].state = .dropped
    }
  }

  package var bytes: [UInt8] {
    var writer = ByteWriter()
    writer.append(Self.version)
    writer.append(UInt16(indexes.count))
    for index in indexes {
      writer.append(index.number)
      writer.append(index.modelVersion)
      writer.append(index.state.rawValue)
      writer.append(index.addition)
      writer.append(UInt16(index.name.utf8.count))
      writer.append(contentsOf: index.name.utf8)
    }
    return writer.bytes
  }

  /// - Parameter bytes: the value of the catalog's record; nil when there is none.
  /// - Throws: `.corrupted`, `.newerFormat`.
  package init(_ bytes: [UInt8]?, of keyspace: String) throws(StoreError) {
    guard let bytes else {
      self.init()
      return
    }
    let result: Result<IndexCatalog, StoreError> = bytes.withUnsafeBytes { bytes in
      do throws(FormatError) {
        return .success(try Self.read(bytes))
      } catch {
        let message = "the list of the indexes of the keyspace '\(keyspace)': \(error.reason)"
        return .failure(
          error.kind == .newer
            ? StoreError(.newerFormat, "\(message): update this program")
            : StoreError(.corrupted, "\(message); restore the store from a backup"))
      }
    }
    self = try result.get()
  }

  private static func read(_ bytes: UnsafeRawBufferPointer) throws(FormatError) -> IndexCatalog {
    var reader = ByteReader(bytes)
    guard try reader.read(UInt8.self) == version else {
      throw FormatError(newer: "it has another version", at: 0)
    }
    var indexes: [Index] = []
    for _ in 0..<Int(try reader.read(UInt16.self)) {
      let number: UInt64 = try reader.read()
      let modelVersion: UInt32 = try reader.read()
      guard let state = State(rawValue: try reader.read()) else {
        throw FormatError(newer: "an index has an unknown state", at: reader.offset)
      }
      let addition: UInt64 = try reader.read()
      let length = Int(try reader.read(UInt16.self))
      let name = String(decoding: try reader.take(length), as: UTF8.self)
      indexes.append(
        Index(
          number: number, name: name, modelVersion: modelVersion, state: state, addition: addition))
    }
    guard reader.remaining == 0 else {
      throw FormatError("bytes follow its last index", at: reader.offset)
    }
    return IndexCatalog(indexes)
  }
}
