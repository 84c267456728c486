/// Operations that will be applied together. Lives only inside ``Store/write(durability:_:)``.
public struct WriteBatch: ~Copyable {
  typealias Operation = (key: Key, value: [UInt8]?)

  private let store: Store
  private var operations: [Operation] = []
  private var latest: [Key: Int] = [:]

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
    append((key, value))
  }

  /// - Returns: whether the key was there.
  @discardableResult
  public mutating func removeValue(forKey key: Key) throws(StoreError) -> Bool {
    guard try contains(key) else { return false }
    append((key, nil))
    return true
  }

  /// The value as this batch leaves it.
  public func value(forKey key: Key) throws(StoreError) -> [UInt8]? {
    if let index = latest[key] { return operations[index].value }
    let answer: Result<[UInt8]?, StoreError> = store.assumeIsolated { store in
      do throws(StoreError) { return .success(try store.value(forKey: key)) } catch {
        return .failure(error)
      }
    }
    return try answer.get()
  }

  public func contains(_ key: Key) throws(StoreError) -> Bool {
    if let index = latest[key] { return operations[index].value != nil }
    let answer: Result<Bool, StoreError> = store.assumeIsolated { store in
      do throws(StoreError) { return .success(try store.contains(key)) } catch {
        return .failure(error)
      }
    }
    return try answer.get()
  }

  private mutating func append(_ operation: Operation) {
    latest[operation.key] = operations.count
    operations.append(operation)
  }

  mutating func takeOperations() -> [Operation] {
    defer { operations = [] }
    return operations
  }
}
