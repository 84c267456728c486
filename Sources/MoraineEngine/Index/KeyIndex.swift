/// An index of live records: it maps the hash of a key to the addresses at which the key's record
/// may be.
///
/// The protocol is what the rest of the engine knows of an index. Slots, buckets, tags and levels
/// stay in this folder. An index stores no keys: the caller reads the record at a candidate's
/// address, and compares its key. It implements the look-ups of the store's own index and those of
/// a snapshot with the same code. (One layout implements it so far, ``HashIndex``, with its frozen
/// copy ``FrozenIndex``; an index in key order is to be the second one.)
protocol KeyIndex: ~Copyable {
  /// An iteration over the entries that may belong to a key.
  associatedtype Candidates

  /// Number of entries.
  var count: Int { get }

  /// Begins an iteration over the entries that may belong to a hash.
  func candidates(_ hash: UInt64) -> Candidates

  /// Returns the next entry of the iteration; nil when there are no more.
  func next(_ candidates: inout Candidates) -> IndexEntry?

  /// Whether the index has an entry for exactly this record of a key with the hash.
  func holds(_ address: Address, _ hash: UInt64) -> Bool

  /// Prefetches the memory that a look-up of the hash reads first.
  func prefetch(_ hash: UInt64)
}
