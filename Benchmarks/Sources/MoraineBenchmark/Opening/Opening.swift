import BenchmarkSupport
import Foundation
import MoraineEngine
import SystemPackage

/// Opens one store repeatedly.
struct Opening: Sendable {
  struct Figures {
    var milliseconds: [Double] = []
    var logBytes: UInt64 = 0
    var resyncedBytes: UInt64 = 0
    var indexBytesPerKey = 0.0
    /// Figure of the store that wrote the keys, before it was closed.
    var indexBytesPerKeyBefore = 0.0
  }

  let data: TestData
  let scratch: Scratch

  static let configuration = {
    var configuration = Store.Configuration()
    configuration.durability = .none
    configuration.compaction = .manual
    return configuration
  }()

  static func fill(_ path: FilePath, _ data: TestData) async throws -> Store {
    let store = try Store(at: path, configuration: configuration)
    for number in data.order {
      try await store.set(data.value(number), forKey: data.key(number))
    }
    return store
  }

  func closed(_ runs: Int) async throws -> Figures {
    let path = scratch.path("closed")
    var figures = Figures()
    let store = try await Self.fill(path, data)
    figures.indexBytesPerKeyBefore = try await store.statistics().indexBytesPerKey
    try await store.close()
    for _ in 1...runs { try await open(path, wasClean: true, &figures) }
    try scratch.remove("closed")
    return figures
  }

  func killed(_ runs: Int) async throws -> Figures {
    let path = scratch.path("killed")
    var figures = Figures()
    for _ in 1...runs {
      try writeAndDie(path)
      try await open(path, wasClean: false, &figures)
      try scratch.remove("killed")
    }
    return figures
  }

  private func open(
    _ path: FilePath, wasClean: Bool, _ figures: inout Figures
  ) async throws {
    let middle = data.order[data.count / 2]
    let key = data.key(middle)
    var opened: Store?
    var value: [UInt8]?
    let elapsed = try await ContinuousClock().measure {
      opened = try Store(at: path, configuration: Self.configuration)
      value = try await opened?.value(forKey: key)
    }
    guard let opened, value == data.value(middle), try await opened.count() == data.count else {
      throw WrongAnswer(row: "open")
    }
    let report = await opened.recoveryReport
    guard report.wasClean == wasClean else { throw WrongAnswer(row: "open: wasClean") }
    let statistics = try await opened.statistics()
    figures.milliseconds.append(elapsed.milliseconds)
    figures.logBytes = statistics.diskBytes
    figures.resyncedBytes = report.resyncedBytes
    figures.indexBytesPerKey = statistics.indexBytesPerKey
    try await opened.close()
  }

  private func writeAndDie(_ path: FilePath) throws {
    guard let program = Bundle.main.executableURL else { throw WrongAnswer(row: "executable") }
    let child = Process()
    child.executableURL = program
    child.arguments = ["write-and-die", path.string, "--count", "\(data.count)"]
    try child.run()
    child.waitUntilExit()
    guard child.terminationReason == .uncaughtSignal, child.terminationStatus == SIGKILL else {
      throw WrongAnswer(row: "write-and-die")
    }
  }
}

extension Store.Statistics {
  var indexBytesPerKey: Double { Double(indexBytes) / Double(count) }
}
