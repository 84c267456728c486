/// One operation of a batch. Its bytes lie with those of the others, so that going over a batch
/// counts no references.
struct BatchOperation {
  /// Its number in the store; before the batch is committed, in the batch.
  var keyspace: UInt16
  let isDelete: Bool
  /// Where the key begins; a short value comes right behind it.
  let offset: Int
  let keyLength: Int
  let valueLength: Int
  /// Which of the long values it has, if it has one.
  let longValue: Int?
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
