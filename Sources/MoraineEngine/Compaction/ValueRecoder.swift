import MoraineFormat

/// Stores each copied value in the form that suits its new segment. One thread uses it at a time.
struct ValueRecoder: ~Copyable {
  /// Length of the longest value that a dictionary helps, in bytes: a longer value contains enough
  /// repetitions itself.
  static let longestValueBytes = 64 << 10

  private let keptFrom: Int?
  private var shared: DictionaryCompressor?
  private var plain = Compressor()

  init(_ dictionary: SharedDictionary) {
    keptFrom = dictionary.keptFrom
    if !dictionary.bytes.isEmpty { shared = DictionaryCompressor(dictionary: dictionary.bytes) }
  }

  /// Changes the form in which a copy is stored, when that is necessary or saves bytes. The bytes
  /// that the copy refers to are valid until the next call.
  ///
  /// - Parameter slot: the slot of the input that the record comes from.
  mutating func recode(
    _ copy: inout RecordCopy, _ record: RecordReference, from slot: Int, at offset: Int,
    _ values: inout SegmentValues
  ) throws(StoreError) {
    let header = record.header
    assert(
      copy.codec == header.codec && copy.rawLength == header.rawLength,
      "a copy is compressed a second time")
    guard header.kind.effect == .sets, slot != keptFrom else { return }
    let needsDictionary = header.codec == .lz4Dictionary
    let isShort = header.rawLength <= Self.longestValueBytes
    guard needsDictionary || (isShort && shared != nil) else { return }
    let value = try values.value(of: record, at: offset)
    // No length precedes a raw value.
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

/// Decompresses the values of one segment, whose dictionary was verified. One thread uses it at a
/// time.
struct SegmentValues: ~Copyable {
  private let dictionaryLength: Int
  private let name: String
  // Also decompresses values without a dictionary: they refer to no bytes before their own.
  private var decompressor: DictionaryDecompressor

  init(dictionary: [UInt8], name: String) {
    dictionaryLength = dictionary.count
    self.name = name
    decompressor = DictionaryDecompressor(dictionary: dictionary)
  }

  /// Returns the value of a record whose checksum was verified. The value is valid until the next
  /// call.
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
