import Foundation
import Subprocess
import SystemPackage

/// Real records: each stanza of Debian's package index as a JSON object.
struct PackageRecords: Sendable {
  let documents: [[UInt8]]

  var bytes: Int { documents.reduce(0) { $0 + $1.count } }

  /// - Returns: nil where the system has no such index.
  init?(limit: Int) async throws {
    guard FileManager.default.isExecutableFile(atPath: "/usr/bin/apt-cache") else { return nil }
    let result = try await Subprocess.run(
      .path("/usr/bin/apt-cache"), arguments: ["dumpavail"], input: .none,
      output: .string(limit: 512 << 20), error: .discarded)
    var documents: [[UInt8]] = []
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    for stanza in result.standardOutput.split(separator: "\n\n").prefix(limit) {
      let fields = Self.fields(stanza)
      documents.append([UInt8](try encoder.encode(fields)))
    }
    guard documents.count >= 1000 else { return nil }
    self.documents = documents
  }

  /// Returns the fields of a stanza. A line that begins with a blank continues the field before it.
  private static func fields(_ stanza: Substring) -> [String: String] {
    var fields: [String: String] = [:]
    var last: String?
    for line in stanza.split(separator: "\n") {
      if line.first == " ", let last {
        fields[last, default: ""] += "\n" + line
      } else if let colon = line.firstIndex(of: ":") {
        let name = String(line[..<colon])
        fields[name] = line[line.index(after: colon)...].trimmingCharacters(in: .whitespaces)
        last = name
      }
    }
    return fields
  }
}
