import MoraineStorage
import SystemPackage
import Testing

@testable import MoraineTesting

/// Each kind of fault, once, on the n-th call and from then on, at the storage protocol: the
/// answers of the calls, and the part of each call that takes effect.
@Suite struct DiskFaultKindTests {
  private static let effects = FaultLaboratory.effects

  /// Opens a file of a storage with faults.
  private func file(
    _ disk: SimulatedDisk, _ faults: [DiskFault]
  ) throws -> (any StorageDirectory, any StorageFile) {
    let storage = FaultStorage(disk)
    try storage.createDirectory("d")
    let directory = try #require(try storage.openDirectory("d"))
    let file = try directory.createFile("f")
    let plan = FaultPlan(faults)
    storage.setScript { plan.fault(for: $0) }
    return (directory, file)
  }

  /// Nil when the call succeeds.
  private func errno(_ body: () throws -> Void) throws -> Errno? {
    do { try body() } catch let error as StorageError { return error.errno }
    return nil
  }

  private struct Timing: CustomTestStringConvertible, Sendable {
    let occurrence: Int
    let isPermanent: Bool
    /// For each of five calls.
    let struck: [Bool]
    var testDescription: String { "from \(occurrence)\(isPermanent ? " on" : ", once")" }
  }

  private static let timings = [
    Timing(occurrence: 1, isPermanent: false, struck: [true, false, false, false, false]),
    Timing(occurrence: 1, isPermanent: true, struck: [true, true, true, true, true]),
    Timing(occurrence: 3, isPermanent: false, struck: [false, false, true, false, false]),
    Timing(occurrence: 3, isPermanent: true, struck: [false, false, true, true, true]),
  ]

  @Test(arguments: effects, timings)
  private func strikesWrites(_ effect: DiskFault.Effect, _ timing: Timing) throws {
    let disk = SimulatedDisk()
    let fault = DiskFault(
      effect, on: [.write], file: "f", occurrence: timing.occurrence,
      isPermanent: timing.isPermanent)
    let (_, file) = try file(disk, [fault])
    let bytes = [UInt8](repeating: 7, count: 100)
    for (number, isStruck) in timing.struck.enumerated() {
      let start = UInt64(number * 100)
      let answer = try errno { try bytes.withUnsafeBytes { try file.write($0, at: start) } }
      #expect(answer == (isStruck ? effect.errno : nil), "write \(number + 1)")
    }
    let content = try #require(disk.image(.everything).directories["d"]?["f"])
    for (number, isStruck) in timing.struck.enumerated() {
      let part = content.dropFirst(number * 100).prefix(100)
      // A short write writes the first thirty bytes; any other failed write writes none.
      let done = isStruck ? (effect == .short(lengthBytes: 30) ? 30 : 0) : 100
      #expect(part.count(where: { $0 == 7 }) == done, "write \(number + 1)")
      #expect(part.prefix(done).allSatisfy { $0 == 7 }, "write \(number + 1)")
    }
  }

  @Test(arguments: effects, timings)
  private func strikesSyncs(_ effect: DiskFault.Effect, _ timing: Timing) throws {
    let disk = SimulatedDisk()
    let fault = DiskFault(
      effect, on: [.sync], occurrence: timing.occurrence, isPermanent: timing.isPermanent)
    let (directory, file) = try file(disk, [fault])
    try directory.synchronize()
    for (number, isStruck) in timing.struck.enumerated() {
      let page = [UInt8](repeating: 7, count: 4096)
      try page.withUnsafeBytes { try file.write($0, at: UInt64(number * 4096)) }
      let answer = try errno { try file.synchronize(.data) }
      #expect(answer == (isStruck ? effect.errno : nil), "sync \(number + 1)")
    }
    // A later sync that succeeds makes the bytes of failed syncs durable, unless those dropped
    // their page.
    let safe = disk.image(.nothing).directories["d"]?["f"] ?? []
    let last = timing.struck.lastIndex(of: false) ?? -1
    for (number, isStruck) in timing.struck.enumerated() {
      let isSafe = safe.dropFirst(number * 4096).prefix(4096).contains(7)
      let isDropped = isStruck && effect == .dropsUnsynced
      #expect(isSafe == (number <= last && !isDropped), "page \(number + 1)")
    }
  }

  /// Each call of the protocol can be struck, and has no effect then.
  @Test(arguments: DiskFault.Operation.allCases, effects)
  private func strikesEachCall(_ operation: DiskFault.Operation, _ effect: DiskFault.Effect) throws
  {
    let storage = FaultStorage(SimulatedDisk())
    try storage.createDirectory("d")
    let directory = try #require(try storage.openDirectory("d"))
    let file = try directory.createFile("f")
    _ = try directory.createFile("other")
    let plan = FaultPlan([DiskFault(effect, on: [operation])])
    func call() throws {
      switch operation {
      case .open: _ = try directory.openFile("f", .read)
      case .create: _ = try directory.createFile("new")
      case .list: _ = try directory.entries()
      case .rename: try directory.rename("other", to: "third")
      case .remove: try directory.remove("f")
      case .read:
        try withUnsafeTemporaryAllocation(byteCount: 1, alignment: 1) { buffer in
          _ = try file.read(into: buffer, at: 0)
        }
      case .write: try [1].withUnsafeBytes { try file.write($0, at: 0) }
      case .allocate: try file.allocate(from: 0, to: 10)
      case .truncate: try file.truncate(to: 0)
      case .map: _ = try file.map(lengthBytes: 1, .read)
      case .lock: _ = try file.tryLock(shared: false)
      case .sync: try file.synchronize(.full)
      case .syncDirectory: try directory.synchronize()
      }
    }
    storage.setScript { plan.fault(for: $0) }
    #expect(try errno(call) == effect.errno)
    storage.setScript(nil)
    #expect(Set(try directory.entries().map(\.name)) == ["f", "other"], "the call had no effect")
    storage.setScript { plan.fault(for: $0) }
    #expect(try errno(call) == nil, "once")
  }

  @Test func faultRoundTripsThroughItsText() throws {
    for effect in Self.effects {
      #expect(DiskFault.Effect(name: effect.name) == effect)
      for isPermanent in [true, false] {
        let fault = PlannedFault(
          effect: effect, isPermanent: isPermanent,
          call: StorageCall(life: 2, operation: .synchronizeFull, file: "a,b 1", number: 12))
        #expect(PlannedFault(fault.description) == fault)
      }
    }
    for text in [
      "", "eio", "eio,once,0,write,0,f", "eio,once,-1,write,1,f", "eio,twice,0,write,1,f",
      "shortx,once,0,write,1,f", "eio,once,0,wrote,1,f", "eio,once,0,write,1,",
    ] {
      #expect(PlannedFault(text) == nil, "\(text)")
    }
  }
}
