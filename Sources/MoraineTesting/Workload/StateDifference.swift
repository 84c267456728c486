import MoraineEngine

/// A description, in words, of how two states differ.
struct StateDifference: CustomStringConvertible {
  let description: String

  init(_ found: ModelStore.State, _ expected: ModelStore.State) {
    let keys = Set(found.keys).union(expected.keys).sorted { $0.description < $1.description }
    let parts = keys.compactMap { key -> String? in
      switch (found[key], expected[key]) {
      case (let found?, let expected?):
        found == expected
          ? nil : "another value for \(key) (\(found.count) bytes, not \(expected.count))"
      case (nil, _?): "no \(key)"
      case (_?, nil): "\(key), which must not be there"
      case (nil, nil): nil
      }
    }
    description = parts.isEmpty ? "the same" : parts.prefix(5).joined(separator: ", ")
  }
}
