import Foundation
import Subprocess
import SystemPackage

/// Real records: Debian's package index, each stanza a JSON object.
struct PackageRecords: Sendable {
  let documents: [[UInt8]]

  var bytes: Int { documents.reduce(0) { $0 + $1.count } }

  /// - Returns: nil where there is no such index.
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

  /// Lines that begin with a blank go on with the field before them.
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
