import MoraineFormat
import MoraineStorage

/// Collects values and makes a dictionary of them. One thread at a time.
///
/// Safety of `@unchecked Sendable`: as ``CompactionReader``.
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

  /// Takes in the values of the last chunk that will be copied.
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

/// Which values of a compaction's inputs are looked at to find what they have in common: as many as
/// make a good dictionary, spread evenly.
struct DictionarySampling: Sendable {
  private static let bytes = (least: 256 << 10, most: 2 << 20)
  /// Enough to see whether there is anything to be found.
  private static let glanceBytes = (least: 32 << 10, most: 512 << 10)

  /// A record is taken when its mixed sequence number is at most this.
  private let limit: UInt64

  /// - Parameter isGlance: whether little is expected to be found.
  init(liveBytes: Int, isGlance: Bool) {
    let bounds = isGlance ? Self.glanceBytes : Self.bytes
    let wanted = min(bounds.most, max(bounds.least, liveBytes / (isGlance ? 64 : 8)))
    limit = liveBytes <= wanted ? .max : UInt64(Double(wanted) / Double(liveBytes) * 0x1p64)
  }

  func takes(_ header: RecordHeader) -> Bool {
    header.kind == .put && header.rawLength <= ValueRecoder.longestValueBytes
      && StateDigest.mix(header.sequence) <= limit
  }

  /// About as many bytes all values have, if those that were taken have so many.
  func total(_ bytes: Int) -> Int { Int(Double(bytes) * 0x1p64 / (Double(limit) + 1)) }
}

/// The dictionary that a compaction's output shares.
struct SharedDictionary: Sendable {
  static let none = SharedDictionary(bytes: [], keptFrom: nil)

  let bytes: [UInt8]
  /// The input that has the same dictionary: what it holds is copied as it is.
  let keptFrom: Int?
}

extension Store {
  /// What the values of a compaction's output are to share.
  ///
  /// - Throws: as reading the inputs does.
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
  /// The input whose dictionary serves the output as well: no other has one, and most of what is
  /// live is its own, and is much more than the dictionary.
  fileprivate static func keeper(of inputs: [CompactionInput]) -> CompactionInput? {
    let having = inputs.filter { $0.dictionaryLength > 0 }
    guard having.count == 1 else { return nil }
    let isMost = having[0].liveBytes * 2 >= inputs.reduce(0) { $0 + $1.liveBytes }
    return isMost && having[0].dictionaryLength * 4 <= having[0].liveBytes ? having[0] : nil
  }
}
