import MoraineEngine

extension CrashScenario {
  /// All scenarios of the laboratory, each with mapped and with positional writes.
  public static let catalog: [CrashScenario] =
    [Store.Configuration.IOMode.mapped, .positional].flatMap { mode in
      stories.map { story in
        var scenario = story
        scenario.name += mode == .mapped ? "-mapped" : "-positional"
        scenario.configuration.ioMode = mode
        return scenario
      }
    }

  /// Returns the scenario of a name in ``catalog``, or nil.
  public static func named(_ name: String) -> CrashScenario? { catalog.first { $0.name == name } }

  private static let stories: [CrashScenario] =
    basics + durabilities + rotations + spares + compactions + keyspaces + orders + checkpoints
    + lives + limits + sharing + snapshots

  static func story(
    _ name: String, _ summary: String, segmentSizeBytes: Int = 20_000,
    _ change: (inout Store.Configuration, inout WorkloadShape) -> Void = { _, _ in }
  ) -> CrashScenario {
    var configuration = Store.Configuration()
    configuration.segmentSizeBytes = segmentSizeBytes
    configuration.durability = .none
    configuration.compaction = .manual
    var shape = WorkloadShape()
    change(&configuration, &shape)
    return CrashScenario(name, summary, configuration: configuration, shape: shape)
  }
}

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

  static let orders = [
    story("ordered", "all keys are in trees", segmentSizeBytes: 600) { configuration, shape in
      configuration.ordersKeyspaces = true
      shape.keyCount = 40
      shape.weights = [.put: 6, .delete: 2, .batch: 2, .kill: 1]
    },
    story("ordered-compaction", "trees, checkpoints and compactions", segmentSizeBytes: 300) {
      configuration, shape in
      configuration.ordersKeyspaces = true
      configuration.checkpointFloorBytes = 0
      shape.keyspaceCount = 3
      shape.keyCount = 20
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

extension CrashScenario {
  static let basics = [
    story("puts", "puts alone") { $1.weights = [.put: 1] },
    story("mixed", "puts, deletes and batches"),
    story("one-key", "one key, written over and over") { $1.keyCount = 1 },
    story("batches", "atomic batches alone") { $1.weights = [.batch: 1] },
    story("deletes", "as many deletes as puts") { $1.weights = [.put: 1, .delete: 1] },
    story("long-values", "values over several pages") {
      $1.valueLengthBytes = 1000...6000
      $1.stepCount = 8
    },
    story("text", "values that compress") {
      $1.isText = true
      $1.valueLengthBytes = 100...400
    },
  ]

  static let durabilities = [
    story("sync", "every write is durable before it returns") { configuration, shape in
      configuration.durability = .sync
      shape.durableTenths = 10
    },
    story("interval", "synced in the background, a millisecond at risk") {
      configuration, shape in
      configuration.durability = .interval(.milliseconds(1))
      shape.durableTenths = 0
    },
    story("never-synced", "nothing is durable before a segment is sealed") {
      $1.durableTenths = 0
    },
    story("sync-calls", "durable by calls to sync alone") {
      $1.durableTenths = 0
      $1.weights = [.put: 3, .batch: 1, .sync: 2]
    },
  ]

  static let rotations = [
    story("rotation", "a new segment every few records", segmentSizeBytes: 300),
    story("rotation-sync", "the same, all durable", segmentSizeBytes: 300) {
      configuration, shape in
      configuration.durability = .sync
      shape.durableTenths = 10
    },
    story("rotation-batches", "batches that are as long as segments", segmentSizeBytes: 256) {
      $1.weights = [.batch: 3, .put: 1]
    },
    overlapping(
      story(
        "rotation-overlapping", "segments sealed while others are written", segmentSizeBytes: 300)
    ),
    overlapping(
      story("writers", "several tasks share syncs", segmentSizeBytes: 900) {
        $1.weights = [.concurrently: 2, .put: 1]
      }),
  ]

  /// Rotations, lives and full disks again, with segments that are created ahead of need.
  static let spares = (rotations + lives + limits).map { story in
    var scenario = story
    scenario.name = "spare-" + story.name
    scenario.summary += ", the next segment created ahead"
    scenario.configuration.spareFloorBytes = 0
    return scenario
  }

  /// Returns a scenario whose background work runs while the next steps run, on a slow disk.
  static func overlapping(_ scenario: CrashScenario) -> CrashScenario {
    var scenario = scenario
    scenario.isSerial = false
    scenario.latency = SimulatedLatency(microseconds: 40)
    return scenario
  }
}
