import Foundation
import MoraineTesting
import SystemPackage
import Testing

@testable import MoraineCommand

/// The small parts whose edge cases a run of the command cannot reach.
@Suite struct PartsTests {
  @Test func hexadecimalEncodesAndDecodes() {
    var generator = SeededGenerator(seed: 7)
    for length in [0, 1, 2, 255, 4096] {
      let bytes = (0..<length).map { _ in UInt8.random(in: 0...255, using: &generator) }
      var text: [UInt8] = []
      Hexadecimal.append(bytes, to: &text)
      #expect(Hexadecimal.decode(text[...]) == bytes)
      let upper = Array(String(decoding: text, as: UTF8.self).uppercased().utf8)
      #expect(Hexadecimal.decode(upper[...]) == bytes)
    }
  }

  @Test func barsOfCharactersHaveTheirWidth() {
    for share in [-1, 0, 0.001, 0.1, 0.333, 0.5, 0.99, 1, 2] {
      #expect(TextBar.bar(share, width: 10).count == 10)
    }
    #expect(TextBar.bar(0.5, width: 4) == "██  " && TextBar.bar(0.0001, width: 4) == "▏   ")
    #expect(TextBar.bar(0.5625, width: 2) == "█▏" && TextBar.bar(0, width: 2) == "  ")
    #expect(TextBar.columns([0, 0.5, 1], width: 10) == "▁▄█")
    #expect(TextBar.columns([0, 1, 1, 1], width: 2) == "▄█" && TextBar.columns([], width: 2) == "")
  }

  @Test func hexadecimalTakesDigitsOnly() {
    for byte in 0...255 as ClosedRange<UInt8> {
      let isDigit = Character(UnicodeScalar(byte)).isHexDigit
      #expect((Hexadecimal.decode([byte, 0x30][...]) != nil) == isDigit)
      #expect((Hexadecimal.decode([0x30, byte][...]) != nil) == isDigit)
    }
    #expect(Hexadecimal.decode([]) == nil)
    #expect(Hexadecimal.decode(Array("abc".utf8)[...]) == nil)
  }

  private func lines(_ text: String, limitBytes: Int) throws -> [LineReader.Line] {
    let pipe = Pipe()
    try pipe.fileHandleForWriting.write(contentsOf: Data(text.utf8))
    try pipe.fileHandleForWriting.close()
    let descriptor = FileDescriptor(rawValue: pipe.fileHandleForReading.fileDescriptor)
    var reader = LineReader(descriptor, limitBytes: limitBytes)
    var lines: [LineReader.Line] = []
    while let line = try reader.read() { lines.append(line) }
    withExtendedLifetime(pipe) {}
    return lines
  }

  @Test func aLineHasALimitAndTheNextIsRead() throws {
    let seen = try lines("abcd\r\nabcde\n\nabcdefgh\r\nxy\nabcdef", limitBytes: 4)
    let bytes = { (text: String) in LineReader.Line.bytes(Array(text.utf8)) }
    #expect(seen == [bytes("abcd"), .tooLong, bytes(""), .tooLong, bytes("xy"), .tooLong])
    #expect(try lines("abcde", limitBytes: 4) == [.tooLong])
    #expect(try lines("abc", limitBytes: 4) == [bytes("abc")])
    #expect(try lines("", limitBytes: 4) == [])
    #expect(try lines("\n", limitBytes: 4) == [bytes("")])
  }

  @Test func theBarHasRateAndRemainingTime() {
    let line = ProgressBar.line("loading", 250_000_000, of: 1_000_000_000, seconds: 5, columns: 100)
    #expect(
      line == " 25% [####............] loading  250.0 MB of 1.0 GB, 50.0 MB/s, 0:15 left")
    let stream = ProgressBar.line("loading", 1500, of: nil, seconds: 2, columns: 80)
    #expect(stream == "loading  1.5 kB, 750 B/s")
  }

  @Test func theBarFitsEveryTerminal() {
    for columns in 0...200 {
      for completed in [0, 1, 999_999, 1_000_000, 2_000_000] as [UInt64] {
        let line = ProgressBar.line(
          "v", completed, of: 1_000_000, seconds: 3, columns: columns)
        #expect(line.count < max(1, columns))
      }
    }
    #expect(!ProgressBar.line("v", 0, of: 0, seconds: 0, columns: 80).isEmpty)
  }

  @Test func figuresArePrintedWithUnits() {
    #expect(
      [0, 999, 1000, 999_949, 999_950].map(Units.bytes) == [
        "0 B", "999 B", "1.0 kB", "999.9 kB", "1.0 MB",
      ])
    #expect(Units.bytes(.max) == "18446744.1 TB")
    #expect([0, 999, 1000, 1_234_567].map(Units.number) == ["0", "999", "1,000", "1,234,567"])
    #expect(
      [0, 0.2, 59.5, 3600, .infinity].map(Units.clock) == [
        "0:00", "0:01", "1:00", "1:00:00", "99:59:59",
      ])
  }
}
