import MoraineFormat
import Testing

@testable import MoraineEngine

@Suite struct LimitTests {
  /// Only lengths are checked: the test needs no gigabyte of memory.
  @Test func aValueOverTheLimitIsRefused() throws {
    let byte = UnsafeMutableRawPointer.allocate(byteCount: 1, alignment: 1)
    defer { byte.deallocate() }
    func bytes(_ count: Int) -> UnsafeRawBufferPointer {
      UnsafeRawBufferPointer(start: byte, count: count)
    }
    try EngineState.checkLimits(
      bytes(StoreLimits.keyLengthBytes), bytes(StoreLimits.valueLengthBytes))
    let value = #expect(throws: StoreError.self) {
      try EngineState.checkLimits(bytes(1), bytes(StoreLimits.valueLengthBytes + 1))
    }
    #expect(value?.code == .valueTooLarge)
    let key = #expect(throws: StoreError.self) {
      try EngineState.checkLimits(bytes(StoreLimits.keyLengthBytes + 1), bytes(1))
    }
    #expect(key?.code == .keyTooLarge)
  }

  @Test func aKeyIsMadeOfAnyBytes() {
    #expect(Key("héllo".utf8) == Key("héllo"))
    #expect(Key([1, 2, 3, 4][1..<3]) == [2, 3])
    #expect(Key(repeatElement(7, count: 2)).bytes == [7, 7])
  }
}
