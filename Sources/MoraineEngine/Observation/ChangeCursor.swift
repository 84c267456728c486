public import MoraineFormat

/// A place in a store's history: everything up to it has been seen.
///
/// Opaque and `Codable`: save it, and go on from it in another run or another process. It is worth
/// as much as the change it came with: when a power failure takes changes that were not durable
/// yet, it names a place that is no more, and the numbers behind it may be given again. Save it
/// after ``Store/sync()``, or with a store that it belongs to.
public struct ChangeCursor: Hashable, Codable, Sendable {
  let storeID: Identifier
  let epoch: UInt64
  /// The last operation that has been seen.
  public let sequence: SequenceNumber

  init(storeID: Identifier, epoch: UInt64, sequence: UInt64) {
    self.storeID = storeID
    self.epoch = epoch
    self.sequence = SequenceNumber(rawValue: sequence)
  }

  private enum CodingKeys: String, CodingKey {
    case store, epoch, sequence
  }

  public init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    let text = try container.decode(String.self, forKey: .store)
    guard let storeID = Identifier(hexadecimal: text) else {
      throw DecodingError.dataCorruptedError(
        forKey: .store, in: container, debugDescription: "not 32 hexadecimal digits")
    }
    self.storeID = storeID
    epoch = try container.decode(UInt64.self, forKey: .epoch)
    let rawValue = try container.decode(UInt64.self, forKey: .sequence)
    guard rawValue <= SequenceNumber.max.rawValue else {
      throw DecodingError.dataCorruptedError(
        forKey: .sequence, in: container, debugDescription: "beyond the last sequence number")
    }
    sequence = SequenceNumber(rawValue: rawValue)
  }

  public func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: CodingKeys.self)
    try container.encode(storeID.description, forKey: .store)
    try container.encode(epoch, forKey: .epoch)
    try container.encode(sequence.rawValue, forKey: .sequence)
  }
}
