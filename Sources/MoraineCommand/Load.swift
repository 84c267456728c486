import ArgumentParser
import Foundation
import Moraine

struct Load: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Stores JSON Lines, one model a line; a line's own bytes are the value.",
    discussion: "All of the input is one atomic batch, unless --batch says otherwise.")
  @OptionGroup var store: StoreOptions
  @Argument(help: "The file; - or nothing for standard input.") var file: String?
  @Option(help: "The field that has the key.") var key = "id"
  @Option(help: "Commit after so many lines.") var batch: Int?

  func validate() throws {
    if let batch, batch < 1 { throw ValidationError("--batch takes a number from 1") }
  }

  func run() async throws {
    let input = try contents()
    let opened = try await store.openForWriting()
    var pending: [(Key, [UInt8])] = []
    var loaded = 0
    do {
      for (index, line) in input.split(separator: 10, omittingEmptySubsequences: false).enumerated()
      where !line.allSatisfy({ $0 == 32 || $0 == 9 || $0 == 13 }) {
        pending.append((try keyOf(line, number: index + 1), Array(line)))
        if let batch, pending.count >= batch { try await commit(&pending, opened, &loaded) }
      }
      try await commit(&pending, opened, &loaded)
    } catch {
      try await opened.close()
      throw error
    }
    try await opened.close()
    Output.line("loaded \(loaded) records")
  }

  private func contents() throws -> Data {
    guard let file, file != "-" else { return try FileHandle.standardInput.readToEnd() ?? Data() }
    do {
      return try Data(contentsOf: URL(fileURLWithPath: file))
    } catch {
      throw Failure(code: 2, message: "cannot read \(file): \(error.localizedDescription)")
    }
  }

  private func commit(
    _ pending: inout [(Key, [UInt8])], _ opened: Store, _ loaded: inout Int
  ) async throws {
    guard !pending.isEmpty else { return }
    let models = pending
    try await opened.write { batch in
      for (key, value) in models { try batch.set(value, forKey: key) }
    }
    loaded += models.count
    pending = []
  }

  private func keyOf(_ line: Data, number: Int) throws -> Key {
    let object: Any
    do {
      object = try JSONSerialization.jsonObject(with: line)
    } catch {
      throw Failure(code: 2, message: "line \(number): not JSON: \(error.localizedDescription)")
    }
    guard let members = object as? [String: Any] else {
      throw Failure(code: 2, message: "line \(number): not a JSON object")
    }
    switch members[key] {
    case let text as String: return Key(text)
    case let value as NSNumber: return Key(value.stringValue)
    case nil: throw Failure(code: 2, message: "line \(number): there is no field \"\(key)\"")
    default:
      throw Failure(code: 2, message: "line \(number): \"\(key)\" is neither text nor a number")
    }
  }
}
