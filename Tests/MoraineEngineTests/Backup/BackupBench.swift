import Foundation
import MoraineEngine
import MoraineFormat
import MoraineStorage
import SystemPackage
import Testing

/// A store, a place for its backup, and a place for the store that is restored from the backup.
struct BackupBench {
  typealias State = [Key: [UInt8]]

  static let modes: [Store.Configuration.IOMode] = [.mapped, .positional]
  static let backup: FilePath = "backup"
  static let restored: FilePath = "restored"

  let storage: any Storage
  let configuration: Store.Configuration
  let store: Store

  init(
    _ mode: Store.Configuration.IOMode = .mapped, on storage: any Storage = MemoryStorage(),
    segmentSizeBytes: Int = 2000
  ) throws {
    var configuration = Store.Configuration.testing(
      segmentSizeBytes: segmentSizeBytes, ioMode: mode)
    configuration.compaction = .manual
    self.storage = storage
    self.configuration = configuration
    store = try Store(on: storage, at: "store", configuration: configuration)
  }

  /// Puts and deletes; records the state after each sequence number.
  static func write(
    _ range: Range<Int>, to store: Store, _ states: inout [UInt64: State], from state: State = [:]
  ) async throws -> State {
    var state = state
    for number in range {
      let key = Key("key \(number % 40)")
      let sequence: SequenceNumber?
      if number % 7 == 3 {
        sequence = try await store.removeValue(forKey: key)
        state[key] = nil
      } else {
        let value = Array("value \(number) ".utf8) + [UInt8](repeating: 7, count: number % 50)
        sequence = try await store.set(value, forKey: key)
        state[key] = value
      }
      if let sequence { states[sequence.rawValue] = state }
    }
    return state
  }

  func openBackup(_ path: FilePath = backup) throws -> Store {
    var reading = configuration
    reading.isReadOnly = true
    return try Store(on: storage, at: path, configuration: reading)
  }

  func restore(
    _ backup: FilePath = backup, to path: FilePath = restored, through: SequenceNumber? = nil
  ) async throws -> (store: Store, report: RestoreReport) {
    let report = try await Store.restore(backup, to: path, through: through, on: storage)
    return (try Store(on: storage, at: path, configuration: configuration), report)
  }

  func names(_ path: FilePath) throws -> [String] {
    try storage.openDirectory(path)?.entries().map(\.name).sorted() ?? []
  }
}

extension Store {
  /// Returns everything in the unnamed keyspace.
  func everything() async throws -> BackupBench.State {
    var state: BackupBench.State = [:]
    try await snapshot().scan { entry in
      state[entry.key] = entry.value
      return true
    }
    return state
  }
}
