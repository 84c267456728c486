import ArgumentParser
import Foundation
import Moraine
import SystemPackage

struct Drive: AsyncParsableCommand {
  enum Level: String, ExpressibleByArgument, CaseIterable {
    case sync, interval, none
  }
  enum IO: String, ExpressibleByArgument, CaseIterable {
    case mapped, positional
  }

  static let configuration = CommandConfiguration(
    abstract: "Takes commands on standard input and answers each with a line.")
  @OptionGroup var store: StoreOptions
  @Option var durability = Level.interval
  @Option(help: "In bytes, from 256.") var segmentSize = 64 << 20
  @Option var io = IO.mapped

  func run() async throws {
    var configuration = Configuration()
    configuration.segmentSizeBytes = segmentSize
    configuration.ioMode = io == .mapped ? .mapped : .positional
    switch durability {
    case .sync: configuration.durability = .sync
    case .interval: configuration.durability = .interval(.seconds(1))
    case .none: configuration.durability = .none
    }
    let opened: Store
    do throws(StoreError) {
      opened = try await Store.open(at: FilePath(store.directory), configuration: configuration)
    } catch {
      Output.line(DriveSession.answer(error))
      throw Failure(code: error.exitCode, message: nil)
    }
    let session = DriveSession(store: opened)
    while let line = Swift.readLine() {
      let (answer, isLast) = await session.answer(line)
      Output.line(answer)
      if isLast { return }
    }
  }
}

/// Answers the lines of the protocol.
struct DriveSession {
  struct Misuse: Error {
    let message: String
  }
  typealias Operation = (key: Key, value: [UInt8]?)

  let store: Store

  static func answer(_ error: StoreError) -> String {
    "err \(error.code) " + error.description.replacing("\n", with: " ")
  }

  func answer(_ line: String) async -> (String, isLast: Bool) {
    do {
      let words = line.split(separator: " ")
      let text = try await perform(words)
      return (text, words.first == "close")
    } catch let error as StoreError {
      return (Self.answer(error), false)
    } catch let error as Misuse {
      return ("err usage \(error.message)", false)
    } catch {
      return ("err usage \(error)", false)
    }
  }

  private func perform(_ words: [Substring]) async throws -> String {
    switch (words.first, words.count) {
    case ("put", 3), ("del", 2): return try await apply(operation(words))
    case ("get", 2):
      let value = try await store.value(forKey: key(words[1]))
      return value.map { "value \(Hexadecimal.encode($0))" } ?? "none"
    case ("batch", 2): return try await batch(words[1])
    case ("scan", 1): return try await scan()
    case ("sync", 1): return "ok \(try await store.sync())"
    case ("stats", 1): return "stats \(await store.statistics.json)"
    case ("close", 1):
      try await store.close()
      return "ok"
    default: throw Misuse(message: "unknown command: \(words.joined(separator: " "))")
    }
  }

  private func key(_ word: Substring) throws -> Key {
    guard let bytes = Hexadecimal.decode(word) else { throw Misuse(message: "bad hex") }
    return Key(bytes)
  }

  private func operation(_ words: [Substring]) throws -> Operation {
    if words.count == 2, words[0] == "del" { return (try key(words[1]), nil) }
    guard words.count == 3, words[0] == "put", let value = Hexadecimal.decode(words[2]) else {
      throw Misuse(message: "expected put <key> <value> or del <key>")
    }
    return (try key(words[1]), value)
  }

  private func apply(_ operation: Operation) async throws -> String {
    if let value = operation.value {
      return "ok \(try await store.set(value, forKey: operation.key))"
    }
    let sequence = try await store.removeValue(forKey: operation.key)
    return "ok " + (sequence.map { "\($0)" } ?? "-")
  }

  private func batch(_ word: Substring) async throws -> String {
    guard let count = Int(word), count >= 0 else { throw Misuse(message: "batch <n>") }
    // All lines are taken before any is judged, so that the protocol stays in step.
    let lines = (0..<count).map { _ in Swift.readLine() ?? "" }
    let operations = try lines.map { try operation($0.split(separator: " ")) }
    try await store.write { batch in
      for (key, value) in operations {
        if let value {
          try batch.set(value, forKey: key)
        } else {
          try batch.removeValue(forKey: key)
        }
      }
    }
    return "ok \(await store.lastSequence)"
  }

  /// The digest is the sum, modulo 2^64, of FNV-1a of key length (8 bytes), key and value.
  private func scan() async throws -> String {
    var count = 0
    var sum: UInt64 = 0
    try await store.forEach { entry in
      var hash: UInt64 = 0xCBF2_9CE4_8422_2325
      func take(_ byte: UInt8) { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
      withUnsafeBytes(of: UInt64(entry.key.bytes.count).littleEndian) { $0.forEach(take) }
      entry.key.bytes.forEach(take)
      entry.value.forEach(take)
      sum &+= hash
      count += 1
      return true
    }
    let digits = String(sum, radix: 16)
    return "count \(count) " + String(repeating: "0", count: 16 - digits.count) + digits
  }
}
