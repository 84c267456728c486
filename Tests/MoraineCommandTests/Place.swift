import Foundation
import Subprocess
import SystemPackage
import Testing

/// A folder of its own for one test, removed at the end.
final class Place {
  let folder: URL
  var store: String { folder.appendingPathComponent("store").path }

  init() throws {
    folder = FileManager.default.temporaryDirectory
      .appendingPathComponent("moraine-command-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
  }

  deinit {
    do { try FileManager.default.removeItem(at: folder) } catch { print("not removed: \(error)") }
  }

  func file(_ name: String, _ bytes: some Sequence<UInt8>) throws -> String {
    let url = folder.appendingPathComponent(name)
    try Data(bytes).write(to: url)
    return url.path
  }

  /// Runs commands of `drive`, and expects no error.
  @discardableResult
  func drive(_ commands: String...) async throws -> Outcome {
    let input = commands.joined(separator: "\n") + "\n"
    let outcome = try await Moraine.run("drive", store, "--durability", "none", input: input)
    #expect(outcome.code == 0 && !outcome.text.contains("err"), "\(outcome)")
    return outcome
  }

  var segments: [URL] {
    get throws {
      try FileManager.default.contentsOfDirectory(
        at: URL(fileURLWithPath: store), includingPropertiesForKeys: nil
      ).filter { $0.pathExtension == "segment" }.sorted { $0.path < $1.path }
    }
  }

  /// Changes one byte in the middle of the first segment.
  func damage() throws -> (file: String, length: Int) {
    let url = try #require(try segments.first)
    var bytes = try Data(contentsOf: url)
    bytes[bytes.count / 2] ^= 0x40
    try bytes.write(to: url)
    return (url.lastPathComponent, bytes.count)
  }

  /// Makes a store without an index checkpoint, and damages its records at the bytes 152 and 200.
  /// Returns the segment's file.
  func makeTwoDamagedRecords() async throws -> URL {
    try await drive("put 6b 76", "put 6c 77", "put 6d 78", "put 6e 79")
    let url = try #require(try segments.first)
    var bytes = try Data(contentsOf: url)
    for record in [152, 200] { bytes[record + 20] ^= 1 }
    try bytes.write(to: url)
    return url
  }

  /// Makes a store with two keys and an index checkpoint. Returns the checkpoint's file.
  func makeCheckpoint() async throws -> URL {
    let made = try await Moraine.run(
      "drive", store, "--checkpoint-floor", "0", input: "put 6b 76\nput 6c 77\nclose\n")
    #expect(made.code == 0, "\(made)")
    let names = try FileManager.default.contentsOfDirectory(atPath: store)
    let name = try #require(names.first { $0.hasSuffix(".index") }, "\(names)")
    return URL(fileURLWithPath: "\(store)/\(name)")
  }

  /// Makes a store with two keys and a damaged index checkpoint.
  func makeDamagedCheckpoint(_ damage: CheckpointDamage) async throws {
    let url = try await makeCheckpoint()
    var bytes = try Data(contentsOf: url)
    switch damage {
    case .header: bytes[40] ^= 1
    // The last byte is in a page, which no opening reads before it is needed.
    case .page: bytes[bytes.count - 1] ^= 1
    case .length: bytes.removeLast()
    }
    try bytes.write(to: url)
  }

  /// Makes a store with so many keys that no opening reads all pages of its index checkpoint, and
  /// damages a page that an opening does not read.
  func makeLargeDamagedCheckpoint(keyCount: Int) async throws {
    let lines = (0..<keyCount).map { "put \(String(0x1000_0000 + $0, radix: 16)) 76\n" }
    let made = try await Moraine.run(
      "drive", store, "--durability", "none", "--checkpoint-floor", "0",
      input: lines.joined() + "close\n")
    #expect(made.code == 0, "\(made.errors)")
    let names = try FileManager.default.contentsOfDirectory(atPath: store)
    let name = try #require(names.first { $0.hasSuffix(".index") }, "\(names)")
    let url = URL(fileURLWithPath: "\(store)/\(name)")
    var bytes = try Data(contentsOf: url)
    bytes[1 << 20] ^= 1
    try bytes.write(to: url)
  }

  /// Returns every file's name, bytes and time of change.
  func picture() throws -> [String] {
    let names = try FileManager.default.contentsOfDirectory(atPath: store).sorted()
    return try names.map { name in
      let path = "\(store)/\(name)"
      let bytes = try Data(contentsOf: URL(fileURLWithPath: path))
      let changed = try FileManager.default.attributesOfItem(atPath: path)[.modificationDate]
      return "\(name) \(changed as? Date ?? .distantPast) \(bytes.base64EncodedString())"
    }
  }

  /// Lets the body talk to a `drive` of the store: the body writes lines and awaits their answers.
  /// Another command may take the place of `drive`.
  func talk<Result: Sendable>(
    _ options: String..., command: String = "drive", body: (Talk) async throws -> Result
  ) async throws -> (result: Result, status: TerminationStatus) {
    let outcome = try await Subprocess.run(
      .path(FilePath(Moraine.path)), arguments: Arguments([command, store] + options),
      environment: Moraine.environment, input: .inputWriter, output: .sequence, error: .discarded
    ) { execution in
      try await body(
        Talk(
          process: execution.processIdentifier, writer: execution.standardInputWriter,
          answers: execution.standardOutput.strings().makeAsyncIterator(),
          kill: { try execution.send(signal: .kill) }))
    }
    return (outcome.closureResult, outcome.terminationStatus)
  }
}

/// The damaged part of an index checkpoint.
enum CheckpointDamage: CaseIterable { case header, page, length }

/// A conversation with `drive`.
final class Talk {
  let process: ProcessIdentifier
  let kill: () throws -> Void
  private let writer: StandardInputWriter
  private var answers: SubprocessOutputSequence.StringSequence<UTF8>.AsyncIterator

  init(
    process: ProcessIdentifier, writer: StandardInputWriter,
    answers: SubprocessOutputSequence.StringSequence<UTF8>.AsyncIterator,
    kill: @escaping () throws -> Void
  ) {
    self.process = process
    self.writer = writer
    self.answers = answers
    self.kill = kill
  }

  func say(_ text: String) async throws { _ = try await writer.write(text + "\n") }

  /// Waits for the next line of the answers and returns it.
  func nextLine() async throws -> String? {
    try await answers.next(isolation: #isolation)?.trimmingCharacters(in: .newlines)
  }

  func ask(_ text: String) async throws -> String? {
    try await say(text)
    return try await nextLine()
  }
}
