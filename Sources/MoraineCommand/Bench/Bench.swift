import ArgumentParser
import Foundation
import Moraine
import Synchronization
import SystemPackage

struct Bench: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Measures Moraine on this machine and this disk.",
    discussion: """
      Uses a temporary store in the directory and removes it at the end: name a
      directory on the disk that you want to measure. Keys have 16 bytes, values
      have --value-size bytes, half of which compress. Each row shows the time of
      one operation and the operations per second. Every value that is read is
      compared with the one that was written. The row names are those of db_bench.
      Rows with "sync" wait for the disk, the others only for memory.
      The rows "compress" and "uncompress" are of blocks of JSON lines, with the LZ4
      of this build and with the LZ4 in Swift.

        moraine bench /mnt/disk --count 1000000 --svg bench.svg

      A bar shows the time of one operation, and --svg FILE draws the bars: where a
      bar is longer by a sixth of the width, an operation takes ten times as long.
      With --json one object per line: row, microseconds, operationsPerSecond,
      operationCount.
      """)
  @Argument(
    help: "A directory on the disk to measure. Default: the one for temporary files.",
    completion: .directory)
  var directory: String?
  @Option(help: "The number of keys.") var count = 100_000
  @Option(help: "The bytes of a value.") var valueSize = 100
  @Option(help: "The durable commits of each sync row; at least one per writer.")
  var commits = 500
  @Option(help: "Draw the rows into this file.", completion: .file(extensions: ["svg"]))
  var svg: String?
  @Flag(help: "Print one JSON object per line.") var json = false

  func validate() throws {
    guard 1...100_000_000 ~= count else {
      throw ValidationError("--count takes a number from 1 to 100,000,000")
    }
    guard 0...(1 << 20) ~= valueSize else {
      throw ValidationError("--value-size takes a number from 0 to 1,048,576")
    }
    guard 1...1_000_000 ~= commits else {
      throw ValidationError("--commits takes a number from 1 to 1,000,000")
    }
  }

  func run() async throws {
    if let svg { try Drawing.checkWritable(svg) }
    let parent =
      directory.map { URL(fileURLWithPath: $0) } ?? FileManager.default.temporaryDirectory
    var isDirectory: ObjCBool = false
    guard FileManager.default.fileExists(atPath: parent.path, isDirectory: &isDirectory),
      isDirectory.boolValue
    else { throw Failure.usage("there is no directory \(parent.path)") }
    let name = "moraine-bench-\(ProcessInfo.processInfo.processIdentifier)"
    let folder = parent.appendingPathComponent(name)
    do {
      try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
    } catch {
      throw Failure("make \(folder.path)", error)
    }
    defer {
      do { try FileManager.default.removeItem(at: folder) } catch {
        Output.error("\(folder.path) could not be removed: \(error)")
      }
    }
    let subject =
      "\(Units.number(UInt64(count))) keys, values of \(valueSize) bytes, in \(parent.path)"
    if !json {
      try Output.line(subject)
      try Output.line(BenchRow.head)
      try Output.flush()
    }
    let data = BenchData(count: count, valueLengthBytes: valueSize)
    let rows = Mutex<[BenchRow]>([])
    let work = BenchWork(folder: folder.path, data: data, commitCount: commits) { row in
      rows.withLock { $0.append(row) }
      try Output.line(json ? row.json : row.text)
      try Output.flush()
    }
    try await work.run()
    guard let svg else { return }
    var drawing = Drawing()
    drawing.heading(subject + ". A sixth of the width more: ten times as long.")
    for row in rows.withLock({ $0 }) { row.draw(&drawing) }
    try drawing.write(to: svg, title: "Times of Moraine's operations")
  }
}
