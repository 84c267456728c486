import MoraineFormat
import Testing

@testable import MoraineEngine

/// Messages of errors in a log, which must have no keys and no values.
@Suite struct LoggedMessageTests {
  static let codesOfMessagesWithKeys: [StoreError.Code] = [
    .decodingFailed, .encodingFailed, .notUnique, .newerFormat, .keyTooLarge, .valueTooLarge,
    .conflict, .invalidArgument, .cancelled,
  ]

  @Test(arguments: LoggedMessageTests.codesOfMessagesWithKeys)
  func messageThatMayNameAKeyIsNotLogged(code: StoreError.Code) {
    #expect(StoreError(code, "the model 'secret'").messageForLogs == nil)
  }

  @Test(arguments: [StoreError.Code.corrupted, .io, .noSpace, .poisoned, .storeReplaced])
  func messageForTheOperatorIsLogged(code: StoreError.Code) {
    #expect(StoreError(code, "what to do").messageForLogs == "what to do")
  }

  @Test func messageOfADamagedIndexNamesNoKey() {
    let row = #expect(throws: StoreError.self) { try StoredIndexRow([1], of: "secret") }
    let record = Store.Entry(keyspace: 1, key: "secret", sequence: .none, value: [])
    let entry = #expect(throws: StoreError.self) { try SecondaryIndexEntry(record) }
    for error in [row, entry] {
      #expect(error?.code == .corrupted)
      #expect(error?.messageForLogs?.contains("secret") == false)
    }
  }
}
