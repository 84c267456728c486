import Moraine

/// The table of keyspaces that `stats` prints.
enum KeyspaceList {
  static func json(_ keyspaces: [KeyspaceStatistics]) -> String {
    let objects: [JSONObject] = keyspaces.map { keyspace in
      [
        "name": keyspace.name, "isOrdered": keyspace.isOrdered, "count": keyspace.count,
        "liveBytes": keyspace.liveBytes,
      ]
    }
    return objects.json
  }

  static func text(_ keyspaces: [KeyspaceStatistics]) -> String {
    var lines = ["      keys        live  index    keyspace"]
    for keyspace in keyspaces {
      var name: [UInt8] = []
      Text.appendPrintable(Array(keyspace.name.utf8), to: &name)
      let count = Units.number(UInt64(keyspace.count))
      let bytes = Units.bytes(keyspace.liveBytes)
      lines.append(
        padded(count, 10) + padded(bytes, 12) + (keyspace.isOrdered ? "  ordered  " : "  hashed   ")
          + (keyspace.name.isEmpty ? "(unnamed)" : String(decoding: name, as: UTF8.self)))
    }
    return lines.joined(separator: "\n")
  }

  private static func padded(_ text: String, _ width: Int) -> String {
    String(repeating: " ", count: max(0, width - text.count)) + text
  }
}
