import MoraineEngine

/// Models in their order, with the data to find each of them again.
struct LiveList<Model: Sendable>: Sendable {
  /// The order of the models; nil for the order of their records.
  let order: (@Sendable (Model, Model) -> Bool)?
  private(set) var models: [Model] = []
  /// Sequence number of the record of each element of `models`.
  private var sequences: [UInt64] = []
  private var known: [Key: UInt64] = [:]
  private var failures: [Key: StoreError] = [:]

  /// Largest number of changes that are applied one by one. More changes are applied together, with
  /// one pass over all models.
  private static var fewCount: Int { 16 }

  init(order: (@Sendable (Model, Model) -> Bool)?) { self.order = order }

  /// The error of a model that is missing; nil when none is missing.
  var unreadable: StoreError? {
    failures.min { $0.key.bytes.lexicographicallyPrecedes($1.key.bytes) }?.value
  }

  /// Loads the contents of a keyspace: each key once, in the order of the log.
  mutating func load(_ contents: [LiveChange<Model>]) {
    known.reserveCapacity(contents.count)
    insertAll(contents)
  }

  /// Applies changes in their order.
  mutating func apply(_ changes: [LiveChange<Model>]) {
    if changes.count <= Self.fewCount {
      for change in changes {
        if let old = known.removeValue(forKey: change.key) { remove(old) }
        insert(change)
      }
      return
    }
    // Of several changes to one key only the last counts.
    var seen: Set<Key> = []
    let latest = Array(changes.reversed().filter { seen.insert($0.key).inserted }.reversed())
    let gone = Set(latest.compactMap { known.removeValue(forKey: $0.key) })
    if !gone.isEmpty {
      let kept = sequences.indices.filter { !gone.contains(sequences[$0]) }
      models = kept.map { models[$0] }
      sequences = kept.map { sequences[$0] }
    }
    insertAll(latest)
  }

  private mutating func insertAll(_ changes: [LiveChange<Model>]) {
    for change in changes {
      recordState(of: change)
      guard case .model(let model) = change.content else { continue }
      models.append(model)
      sequences.append(change.sequence)
    }
    guard let order = order ?? orderIfMissing else { return }
    let sorted = zip(models, sequences).sorted { left, right in
      order(left.0, right.0) || (!order(right.0, left.0) && left.1 < right.1)
    }
    models = sorted.map(\.0)
    sequences = sorted.map(\.1)
  }

  /// The order to sort by when `order` is nil; nil when the models are already in the order of
  /// their sequence numbers. They are not in that order while compaction moves some records.
  private var orderIfMissing: ((Model, Model) -> Bool)? {
    zip(sequences, sequences.dropFirst()).contains(where: >) ? { _, _ in false } : nil
  }

  private mutating func insert(_ change: LiveChange<Model>) {
    recordState(of: change)
    guard case .model(let model) = change.content else { return }
    // Among models that are equal in the order, the newest comes last.
    var (low, high) = (order == nil ? models.count : 0, models.count)
    while let order, low < high {
      let middle = (low + high) / 2
      if order(model, models[middle]) { high = middle } else { low = middle + 1 }
    }
    models.insert(model, at: low)
    sequences.insert(change.sequence, at: low)
  }

  private mutating func remove(_ sequence: UInt64) {
    var found: Int?
    if order == nil {
      var (low, high) = (0, sequences.count)
      while low < high {
        let middle = (low + high) / 2
        if sequences[middle] < sequence { low = middle + 1 } else { high = middle }
      }
      found = low < sequences.count && sequences[low] == sequence ? low : nil
    } else {
      found = sequences.firstIndex(of: sequence)
    }
    guard let found else { return }
    models.remove(at: found)
    sequences.remove(at: found)
  }

  private mutating func recordState(of change: LiveChange<Model>) {
    failures[change.key] = nil
    switch change.content {
    case .model: known[change.key] = change.sequence
    case .nothing: break
    case .unreadable(let error): failures[change.key] = error
    }
  }
}
