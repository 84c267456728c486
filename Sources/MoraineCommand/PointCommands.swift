import ArgumentParser
import Moraine
import SystemPackage

struct Put: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Stores a value, durably.",
    discussion: """
      The value is the argument. If it is left out or is -, the value is all of
      standard input, any bytes. Write a key or value that begins with a dash after
      --.

        moraine put photos.moraine cover - < cover.jpeg
        moraine put settings.moraine -- -v on

      Other processes may have the store open if they share it. A process that has
      it open exclusively makes the command end with exit code 4.
      """)
  @OptionGroup var store: StoreOptions
  @OptionGroup var keyspace: KeyspaceOptions
  @Argument(help: "The key, in UTF-8.") var key: String
  @Argument(help: "The value. Default, and -: standard input.") var value: String?

  func run() async throws {
    let bytes: [UInt8]
    if let value, value != "-" {
      bytes = Array(value.utf8)
    } else {
      bytes = try standardInput()
    }
    try await store.writing { try await keyspace($0).set(bytes, forKey: Key(key)) }
  }

  private func standardInput() throws -> [UInt8] {
    var bytes: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 256 << 10)
    while true {
      let count: Int
      do {
        count = try chunk.withUnsafeMutableBytes { try FileDescriptor.standardInput.read(into: $0) }
      } catch {
        throw Failure("read standard input", error)
      }
      if count == 0 { return bytes }
      bytes.append(contentsOf: chunk[..<count])
      guard bytes.count <= StoreLimits.valueLengthBytes else {
        throw Failure.usage(
          "a value can have \(StoreLimits.valueLengthBytes) bytes; the input has more")
      }
    }
  }
}

struct Get: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Prints the bytes of a value and nothing else.",
    discussion: """
      Exit code 1 if the key does not exist.

        moraine get photos.moraine cover > cover.jpeg
      """)
  @OptionGroup var store: StoreOptions
  @OptionGroup var keyspace: KeyspaceOptions
  @Argument(help: "The key, in UTF-8.") var key: String

  func run() async throws {
    let value = try await store.reading { try await keyspace($0).value(forKey: Key(key)) }
    guard let value else { throw Failure.notFound }
    try Output.write { $0.append(contentsOf: value) }
  }
}

struct Delete: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Removes a key and its value, durably.",
    discussion: """
      Exit code 1 if the key does not exist.

        moraine delete settings.moraine theme
      """)
  @OptionGroup var store: StoreOptions
  @OptionGroup var keyspace: KeyspaceOptions
  @Argument(help: "The key, in UTF-8.") var key: String

  func run() async throws {
    let sequence = try await store.writing(createIfMissing: false) {
      try await keyspace($0).removeValue(forKey: Key(key))
    }
    guard sequence != nil else { throw Failure.notFound }
  }
}
