import ArgumentParser
import Foundation
import Moraine
import SystemPackage

struct Put: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Stores a value, durably. Without VALUE, or with -, reads it from standard input.")
  @OptionGroup var store: StoreOptions
  @Argument var key: String
  @Argument var value: String?

  func run() async throws {
    let bytes: [UInt8]
    if let value, value != "-" {
      bytes = Array(value.utf8)
    } else {
      bytes = Array(try FileHandle.standardInput.readToEnd() ?? Data())
    }
    let opened = try await store.openForWriting()
    try await opened.set(bytes, forKey: Key(key))
    try await opened.close()
  }
}

struct Get: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Prints a value's bytes and nothing else. Exit code 1 when the key is not there.")
  @OptionGroup var store: StoreOptions
  @Argument var key: String

  func run() async throws {
    let opened = try await store.openExisting()
    let value = try await opened.value(forKey: Key(key))
    try await opened.close()
    guard let value else { throw Failure.notFound }
    Output.bytes(value)
  }
}

struct Delete: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Removes a key, durably. Exit code 1 when the key is not there.")
  @OptionGroup var store: StoreOptions
  @Argument var key: String

  func run() async throws {
    var configuration = Configuration()
    configuration.durability = .sync
    configuration.createIfMissing = false
    let opened = try await Store.open(at: .init(store.directory), configuration: configuration)
    let sequence = try await opened.removeValue(forKey: Key(key))
    try await opened.close()
    guard sequence != nil else { throw Failure.notFound }
  }
}
