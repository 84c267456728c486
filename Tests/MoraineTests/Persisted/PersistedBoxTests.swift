import MoraineEngine
import Testing

@testable import Moraine

/// What a setting takes from the store.
@Suite struct PersistedBoxTests {
  private func stored(_ text: String?, _ sequence: UInt64) -> StoredSetting {
    StoredSetting(bytes: text.map { Array("\"\($0)\"".utf8) }, sequence: sequence)
  }

  /// The store's feed brings a newer value before a reading that began earlier ends.
  @Test func olderValueDoesNotReplaceANewerOne() {
    let box = PersistedBox(PersistedKey("theme", default: "light"), nil, in: "store")
    box.take(stored("dark", 41))
    box.take(stored("grey", 40), always: true)
    #expect(box.value == "dark")
    box.take(stored(nil, 42), always: true)
    #expect(box.value == "light")
    box.take(stored("blue", 43), always: true)
    #expect(box.value == "blue")
  }

  /// Where the key had a record, another writer has deleted it.
  @Test func absentKeyReplacesAnUnsavedValueOnlyAfterARecord() async throws {
    let space = PersistedStore.inMemory().space
    let box = PersistedBox(PersistedKey("ratio", default: 1.0), nil, in: "store")
    box.set(.nan, in: space)
    try await space.attempt()
    box.take(StoredSetting(bytes: nil, sequence: 10))
    #expect(box.value.isNaN)
    #expect(box.error?.code == .encodingFailed)
    box.take(StoredSetting(bytes: Array("0.5".utf8), sequence: 11))
    #expect(box.value == 0.5)
    box.set(.nan, in: space)
    try await space.attempt()
    box.take(StoredSetting(bytes: nil, sequence: 12))
    #expect(box.value == 1)
    #expect(box.error == nil)
  }

  /// Regression: an absence counted as the removal of a record, also when the record had ended.
  @Test func absentKeyKeepsAnUnsavedValueAfterTheEndOfTheRecord() async throws {
    let space = PersistedStore.inMemory().space
    let box = PersistedBox(PersistedKey("ratio", default: 1.0), nil, in: "store")
    box.take(StoredSetting(bytes: Array("0.5".utf8), sequence: 10, expiry: 1_000))
    box.set(.nan, in: space)
    try await space.attempt()
    box.take(StoredSetting(bytes: nil, sequence: 11, absenceTime: 1_000))
    #expect(box.value.isNaN)
    #expect(box.error?.code == .encodingFailed)
    box.take(StoredSetting(bytes: nil, sequence: 12, absenceTime: 999))
    #expect(box.value == 1, "another writer has removed the record before its end")
    #expect(box.error == nil)
  }

  @Test func absentKeyKeepsAnUnsavedValueAfterARemoval() async throws {
    let space = PersistedStore.inMemory().space
    let box = PersistedBox(PersistedKey("ratio", default: 1.0), nil, in: "store")
    box.set(2, in: space)
    try await space.attempt()
    box.change(in: space, givesUp: true, removes: true) { $0 = 1 }
    try await space.attempt()
    box.set(.nan, in: space)
    try await space.attempt()
    box.take(StoredSetting(bytes: nil, sequence: 20))
    #expect(box.value.isNaN)
    box.take(StoredSetting(bytes: nil, sequence: 20), always: true)
    #expect(box.value == 1, "a reload discards it")
  }
}
