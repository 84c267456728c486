import MoraineEngine

extension CrashScenario {
  static let compactions = [
    story("compaction", "the whole log is rewritten now and then", segmentSizeBytes: 400) {
      $1.weights = [.put: 6, .delete: 3, .batch: 1, .compact: 2]
    },
    story("compaction-parts", "neighbours are rewritten now and then", segmentSizeBytes: 300) {
      $1.weights = [.put: 6, .delete: 3, .batch: 1, .compactSegments: 3]
    },
    story(
      "compaction-unsynced", "rewritten before what overwrote it is durable", segmentSizeBytes: 450
    ) {
      $1.keyCount = 3
      $1.valueLengthBytes = 10...30
      $1.durableTenths = 0
      $1.weights = [.put: 5, .compactSegments: 5]
    },
    story("compaction-deletes", "everything is deleted and rewritten", segmentSizeBytes: 300) {
      $1.keyCount = 3
      $1.weights = [.put: 2, .delete: 3, .compact: 1, .compactSegments: 1]
    },
    story("compaction-dictionaries", "values share a dictionary", segmentSizeBytes: 4000) {
      $1.isText = true
      $1.stepCount = 40
      $1.keyCount = 40
      $1.valueLengthBytes = 60...160
      $1.weights = [.put: 12, .delete: 1, .compact: 1]
    },
    story("compaction-automatic", "rewritten in the background", segmentSizeBytes: 300) {
      configuration, shape in
      configuration.compaction = CompactionPolicy()
      shape.keyCount = 4
      shape.stepCount = 24
    },
    overlapping(
      story("compaction-overlapping", "rewritten beside the writing", segmentSizeBytes: 300) {
        configuration, shape in
        configuration.compaction = CompactionPolicy()
        shape.keyCount = 4
        shape.stepCount = 24
      }),
  ]

  static let keyspaces = [
    story("keyspaces", "several keyspaces come into being", segmentSizeBytes: 600) {
      $1.keyspaceCount = 4
      $1.keyCount = 12
    },
    story("keyspaces-compaction", "one log of several keyspaces", segmentSizeBytes: 300) {
      configuration, shape in
      configuration.checkpointFloorBytes = 0
      shape.keyspaceCount = 3
      shape.weights = [
        .put: 6, .delete: 3, .batch: 2, .compactSegments: 3, .compact: 1, .reopen: 1, .kill: 1,
      ]
    },
  ]

  static let checkpoints = [
    story("checkpoint", "an index checkpoint at every close", segmentSizeBytes: 400) {
      configuration, shape in
      configuration.checkpointFloorBytes = 0
      shape.weights = [.put: 6, .delete: 2, .batch: 1, .reopen: 2]
    },
    story("checkpoint-kills", "checkpoints that are older than the log", segmentSizeBytes: 400) {
      configuration, shape in
      configuration.checkpointFloorBytes = 0
      shape.weights = [.put: 6, .delete: 2, .compact: 1, .reopen: 1, .kill: 2]
    },
    story("checkpoint-compaction", "checkpoints older than compactions", segmentSizeBytes: 300) {
      configuration, shape in
      configuration.checkpointFloorBytes = 0
      shape.weights = [.put: 6, .delete: 3, .compactSegments: 3, .reopen: 1, .kill: 1]
    },
  ]

  static let lives = [
    story("lives", "closed and opened again and again", segmentSizeBytes: 600) {
      $1.weights = [.put: 4, .delete: 1, .batch: 1, .reopen: 2]
    },
    story("kills", "killed and opened again and again", segmentSizeBytes: 600) {
      $1.weights = [.put: 4, .delete: 1, .batch: 1, .kill: 2]
    },
    story("kills-unsynced", "killed while nothing is durable", segmentSizeBytes: 600) {
      $1.durableTenths = 0
      $1.weights = [.put: 4, .delete: 1, .batch: 1, .kill: 2]
    },
    story("everything", "all that a program can do", segmentSizeBytes: 500) {
      configuration, shape in
      configuration.checkpointFloorBytes = 0
      shape.stepCount = 24
      shape.weights = [
        .put: 8, .delete: 3, .batch: 3, .sync: 1, .compact: 1, .compactSegments: 2, .verify: 1,
        .reopen: 1, .kill: 2,
      ]
    },
  ]

  static let snapshots = [
    story("snapshots", "moments kept while the log is rewritten", segmentSizeBytes: 300) {
      configuration, shape in
      configuration.checkpointFloorBytes = 0
      shape.keyspaceCount = 2
      shape.stepCount = 20
      shape.weights = [
        .put: 6, .delete: 3, .batch: 1, .compactSegments: 2, .compact: 1, .snapshot: 4,
        .reopen: 1, .kill: 1,
      ]
    }
  ]

  static let limits = [
    small(
      story("full-disk", "a disk that is too small", segmentSizeBytes: 3000) {
        $1.valueLengthBytes = 500...2500
        $1.stepCount = 40
        $1.weights = [.put: 6, .delete: 2, .batch: 1, .compact: 1, .reopen: 1]
      })
  ]

  private static func small(_ scenario: CrashScenario) -> CrashScenario {
    var scenario = scenario
    scenario.capacityBytes = 160 << 10
    return scenario
  }
}
