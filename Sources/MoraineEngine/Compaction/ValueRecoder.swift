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
