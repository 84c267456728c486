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
}
