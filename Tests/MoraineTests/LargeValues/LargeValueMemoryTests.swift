import Foundation
import Moraine
import MoraineTesting
import Testing

#if os(Linux)
  /// A process that writes and reads a long value needs little memory.
  ///
  /// `MORAINE_LARGE_VALUE=1073741824` is the length of the value in bytes: 64 MiB by default.
  @Suite(.timeLimit(.minutes(30))) struct LargeValueMemoryTests {
    @Test func longValueNeedsLittleMemory() async throws {
      let folder = try Folder()
      let path = folder.url.path
      let result = try await #require(
        processExitsWith: .success, observing: [\.standardOutputContent]
      ) { [path = path as String] in
        try await Self.writeAndRead(path)
        exit(0)
      }
      let text = String(decoding: result.standardOutputContent, as: UTF8.self)
      let line = text.split(separator: "\n").first { $0.hasPrefix("memory ") }
      let bytes = try #require(line.flatMap { Int($0.dropFirst("memory ".count)) }, "\(text)")
      print("a value of \(Self.byteCount) bytes took \(bytes) bytes of memory")
      #expect(bytes < 8 << 20)
    }

    private static var byteCount: Int {
      ProcessInfo.processInfo.environment["MORAINE_LARGE_VALUE"].flatMap { Int($0) } ?? 64 << 20
    }

    /// Writes and reads a value, and prints by how much the highest resident size has risen.
    private static func writeAndRead(_ path: String) async throws {
      var configuration = Store.Configuration()
      // The resident size counts mapped files too, which the system can take back at any time.
      configuration.ioMode = .positional
      let store = try Store(
        at: URL(fileURLWithPath: path).appendingPathComponent("store"),
        configuration: configuration)
      let films = try store.largeValues(named: "films")
      // All that a program needs for any value.
      try await copy(to: films, byteCount: 1)
      // Sets the highest size to the present one: loading the program may have needed more.
      try Data("5".utf8).write(to: URL(fileURLWithPath: "/proc/self/clear_refs"))
      let before = try highestResidentBytes()
      try await copy(to: films, byteCount: byteCount)
      let after = try highestResidentBytes()
      print("memory \(after - before)")
      try await store.close()
    }

    private static func copy(to films: LargeValues, byteCount: Int) async throws {
      let parts = Parts(seed: 7, byteCount: byteCount, partBytes: 64 << 10)
      try await films.set(parts, forKey: "one", durability: .sync)
      let film = try await films.value(forKey: "one")
      guard let film, film.length == UInt64(byteCount) else { fatalError("the value is missing") }
      var expected = parts.makeAsyncIterator()
      var pending: ArraySlice<UInt8> = []
      for try await piece in film {
        var rest = piece[...]
        while !rest.isEmpty {
          if pending.isEmpty { pending = try await expected.next().map { $0[...] } ?? [] }
          let count = min(pending.count, rest.count)
          guard count > 0, pending.prefix(count) == rest.prefix(count) else {
            fatalError("the value differs")
          }
          pending = pending.dropFirst(count)
          rest = rest.dropFirst(count)
        }
      }
    }

    private static func highestResidentBytes() throws -> Int {
      let status = try String(contentsOfFile: "/proc/self/status", encoding: .utf8)
      let line = status.split(separator: "\n").first { $0.hasPrefix("VmHWM:") }
      guard let line,
        let kibibytes = line.split(separator: " ").dropLast().last.flatMap({ Int($0) })
      else { fatalError("the system does not say how much memory a process had") }
      return kibibytes << 10
    }
  }
#endif
