import MoraineFormat

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
          "a value needs a dictionary, and its segment has none", name, at: offset)
      }
    }
    decompressor.trim()
    guard let value = decompressor.decompress(record.stored, rawLength: header.rawLength) else {
      throw .corrupted("a compressed value does not decompress", name, at: offset)
    }
    return value
  }
}
