import MoraineFormat

/// Stores copied values the way that is best where they go. One thread at a time.
struct ValueRecoder: ~Copyable {
  /// Longer values find enough in themselves.
  static let longestValueBytes = 64 << 10

  private let keptFrom: Int?
  private var shared: DictionaryCompressor?
  private var plain = Compressor()

  init(_ dictionary: SharedDictionary) {
    keptFrom = dictionary.keptFrom
    if !dictionary.bytes.isEmpty { shared = DictionaryCompressor(dictionary: dictionary.bytes) }
  }

  /// Changes how a copy is stored, if that is necessary or pays. What it refers to is valid until
  /// the next call.
  ///
  /// - Parameter slot: of the input that the record comes from.
  mutating func recode(
    _ copy: inout RecordCopy, _ record: RecordReference, from slot: Int, at offset: Int,
    _ values: inout SegmentValues
  ) throws(StoreError) {
    let header = record.header
    assert(
      copy.codec == header.codec && copy.rawLength == header.rawLength,
      "a copy is compressed a second time")
    guard header.kind == .put, slot != keptFrom else { return }
    let needsDictionary = header.codec == .lz4Dictionary
    let isShort = header.rawLength <= Self.longestValueBytes
    guard needsDictionary || (isShort && shared != nil) else { return }
    let value = try values.value(of: record, at: offset)
    // A raw value has no length of its own before it.
    let present = needsDictionary ? Int.max : header.storedLength - (header.codec == .raw ? 4 : 0)
    if isShort, let stored = shared?.compress(value), stored.count < present {
      copy.stored = stored
      copy.codec = .lz4Dictionary
      copy.rawLength = value.count
    } else if needsDictionary {
      plain.trim()
      let stored = plain.compress(value)
      copy.stored = stored ?? value
      copy.codec = stored == nil ? .raw : .lz4
      copy.rawLength = value.count
    }
  }
}

/// Decompresses values of one segment, whose dictionary was verified. One thread at a time.
struct SegmentValues: ~Copyable {
  private let dictionaryLength: Int
  private let name: String
  // Serves values without a dictionary as well: those never reach back so far.
  private var decompressor: DictionaryDecompressor

  init(dictionary: [UInt8], name: String) {
    dictionaryLength = dictionary.count
    self.name = name
    decompressor = DictionaryDecompressor(dictionary: dictionary)
  }

  /// The value of a record whose checksum was verified; valid until the next call.
  mutating func value(
    of record: RecordReference, at offset: Int
  ) throws(StoreError) -> UnsafeRawBufferPointer {
    let header = record.header
    switch header.codec {
    case .raw: return record.stored
    case .lz4: break
    case .lz4Dictionary:
      guard dictionaryLength > 0 else {
        throw .corrupted(
          "a value needs a dictionary, but its segment has none", name, at: offset)
      }
    }
    decompressor.trim()
    guard let value = decompressor.decompress(record.stored, rawLength: header.rawLength) else {
      throw .corrupted("a compressed value cannot be decompressed", name, at: offset)
    }
    return value
  }
}
