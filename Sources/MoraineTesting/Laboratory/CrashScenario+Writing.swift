import MoraineEngine

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

  /// Returns a scenario whose background work runs while the next steps run, on a slow disk.
  static func overlapping(_ scenario: CrashScenario) -> CrashScenario {
    var scenario = scenario
    scenario.isSerial = false
    scenario.latency = SimulatedLatency(microseconds: 40)
    return scenario
  }
}
