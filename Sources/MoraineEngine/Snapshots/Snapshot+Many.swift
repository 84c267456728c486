import MoraineFormat
import MoraineStorage

extension Snapshot {
  /// The values of many keys, in the order of the keys: nil where a key was not there.
  ///
  /// Faster than one by one: what the keys need is fetched from memory for a group of them at a
  /// time.
  ///
  /// - Throws: as ``value(forKey:)``, for the first key that cannot be read.
  /// - Complexity: O(keys + values).
  public func values(forKeys keys: [Key]) throws(StoreError) -> [[UInt8]?] {
    guard let state, let number else { return Array(repeating: nil, count: keys.count) }
    return try state.reading { () throws(StoreError) in
      var result: [[UInt8]?] = []
      result.reserveCapacity(keys.count)
      var hashes: [UInt64] = []
      for start in stride(from: 0, to: keys.count, by: Self.groupCount) {
        let group = keys[start..<min(start + Self.groupCount, keys.count)]
        state.fetch(group, number, &hashes)
        for (key, hash) in zip(group, hashes) {
          result.append(
            try key.bytes.withBytes { (bytes) throws(StoreError) in
              try state.value(bytes, number, hash: hash)
            })
        }
      }
      return result
    }
  }

  /// As many loads as a core has under way, about.
  private static let groupCount = 16
}

extension SnapshotState {
  /// Hashes keys, and fetches their buckets and then the records that these name.
  fileprivate func fetch(_ keys: ArraySlice<Key>, _ keyspace: UInt16, _ hashes: inout [UInt64]) {
    hashes.removeAll(keepingCapacity: true)
    for key in keys {
      let hash = key.bytes.withBytes { segments.hash($0, keyspace) }
      index.prefetch(hash)
      hashes.append(hash)
    }
    for hash in hashes {
      var probe = index.probe(hash)
      guard let slot = probe.next(index) else { continue }
      let address = Address(rawValue: slot.pointee & Address.mask)
      guard address.slot < segments.count, let base = segments.views[address.slot].base else {
        continue
      }
      Machine.prefetch(base + address.offset)
    }
  }
}
