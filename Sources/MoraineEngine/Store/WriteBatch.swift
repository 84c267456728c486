/// Operations that will be applied together. Lives only inside ``Store/write(durability:_:)``.
public struct WriteBatch: ~Copyable {
  private let store: Store
  private var operations: [BatchOperation] = []
  /// Where each key's last operation is, as far as a read has needed to know.
  private var latest: [Key: Int] = [:]
  private var indexedCount = 0

  init(store: Store) {
    self.store = store
  }

  public var count: Int { operations.count }

  /// - Throws: `.keyTooLarge`, `.valueTooLarge`.
  public mutating func set(_ value: [UInt8], forKey key: Key) throws(StoreError) {
    try key.bytes.withBytes { (keyBytes) throws(StoreError) in
      try value.withBytes { (bytes) throws(StoreError) in
        try EngineState.checkLimits(keyBytes, bytes)
      }
    }
    operations.append((key, value))
  }

  /// - Returns: whether the key was there.
  @discardableResult
  public mutating func removeValue(forKey key: Key) throws(StoreError) -> Bool {
    guard try contains(key) else { return false }
    operations.append((key, nil))
    return true
  }

  /// The value as this batch leaves it.
  public mutating func value(forKey key: Key) throws(StoreError) -> [UInt8]? {
    if let index = lastOperation(on: key) { return operations[index].value }
    let answer: Result<[UInt8]?, StoreError> = store.assumeIsolated { store in
      do throws(StoreError) { return .success(try store.value(forKey: key)) } catch {
        return .failure(error)
      }
    }
    return try answer.get()
  }

  /// Whether the key is there as this batch leaves it.
  public mutating func contains(_ key: Key) throws(StoreError) -> Bool {
    if let index = lastOperation(on: key) { return operations[index].value != nil }
    let answer: Result<Bool, StoreError> = store.assumeIsolated { store in
      do throws(StoreError) { return .success(try store.contains(key)) } catch {
        return .failure(error)
      }
    }
    return try answer.get()
  }

  private mutating func lastOperation(on key: Key) -> Int? {
    while indexedCount < operations.count {
      latest[operations[indexedCount].key] = indexedCount
      indexedCount += 1
    }
    return latest[key]
  }

  consuming func takeOperations() -> [BatchOperation] { operations }
}
