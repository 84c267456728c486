import Foundation
import MoraineEngine
import SystemPackage

/// Measures the time from storing a change in one process to its arrival in another.
struct ChangeDelays {
  let path: FilePath
  let count: Int
  let pauseMicroseconds: Int

  /// - Returns: median, 99th percentile and maximum, in microseconds.
  /// - Throws: `WrongAnswer` when a change is lost or out of order.
  func measure() async throws -> [Double] {
    let store = try await Store.open(at: path, configuration: .sharedBenchmark)
    try await store.set([0], forKey: "begun")
    var iterator = store.changes().makeAsyncIterator()
    let child = try Child([
      "share-and-write", path.string, "--name", "w", "--count", "\(count)",
      "--pause-microseconds", "\(pauseMicroseconds)",
    ])
    try child.begin()
    var delays: [Double] = []
    var sequence: UInt64 = 1
    while delays.count < count, let change = try await iterator.next() {
      let now = Moment.now.nanoseconds
      sequence += 1
      guard change.sequence.rawValue == sequence, change.key == Key("w \(delays.count)"),
        let stored = change.value.flatMap({ Moment($0) })
      else { throw WrongAnswer(row: "change \(delays.count)") }
      delays.append(Double(now - stored.nanoseconds) / 1000)
    }
    try child.end()
    try await store.close()
    delays.sort()
    return [delays[count / 2], delays[count * 99 / 100], delays[count - 1]]
  }
}

/// A child process that waits for a line before it begins.
struct Child {
  private let process = Process()
  private let input = Pipe()

  init(_ arguments: [String], executable: String? = nil) throws {
    guard let program = executable.map({ URL(fileURLWithPath: $0) }) ?? Bundle.main.executableURL
    else { throw WrongAnswer(row: "executable") }
    process.executableURL = program
    process.arguments = arguments
    process.standardInput = input
    try process.run()
  }

  func begin() throws { try input.fileHandleForWriting.write(contentsOf: Data("go\n".utf8)) }

  func end() throws {
    process.waitUntilExit()
    guard process.terminationStatus == 0 else { throw WrongAnswer(row: "a child's end") }
  }
}
