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
