/// The dictionary that a compaction's output shares.
struct SharedDictionary: Sendable {
  static let none = SharedDictionary(bytes: [], keptFrom: nil)

  let bytes: [UInt8]
  /// The input that has the same dictionary: what it holds is copied as it is.
  let keptFrom: Int?
}
