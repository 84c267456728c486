public import MoraineFormat

extension Store {
  /// A put or a delete from the log.
  public struct Change: Sendable {
    /// The keyspace's name; empty for the unnamed one.
    public let keyspace: String
    /// The key, within its keyspace.
    public let key: Key
    /// The value that was stored; nil when the key was removed.
    public let value: [UInt8]?
    /// Sequence number of the put or the delete. The numbers rise, with gaps.
    public let sequence: SequenceNumber
    /// A cursor for ``Store/changes(since:)``, which then returns the changes after this one.
    public let cursor: ChangeCursor

    /// Whether the key was removed.
    public var isRemoval: Bool { value == nil }
  }
}

/// A place in a store's history. A program that saves a cursor has seen everything up to it.
///
/// A cursor is opaque and `Codable`: save it, and continue from it in another run or in another
/// process. When a power failure loses changes that were not durable yet, the store refuses a
/// cursor of such a change with `.cursorDiverged`, even after it has used their sequence numbers
/// again.
public struct ChangeCursor: Hashable, Codable, Sendable {
  let storeID: StoreIdentifier
  let epoch: UInt64
  /// The number of the last unclean stop that the store had recovered from; nil in a cursor of an
  /// earlier version, which did not record it.
  let cut: UInt64?
  /// The last operation that the program has seen.
  public let sequence: SequenceNumber

  init(storeID: StoreIdentifier, epoch: UInt64, cut: UInt64?, sequence: UInt64) {
    self.storeID = storeID
    self.epoch = epoch
    self.cut = cut
    self.sequence = SequenceNumber(rawValue: sequence)
  }

  private enum CodingKeys: String, CodingKey {
    case store, epoch, cut, sequence
  }

  public init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    let text = try container.decode(String.self, forKey: .store)
    guard let storeID = StoreIdentifier(hexadecimal: text) else {
      throw DecodingError.dataCorruptedError(
        forKey: .store, in: container, debugDescription: "not 32 hexadecimal digits")
    }
    self.storeID = storeID
    epoch = try container.decode(UInt64.self, forKey: .epoch)
    cut = try container.decodeIfPresent(UInt64.self, forKey: .cut)
    let rawValue = try container.decode(UInt64.self, forKey: .sequence)
    guard rawValue <= SequenceNumber.max.rawValue else {
      throw DecodingError.dataCorruptedError(
        forKey: .sequence, in: container, debugDescription: "above the largest sequence number")
    }
    sequence = SequenceNumber(rawValue: rawValue)
  }

  public func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: CodingKeys.self)
    try container.encode(storeID.description, forKey: .store)
    try container.encode(epoch, forKey: .epoch)
    try container.encodeIfPresent(cut, forKey: .cut)
    try container.encode(sequence.rawValue, forKey: .sequence)
  }

  /// Whether both cursors name the same place. The number of recoveries is not compared.
  public static func == (left: Self, right: Self) -> Bool {
    left.storeID == right.storeID && left.epoch == right.epoch && left.sequence == right.sequence
  }

  public func hash(into hasher: inout Hasher) {
    hasher.combine(storeID)
    hasher.combine(epoch)
    hasher.combine(sequence)
  }
}
