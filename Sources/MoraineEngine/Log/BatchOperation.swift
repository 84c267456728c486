/// One operation of a batch.
struct BatchOperation {
  var place: Place
  /// Nil is a delete.
  var value: [UInt8]?

  /// What an operation is about.
  struct Place: Hashable {
    /// Its number in the store; before the batch is committed, in the batch.
    var keyspace: UInt16
    var key: Key
  }

  var key: Key { place.key }
  var keyspace: UInt16 { place.keyspace }
}

/// What a batch must know of a record that it replaces.
struct ReplacedRecord {
  let address: Address
  let length: Int
  let sequence: UInt64

  init(_ found: Found) {
    address = found.address
    length = found.record.header.length
    sequence = found.record.header.sequence
  }
}

extension ArraySlice {
  /// The first place from which on the condition holds; it holds for none before.
  func partitioningIndex(where belongs: (Element) -> Bool) -> Int {
    var (low, high) = (startIndex, endIndex)
    while low < high {
      let middle = low + (high - low) / 2
      if belongs(self[middle]) { high = middle } else { low = middle + 1 }
    }
    return low
  }
}
