import Moraine
import SystemPackage
import Testing

@Suite struct OperatingAStoreTests {
  private let ground: Ground

  init() throws { ground = try Ground() }

  @Test func verifying() async throws {
    let store = Store.inMemory()
    try await store.set([1], forKey: "a")
    let report = try await store.verify()
    for problem in report.problems { print(problem) }
    let statistics = try await store.statistics()
    print("\(statistics.count) keys, \(statistics.spaceAmplification) bytes for each live byte")
    #expect(report.isSound && statistics.count == 1)
  }

  @Test func salvaging() async throws {
    let (damaged, rescued) = (ground.path.appending("app"), ground.path.appending("rescued"))
    let store = try await Store.open(at: damaged)
    for number in 0..<5 { try await store.set([1, 2, 3], forKey: Key("key \(number)")) }
    try await store.close()
    let file = try FileDescriptor.open(
      damaged.appending("0000000001.segment"), .readWrite, options: [])
    _ = try file.writeAll(toAbsoluteOffset: 150, [9])
    try file.close()
    let report = try await Store.salvage(damaged, to: rescued)
    print("\(report.count) keys recovered")
    for loss in report.losses {
      print("\(loss.file) at byte \(loss.offset): \(loss.reason)")
      for key in loss.keys { print("  perhaps \(key.key), sequence \(key.sequence)") }
    }
    #expect(report.count == 4 && report.losses.count == 1)
  }
}
