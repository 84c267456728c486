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
    reader = CompactionReader(inputs, directory, hashKey, sampling: sampling)
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
    guard compactionPolicy.sharesDictionaries else { return .none }
    let maker = DictionaryMaker(
      inputs, directory, engine!.log.manifest.hashKey, isGlance: work.hasFoundNothing)
    while let candidates = try await thread.run({ () throws(StoreError) in try maker.chunk() }) {
      try await sleep(work.pacer.pauseOfLimit(afterReading: maker.takeReadBytes()), work)
      let isKept = try engine!.selectLive(candidates, cleanedThrough: 0)
      try await thread.run { () throws(StoreError) in try maker.add(candidates, isKept) }
    }
    let bytes = try await thread.run { () throws(StoreError) in maker.dictionary() }
    work.hasFoundNothing = bytes == nil
    return bytes.map { SharedDictionary(bytes: $0, keptFrom: nil) } ?? .none
  }
}

extension SharedDictionary {
  /// Returns the input whose dictionary the output keeps: no other input has a dictionary, and most
  /// of the live bytes are those of this input, and are many more than those of the dictionary.
  fileprivate static func keeper(of inputs: [CompactionInput]) -> CompactionInput? {
    let having = inputs.filter { $0.dictionaryLength > 0 }
    guard having.count == 1 else { return nil }
    let isMost = having[0].liveBytes * 2 >= inputs.reduce(0) { $0 + $1.liveBytes }
    return isMost && having[0].dictionaryLength * 4 <= having[0].liveBytes ? having[0] : nil
  }
}
