import Foundation
import Moraine
import MoraineTesting
import Testing

@testable import MoraineCommand

@Suite struct JSONScannerTests {
  /// Returns nil when the line is JSON, whatever its key is.
  private func problem(_ line: [UInt8]) -> LineProblem? {
    do throws(LineProblem) {
      _ = try KeyField(name: "id").key(of: line)
      return nil
    } catch {
      return error.message.hasPrefix("not JSON:") || error.message == "not UTF-8" ? error : nil
    }
  }

  private func isJSON(_ line: [UInt8]) -> Bool {
    do {
      _ = try JSONSerialization.jsonObject(with: Data(line), options: .fragmentsAllowed)
      return true
    } catch {
      return false
    }
  }

  /// Input that Foundation's parser accepts against RFC 8259 (a comma at the end of a list), and
  /// JSON that it refuses (a number that no `Double` holds).
  private func isDisputed(_ line: String) -> Bool {
    line.contains(/,\s*[}\]]/) || line.contains(/[eE][+-]?\d{3}/)
  }

  /// Foundation's parser is the oracle. Replay: the failure names the seed and the line.
  @Test(arguments: 1...8 as ClosedRange<UInt64>)
  func scannerAgreesWithFoundationOnChangedLines(_ seed: UInt64) {
    let sound = [
      #"{"id":"a\"\\\/\b\f\n\r\t\u00e9","x":[1,-2.5e+3,0,true,false,null,{},[]]}"#,
      #"{"id":12,"é":"😀","\ud83d\ude00":{"a":{"b":[[["c"]]]}}}"#,
      #" [ 1.5 , -0 , 1E-7 , "" , { "a" : null } ] "#, #""text""#, "true", "-12.25",
    ].map { Array($0.utf8) }
    let alphabet =
      Array(#"{}[]":,\/ue0159.+-EtrfalsndbD8 "#.utf8) + [9, 31, 0xC3, 0xA9, 0xFF, 0x80]
    var generator = SeededGenerator(seed: seed)
    for _ in 0..<2500 {
      var line = sound.randomElement(using: &generator)!
      for _ in 0..<Int.random(in: 1...3, using: &generator) where !line.isEmpty {
        let place = Int.random(in: 0..<line.count, using: &generator)
        let byte = alphabet.randomElement(using: &generator)!
        switch Int.random(in: 0..<3, using: &generator) {
        case 0: line[place] = byte
        case 1: line.insert(byte, at: place)
        default: line.remove(at: place)
        }
      }
      let shown = String(decoding: line, as: UTF8.self)
      if isDisputed(shown) { continue }
      let ours = problem(line)
      #expect((ours == nil) == isJSON(line), "seed \(seed): \(shown): \(ours?.message ?? "sound")")
    }
  }

  /// No prefix of a line is accepted as a line, and none traps.
  @Test func everyPrefixIsRefused() {
    let line = Array(#"{"id":"\ud83d\ude00é","x":[1.5e-3,true,{"a":null}]}"#.utf8)
    for length in 0..<line.count { #expect(problem(Array(line[..<length])) != nil) }
    #expect(problem(line) == nil)
  }

  @Test func nestingHasALimit() {
    let deep = { (count: Int) in
      Array("{\"id\":".utf8) + Array(repeating: UInt8(ascii: "["), count: count)
        + Array(repeating: UInt8(ascii: "]"), count: count) + Array("}".utf8)
    }
    // The object is a level too.
    #expect(problem(deep(511)) == nil)
    #expect(problem(deep(512))?.message.contains("nesting deeper than 512 levels") == true)
    #expect(problem(deep(1_000_000)) != nil)
  }

  @Test func namesAreComparedByTheirBytes() throws {
    let line = Array("{\"e\u{301}\":\"decomposed\",\"\u{E9}\":\"precomposed\"}".utf8)
    #expect(try KeyField(name: "\u{E9}").key(of: line) == Key("precomposed"))
    #expect(try KeyField(name: "e\u{301}").key(of: line) == Key("decomposed"))
  }
}
