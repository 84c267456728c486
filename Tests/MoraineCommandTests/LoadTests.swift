import Foundation
import Testing

/// Input that load accepts, and input that it refuses.
@Suite struct LoadTests {
  let place: Place

  init() throws { place = try Place() }

  private func keys() async throws -> [String] {
    let outcome = try await Moraine.run("scan", place.store, "--keys-only")
    return outcome.lines.dropLast()
  }

  @Test func wholeLineBecomesTheValue() async throws {
    let lines = [
      #"{"id":"a", "x" : [1,2,{"id":7}]}"#, #" {"n":{"id":1},"\u0069d":"b\u00e9\n"} "#,
      #"{"id":"😀","\"id\"":0}"#, #"{"id":"\ud83d\ude01"}"#,
    ]
    let file = try place.file("lines", (lines.joined(separator: "\n") + "\n").utf8)
    let outcome = try await Moraine.run("load", place.store, file)
    #expect(outcome.code == 0 && outcome.text == "loaded 4 records\n" && outcome.errors.isEmpty)
    #expect(try await Moraine.run("dump", place.store).lines.dropLast() == lines[...])
    #expect(try await keys() == ["a", #"b\xc3\xa9\x0a"#, "😀", "😁"])
  }

  /// Numbers keep their digits: as `Double`, the first two numbers would be equal, and the third
  /// would be invalid.
  @Test func numbersBecomeKeysWithTheirExactText() async throws {
    let numbers = [
      "12345678901234567890123", "12345678901234567890124", "1e400", "-0", "0", "1", "1.0", "1E0",
    ]
    let text = numbers.map { "{\"id\":\($0)}\n" }.joined()
    #expect(try await Moraine.run("load", place.store, input: text).code == 0)
    #expect(try await keys() == numbers)
  }

  @Test func windowsFilesAndBlankLinesAreAccepted() async throws {
    let text = "\u{FEFF}{\"id\":1}\r\n\r\n \t\n{\"id\":2}\r\n{\"id\":3}"
    #expect(try await Moraine.run("load", place.store, "-", input: text).text.contains("3 records"))
    #expect(
      try await Moraine.run("dump", place.store).text == "{\"id\":1}\n{\"id\":2}\n{\"id\":3}\n")
  }

  @Test func lastLineOfAKeyWins() async throws {
    let text = #"{"id":1,"v":"old"}"# + "\n" + #"{"id":"1","v":"new"}"#
    #expect(try await Moraine.run("load", place.store, input: text).code == 0)
    #expect(try await Moraine.run("get", place.store, "1").text == #"{"id":"1","v":"new"}"#)
  }

  @Test func anotherFieldMayBeTheKey() async throws {
    let text = #"{"id":null,"e-mail":"a@b"}"#
    #expect(try await Moraine.run("load", place.store, "--key", "e-mail", input: text).code == 0)
    #expect(try await keys() == ["a@b"])
  }

  @Test(arguments: [
    (#"{"id":null}"#, #""id" is null; a key must be a string or a number"#),
    (#"{"id":true}"#, #""id" is a boolean; a key must be a string or a number"#),
    (#"{"id":[1]}"#, #""id" is an array; a key must be a string or a number"#),
    (#"{"id":{}}"#, #""id" is an object; a key must be a string or a number"#),
    (#"{"id":""}"#, #""id" is an empty string"#),
    (#"{"ID":1,"x":{"id":2}}"#, #"there is no field "id""#),
    (#"{"id":1,"i\u0064":2}"#, #"there are two fields "id"; the key must be unique"#),
    (#"[1]"#, "not a JSON object"),
    (#""id""#, "not a JSON object"),
    (#"{"id":1"#, #"not JSON: "," is missing at column 8"#),
    (#"{"id":1}}"#, "not JSON: more text after the value at column 9"),
    (#"{"id":01}"#, #"not JSON: "," is missing at column 8"#),
    (#"{"id":"\x"}"#, "not JSON: unknown escape at column 9"),
    (#"{"id":"\ud800"}"#, "not JSON: half a surrogate pair at column 14"),
    (#"{'id':1}"#, "not JSON: expected a string in quotes at column 2"),
    ("id,name", "not JSON: a value is missing at column 1"),
    (
      "{\"id\":\"\(String(repeating: "k", count: 65_537))\"}",
      #""id" has 65537 bytes; a key can have 65536"#
    ),
  ])
  func aBadLineIsNamedAndNothingIsStored(_ line: String, _ message: String) async throws {
    let file = try place.file("lines", "{\"id\":\"good\"}\n\n\(line)\n{\"id\":\"good too\"}\n".utf8)
    let outcome = try await Moraine.run("load", place.store, file)
    #expect(outcome.code == 2 && outcome.output.isEmpty)
    #expect(outcome.errors == "moraine: line 3: \(message)\n")
    #expect(!FileManager.default.fileExists(atPath: place.store))
  }

  /// Regression: the refused load had made an existing keyspace ordered for good, or a store.
  @Test(arguments: [[], ["--batch", "2"]] as [[String]])
  func keyThatIsTooLongForAnOrderedKeyspaceIsNamed(_ options: [String]) async throws {
    let long = String(repeating: "k", count: 512)
    let file = try place.file("lines", "{\"id\":1}\n\n{\"id\":\"\(long)\"}\n{\"id\":3}\n".utf8)
    let load = ["load", place.store, file, "--ordered"] + options
    let outcome = try await Moraine.run(load)
    #expect(outcome.code == 2, "\(outcome)")
    #expect(outcome.errors.contains("line 3: the key has 512 bytes; the limit"), "\(outcome)")
    #expect(!FileManager.default.fileExists(atPath: place.store))
    #expect(try await Moraine.run("put", place.store, "k", "v").code == 0)
    #expect(try await Moraine.run(load).code == 2)
    let keyspaces = try await Moraine.run("keyspaces", place.store, "--json")
    #expect(keyspaces.text.contains(#""isOrdered":false"#), "\(keyspaces)")
    #expect(try await keys() == ["k"])
    // Longer keys than an ordered keyspace takes.
    #expect(try await Moraine.run("load", place.store, file).text == "loaded 3 records\n")
  }

  /// The store compares with the limit of an ordered keyspace when it has the whole batch.
  @Test(arguments: [[], ["--batch", "2"]] as [[String]])
  func keyThatIsTooLongForAKeyspaceThatWasOrderedIsNamed(_ options: [String]) async throws {
    let first = try await Moraine.run("load", place.store, "--ordered", input: #"{"id":0}"#)
    #expect(first.code == 0, "\(first)")
    let long = String(repeating: "k", count: 512)
    let file = try place.file("lines", "{\"id\":1}\n\n{\"id\":\"\(long)\"}\n{\"id\":3}\n".utf8)
    let outcome = try await Moraine.run(["load", place.store, file] + options)
    #expect(outcome.code == 2, "\(outcome)")
    #expect(outcome.errors.contains("line 3: the key has 512 bytes; the limit"), "\(outcome)")
    #expect(try await keys() == ["0"])
  }

  /// Regression: load did not count the outermost level, and took a model that query refuses.
  @Test func modelThatQueryCannotReadIsRefused() async throws {
    func line(_ levels: Int) -> String {
      let (open, close) = (String(repeating: "[", count: levels - 1), "]")
      return "{\"id\":1,\"x\":\(open)\(String(repeating: close, count: levels - 1))}"
    }
    let deep = try await Moraine.run("load", place.store, input: line(513))
    #expect(deep.code == 2 && deep.errors.contains("deeper than 512 levels"), "\(deep)")
    #expect(try await Moraine.run("load", place.store, input: line(512)).code == 0)
    let found = try await Moraine.run("query", place.store, "--where", "id = 1", "--count")
    #expect(found.code == 0 && found.text == "1\n", "\(found)")
  }

  @Test func inputThatIsNotUTF8IsRefused() async throws {
    let file = try place.file("lines", Array(#"{"id":1,"x":""#.utf8) + [0xE9] + Array("\"}".utf8))
    let outcome = try await Moraine.run("load", place.store, file)
    #expect(outcome.code == 2 && outcome.errors == "moraine: line 1: not UTF-8\n")
  }

  @Test func aFileThatCannotBeReadIsNamed() async throws {
    let missing = try await Moraine.run("load", place.store, "/nowhere/lines")
    #expect(missing.code == 2 && missing.errors.contains("/nowhere/lines: No such file"))
    let folder = try await Moraine.run("load", place.store, place.folder.path)
    #expect(folder.code == 2 && folder.errors.contains("it is a directory"))
    #expect(!FileManager.default.fileExists(atPath: place.store))
  }

  @Test func batchesBeforeABadLineStay() async throws {
    let lines = (1...7).map { $0 == 6 ? "{}" : "{\"id\":\($0)}" }.joined(separator: "\n")
    let outcome = try await Moraine.run("load", place.store, "--batch", "2", input: lines)
    #expect(outcome.code == 2 && outcome.errors.contains(#"line 6: there is no field "id""#))
    #expect(outcome.errors.contains("4 records of earlier batches are stored"))
    #expect(try await keys() == ["1", "2", "3", "4"])
    #expect(try await Moraine.run("verify", place.store).code == 0)
  }

  @Test func emptyInputStillOpensTheStore() async throws {
    #expect(try await Moraine.run("load", place.store, input: "\n").text == "loaded 0 records\n")
    try await place.drive("put 6b 76")
    _ = try place.damage()
    #expect(try await Moraine.run("load", place.store, input: "").code == 3)
  }

  /// The locks of the reader and of the writer must not conflict.
  @Test func dumpOfAStoreCanBeLoadedIntoTheSameStore() async throws {
    try await place.drive(
      "put 61 \(Array(#"{"id":"b"}"#.utf8).map { String($0, radix: 16) }.joined())")
    let script = #""$0" dump "$1" | "$0" load "$1" && "$0" scan "$1" --keys-only"#
    #expect(try await Moraine.shell(script, place.store).text == "loaded 1 records\na\nb\n")
  }
}
