// One row a workload: 16-byte keys, 100-byte values of which half repeats, through the public
// interface with one await per operation.
//
//   swift run -c release --package-path Benchmarks MoraineBenchmark [COUNT] [DIRECTORY]

import Foundation
import MoraineEngine
import SystemPackage

let count = CommandLine.arguments.dropFirst().first.flatMap { Int($0) } ?? 1_000_000
let parent =
  CommandLine.arguments.dropFirst(2).first ?? FileManager.default.currentDirectoryPath
let folder = "\(parent)/moraine-benchmark-\(ProcessInfo.processInfo.processIdentifier)"

/// Sixteen hexadecimal digits.
func key(_ number: Int) -> Key {
  var digits = [UInt8](repeating: 48, count: 16)
  var rest = UInt64(number)
  for place in stride(from: 15, through: 0, by: -1) where rest != 0 {
    let digit = UInt8(truncatingIfNeeded: rest & 15)
    digits[place] = digit < 10 ? 48 + digit : 87 + digit
    rest >>= 4
  }
  return Key(digits)
}

/// What every row pays before the store does anything: a key made and an actor entered.
actor Nothing {
  var sum = 0
  func take(_ value: [UInt8], forKey key: Key) async { sum &+= key.bytes.count &+ value.count }
}

/// Half random, half a repetition of it.
func makeValues(_ number: Int) -> [[UInt8]] {
  var random = SystemRandomNumberGenerator()
  return (0..<number).map { _ in
    let half = (0..<50).map { _ in UInt8.random(in: 0...255, using: &random) }
    return half + half
  }
}

let values = makeValues(1024)
let order =
  ProcessInfo.processInfo.environment["SEQ"] != nil ? Array(0..<count) : (0..<count).shuffled()

func row(
  _ name: String, _ operations: Int, _ body: @Sendable () async throws -> Void
) async throws {
  let clock = ContinuousClock()
  let began = clock.now
  try await body()
  let elapsed = clock.now - began
  let microseconds =
    Double(elapsed.components.seconds) * 1e6
    + Double(elapsed.components.attoseconds) / 1e12
  let figure = String(format: "%10.3f", microseconds / Double(operations))
  print("\(name.padding(toLength: 16, withPad: " ", startingAt: 0))\(figure) µs/op")
}

func configuration(_ durability: Durability) -> Configuration {
  var configuration = Configuration()
  configuration.durability = durability
  return configuration
}

func durable(_ tasks: Int, _ each: Int) async throws {
  let path = FilePath("\(folder)-sync\(tasks)")
  defer { do { try FileManager.default.removeItem(atPath: path.string) } catch { print(error) } }
  let store = try Store(at: path, configuration: configuration(.sync))
  try await row("sync\(tasks)", tasks * each) {
    try await withThrowingTaskGroup(of: Void.self) { group in
      for task in 0..<tasks {
        group.addTask {
          for number in 0..<each {
            try await store.set(values[number & 1023], forKey: key(task * each + number))
          }
        }
      }
      try await group.waitForAll()
    }
  }
  try await store.close()
}

@main
struct MoraineBenchmark {
  static func main() async throws {
    // Made before any row begins.
    let (count, order, values) = (count, order, values)
    defer { do { try FileManager.default.removeItem(atPath: folder) } catch { print(error) } }
    let path = FilePath(folder)
    print("\(count) keys of 16 bytes, values of 100 bytes, half repeating; durability none")
    let nothing = Nothing()
    try await row("(empty actor)", count) {
      for number in order { await nothing.take(values[number & 1023], forKey: key(number)) }
    }
    let sequential = try Store(at: FilePath(folder + "-seq"), configuration: configuration(.none))
    try await row("fillseq", count) {
      for number in 0..<count {
        try await sequential.set(values[number & 1023], forKey: key(number))
      }
    }
    try await sequential.close()
    if ProcessInfo.processInfo.environment["SEQ"] != nil { return }
    try FileManager.default.removeItem(atPath: folder + "-seq")

    let store = try Store(at: path, configuration: configuration(.none))
    try await row("fillrandom", count) {
      for number in order { try await store.set(values[number & 1023], forKey: key(number)) }
    }
    let filled = await store.statistics
    try await row("overwrite", count) {
      for number in order.reversed() {
        try await store.set(values[(number + 7) & 1023], forKey: key(number))
      }
    }
    try await row("readrandom", count) {
      for number in order {
        guard try await store.value(forKey: key(number)) == values[(number + 7) & 1023] else {
          fatalError("a wrong value")
        }
      }
    }
    try await row("readmissing", count) {
      for number in order where try await store.contains(key(number + count)) {
        fatalError("a key that was never put")
      }
    }
    try await row("scan", count) {
      var seen = 0
      try await store.forEach { _ in
        seen += 1
        return true
      }
      guard seen == count else { fatalError("scanned \(seen)") }
    }
    try await row("fillbatch1000", count) {
      for start in stride(from: 0, to: count, by: 1000) {
        try await store.write { batch in
          for number in start..<min(start + 1000, count) {
            try batch.set(values[number & 1023], forKey: key(number))
          }
        }
      }
    }
    try await store.close()
    try await row("open", 1) {
      let again = try Store(at: path, configuration: configuration(.none))
      guard await again.count == count else { fatalError("keys are missing") }
      try await again.close()
    }
    try await durable(1, 2000)
    try await durable(16, 1000)
    try await durable(256, 200)
    print("disk after fillrandom: \(filled.diskBytes / 1_000_000) MB")
    print(
      "index: " + String(format: "%.1f", Double(filled.indexBytes) / Double(count)) + " bytes a key"
    )
  }
}
