import MoraineEngine

extension CrashScenario {
  /// Scenarios of a store that other processes could open too: it ends each segment immediately,
  /// while it holds the lock.
  static let sharing = [
    story("shared", "beside others, who are not there", segmentSizeBytes: 600) {
      configuration, shape in
      configuration.sharing = .shared
      shape.weights = [.put: 6, .delete: 2, .batch: 2, .sync: 1, .reopen: 1, .kill: 1]
    },
    story("shared-keyspaces", "keyspaces of a shared store", segmentSizeBytes: 600) {
      configuration, shape in
      configuration.sharing = .shared
      shape.keyspaceCount = 3
      shape.keyCount = 12
    },
    story("shared-compaction", "a shared store is rewritten", segmentSizeBytes: 300) {
      configuration, shape in
      configuration.sharing = .shared
      configuration.checkpointFloorBytes = 0
      shape.weights = [
        .put: 6, .delete: 3, .batch: 1, .compactSegments: 3, .compact: 1, .reopen: 1, .kill: 1,
      ]
    },
  ]
}
