import MoraineStorage

/// What is asked of an index, live or of a snapshot: which entries a hash may be at.
protocol ProbedIndex: ~Copyable {
  var level: Int { get }
  var split: Int { get }
  var tagShift: Int { get }
  func bucket(_ number: Int) -> UnsafeMutablePointer<UInt64>
  func overflowBucket(_ number: Int) -> UnsafeMutablePointer<UInt64>
}

extension ProbedIndex where Self: ~Copyable {
  /// True when this round renews the tags of the buckets it splits.
  @inline(__always)
  var renewsTags: Bool { level &- tagShift == HashIndex.levelsPerTag }

  /// The bucket a hash belongs to, and the tag it has there.
  @inline(__always)
  func place(_ hash: UInt64) -> (bucket: Int, tag: UInt64) {
    let low = Int(truncatingIfNeeded: hash & ((1 &<< UInt64(level)) &- 1))
    guard low < split else { return (low, (hash &>> UInt64(tagShift)) & 0xFFFF) }
    let bucket = Int(truncatingIfNeeded: hash & ((1 &<< UInt64(level &+ 1)) &- 1))
    let shift = renewsTags ? tagShift &+ HashIndex.levelsPerTag : tagShift
    return (bucket, (hash &>> UInt64(shift)) & 0xFFFF)
  }

  /// Begins to go through the entries that a hash may be at.
  ///
  /// - Complexity: one cache line, two for about a fifth of the keys.
  @inline(__always)
  func probe(_ hash: UInt64) -> Probe {
    let (number, tag) = place(hash)
    return Probe(bucket: bucket(number), tag: tag)
  }

  /// Whether there is an entry for just this record of a key with the hash.
  @inline(__always)
  func holds(_ address: Address, _ hash: UInt64) -> Bool {
    var probe = probe(hash)
    while let slot = probe.next(self) {
      if slot.pointee & Address.mask == address.rawValue { return true }
    }
    return false
  }

  /// Fetches a hash's bucket ahead of use.
  @inline(__always)
  func prefetch(_ hash: UInt64) { Machine.prefetch(bucket(place(hash).bucket)) }
}
