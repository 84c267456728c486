import Moraine

extension SalvageText: JSONRepresentable {
  var json: String {
    let object: JSONObject = [
      "isComplete": report.isComplete, "count": report.count, "recordCount": report.recordCount,
      "segmentCount": report.segmentCount, "readBytes": report.readBytes,
      "losses": report.losses.map { member($0) }, "torn": report.torn.map { member($0) },
      "segmentsWithoutHeader": report.segmentsWithoutHeader, "ignoredFiles": report.ignoredFiles,
      "unlistedSegments": unlistedObjects,
      "elapsedMilliseconds": report.elapsedNanoseconds / 1_000_000,
    ]
    return object.json
  }

  /// The records that a salvage would bring back, and its losses. Whether a lost key would have
  /// another value is known only after a salvage.
  var previewObject: JSONObject {
    [
      "recordCount": report.recordCount, "unlistedSegments": unlistedObjects,
      "losses": report.losses.map { member($0, isPreview: true) },
    ]
  }

  private var unlistedObjects: [JSONObject] {
    report.unlistedSegments.map {
      [
        "file": $0.file, "recordCount": $0.recordCount, "firstSequence": $0.firstSequence,
        "lastSequence": $0.lastSequence,
      ]
    }
  }

  private func member(_ loss: SalvageLoss, isPreview: Bool = false) -> JSONObject {
    [
      "kind": loss.kind.rawValue, "file": loss.file, "offset": loss.offset,
      "lengthBytes": loss.lengthBytes, "reason": loss.reason, "recordCount": loss.recordCount,
      "after": loss.after, "before": loss.before, "breaksBatch": loss.breaksBatch,
      "keys": loss.keys.map { member($0, isPreview: isPreview) },
    ]
  }

  private func member(_ key: SalvagedKey, isPreview: Bool) -> JSONObject {
    var object: JSONObject = ["keyspace": key.keyspace]
    object.add("key", bytes: Array(key.key.bytes))
    object.add("sequence", key.sequence)
    object.add("isProven", key.isProven)
    if !isPreview { object.add("hasValue", key.hasValue) }
    return object
  }
}
