import MoraineFormat
import MoraineStorage

/// Collects values, and makes a dictionary of them. One thread uses it at a time.
///
/// Safety of `@unchecked Sendable`: the same argument as for ``CompactionReader``.
final class DictionaryMaker: @unchecked Sendable {
  private let sampling: DictionarySampling
  private let reader: CompactionReader
  private var trainer = DictionaryTrainer()
  private var valueBytes = 0

  init(
    _ inputs: [CompactionInput], _ directory: any StorageDirectory, _ hashKey: HashKey,
    isGlance: Bool
  ) {
    let liveBytes = inputs.reduce(0) { $0 + $1.liveBytes }
    sampling = DictionarySampling(liveBytes: liveBytes, isGlance: isGlance)
    reader = CompactionReader(
      inputs, directory, hashKey, OrderedKeyspaces(), sampling: sampling)
  }

  func chunk() throws(StoreError) -> [CompactionCandidate]? { try reader.chunk() }

  func takeReadBytes() -> Int { reader.takeReadBytes() }

  /// Adds those values of the last chunk that will be copied.
  func add(_ candidates: [CompactionCandidate], _ isKept: [Bool]) throws(StoreError) {
    assert(candidates.count == isKept.count, "not every record was looked up in the index")
    for (candidate, isKept) in zip(candidates, isKept) where isKept {
      let record = try reader.record(candidate)
      valueBytes += record.header.rawLength
      if trainer.wantsNext {
        trainer.add(try reader.values.value(of: record, at: candidate.address.offset))
      } else {
        trainer.skip()
      }
    }
  }

  func dictionary() -> [UInt8]? { trainer.train(totalValueBytes: sampling.total(valueBytes)) }
}

/// Selects the values that a dictionary is made of: as many as a good dictionary needs, spread
/// evenly over the inputs of a compaction.
struct DictionarySampling: Sendable {
  private static let bytes = (least: 256 << 10, most: 2 << 20)
  /// Number of bytes that suffice to find out whether a dictionary would help.
  private static let glanceBytes = (least: 32 << 10, most: 512 << 10)

  /// A record is selected when its mixed sequence number is at most this number.
  private let limit: UInt64

  /// - Parameter isGlance: whether a dictionary is not expected to help.
  init(liveBytes: Int, isGlance: Bool) {
    let bounds = isGlance ? Self.glanceBytes : Self.bytes
    let wanted = min(bounds.most, max(bounds.least, liveBytes / (isGlance ? 64 : 8)))
    limit = liveBytes <= wanted ? .max : UInt64(Double(wanted) / Double(liveBytes) * 0x1p64)
  }

  func takes(_ header: RecordHeader) -> Bool {
    header.kind.effect == .sets && header.rawLength <= ValueRecoder.longestValueBytes
      && StateDigest.mix(header.sequence) <= limit
  }

  /// Estimates the number of bytes of all values from that of the selected values.
  func total(_ bytes: Int) -> Int { Int(Double(bytes) * 0x1p64 / (Double(limit) + 1)) }
}

/// The dictionary that the values of a compaction's output share.
struct SharedDictionary: Sendable {
  static let none = SharedDictionary(bytes: [], keptFrom: nil)

  let bytes: [UInt8]
  /// The slot of the input that has the same dictionary: its values are copied as they are stored.
  let keptFrom: Int?
}

extension Store {
  /// Returns the dictionary for the values of a compaction's output.
  ///
  /// - Throws: `.corrupted`, `.io` when an input cannot be read.
  func sharedDictionary(
    for inputs: [CompactionInput], _ work: CompactionWork
  ) async throws(StoreError) -> SharedDictionary {
    let thread = work.thread
    let directory = engine!.directoryHandle()
    let mayShare = compactionPolicy.sharesDictionaries || inputs.count == 1
    if mayShare, let input = SharedDictionary.keeper(of: inputs) {
      let bytes = try await thread.run { () throws(StoreError) in
        try CompactionReader.dictionary(of: input, directory)
      }
      return SharedDictionary(bytes: bytes, keptFrom: input.slot)
    }
    let living = inputs.filter { $0.liveBytes > 0 }
    guard compactionPolicy.sharesDictionaries, SharedDictionary.isWorthIt(for: inputs) else {
      return .none
    }
    let maker = DictionaryMaker(
      living, directory, engine!.log.manifest.hashKey, isGlance: work.hasFoundNothing)
    var next = try await thread.run { () throws(StoreError) in try maker.chunk() }
    while let candidates = next {
      try await sleep(work.pacer.pauseOfLimit(afterReading: maker.takeReadBytes()), work)
      let isKept = try engine!.selectLive(candidates[...], cleanedThrough: 0)
      next = try await thread.run { () throws(StoreError) in
        try maker.add(candidates, isKept)
        return try maker.chunk()
      }
    }
    let bytes = try await thread.run { () throws(StoreError) in maker.dictionary() }
    work.hasFoundNothing = bytes == nil
    return bytes.map { SharedDictionary(bytes: $0, keptFrom: nil) } ?? .none
  }
}

extension SharedDictionary {
  /// Returns whether enough of the inputs is live: otherwise all of them are read, and the output
  /// is so small that a later compaction merges it with its neighbours. Values that have a
  /// dictionary may be much longer without one.
  fileprivate static func isWorthIt(for inputs: [CompactionInput]) -> Bool {
    if inputs.contains(where: { $0.liveBytes > 0 && $0.dictionaryLength > 0 }) { return true }
    let bytes = inputs.reduce(0) { $0 + $1.end }
    return inputs.reduce(0) { $0 + $1.liveBytes } > bytes / 16
  }

  /// Returns the input whose dictionary the output keeps: no other input has a dictionary, and most
  /// of the live bytes are those of this input, and are many more than those of the dictionary.
  fileprivate static func keeper(of inputs: [CompactionInput]) -> CompactionInput? {
    let having = inputs.filter { $0.dictionaryLength > 0 }
    guard having.count == 1 else { return nil }
    let isMost = having[0].liveBytes * 2 >= inputs.reduce(0) { $0 + $1.liveBytes }
    return isMost && having[0].dictionaryLength * 4 <= having[0].liveBytes ? having[0] : nil
  }
}

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
    _ values: SegmentValues
  ) throws(StoreError) {
    let header = record.header
    assert(
      copy.codec == header.codec && copy.rawLength == header.rawLength,
      "a copy is compressed a second time")
    guard header.kind.effect == .sets, slot != keptFrom else { return }
    let needsDictionary: Bool
    // The length that another form must not reach.
    let present: Int
    switch header.codec {
    // No length precedes a raw value.
    case .raw: (needsDictionary, present) = (false, header.storedLength - 4)
    case .lz4: (needsDictionary, present) = (false, header.storedLength)
    case .lz4Dictionary: (needsDictionary, present) = (true, Int.max)
    }
    let isShort = header.rawLength <= Self.longestValueBytes
    guard needsDictionary || (isShort && shared != nil) else { return }
    let value = try values.value(of: record, at: offset)
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

/// Decompresses the values of one segment, whose dictionary was verified, and verifies its records
/// again. One thread uses it at a time.
final class SegmentValues {
  private let dictionaryLength: Int
  private let name: String
  private let seed: Checksum
  // Also decompresses values without a dictionary: they refer to no bytes before their own.
  private var decompressor: DictionaryDecompressor

  init(dictionary: [UInt8], name: String, seed: Checksum) {
    dictionaryLength = dictionary.count
    self.name = name
    self.seed = seed
    decompressor = DictionaryDecompressor(dictionary: dictionary)
  }

  /// Returns the value of a record whose checksum was verified. The value is valid until the next
  /// call.
  func value(
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

  /// Verifies the checksum of a record that was read before.
  ///
  /// - Throws: `.corrupted` when the file now contains other bytes.
  func verify(
    _ base: UnsafeRawPointer, length: Int, at offset: Int
  ) throws(StoreError) {
    let checksum = RecordHeader.checksum(of: base, length: length, at: UInt64(offset), seed: seed)
    guard checksum == RecordHeader.storedChecksum(at: base) else { throw changed(at: offset) }
  }

  func changed(at offset: Int) -> StoreError {
    .corrupted("a record changed while it was copied", name, at: offset)
  }
}
