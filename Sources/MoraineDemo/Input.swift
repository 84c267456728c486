import Foundation
import MoraineEngine
import Subprocess
import SystemPackage

/// A record of real data: its key and its bytes.
struct Record: Sendable {
  let key: Key
  let value: [UInt8]
}

/// The real data that the demonstration stores.
enum Input {
  /// Returns the records of Debian's package index if the machine has one, otherwise the records of
  /// the file in the repository.
  static func records(fallback: String) async throws -> (records: [Record], source: String) {
    if let text = try await packageIndex() {
      let records = parse(text)
      if records.count > 1000 { return (records, "Debian's package index (apt-cache dumpavail)") }
    }
    let data = [UInt8](try Data(contentsOf: URL(fileURLWithPath: fallback)))
    let records = data.split(separator: 10).enumerated().map { index, line in
      Record(key: Key("character \(index)"), value: Array(line))
    }
    return (records, "Unicode characters (\(fallback))")
  }

  private static func packageIndex() async throws -> [UInt8]? {
    guard FileManager.default.isExecutableFile(atPath: "/usr/bin/apt-cache") else { return nil }
    let result = try await run(
      .path("/usr/bin/apt-cache"), arguments: ["dumpavail"], input: .none,
      output: .bytes(limit: 512 << 20), error: .discarded)
    return result.standardOutput
  }

  /// Returns a record for each stanza. An empty line ends a stanza.
  private static func parse(_ text: [UInt8]) -> [Record] {
    var records: [Record] = []
    var start = 0
    var position = 0
    while position < text.count {
      if text[position] == 10, position + 1 == text.count || text[position + 1] == 10 {
        append(Array(text[start..<position]), to: &records)
        position += 1
        start = position + 1
      }
      position += 1
    }
    return records
  }

  private static func append(_ stanza: [UInt8], to records: inout [Record]) {
    guard !stanza.isEmpty else { return }
    let name = stanza.prefix { $0 != 10 }
    records.append(Record(key: Key(Array("\(records.count) ".utf8) + name), value: stanza))
  }
}
