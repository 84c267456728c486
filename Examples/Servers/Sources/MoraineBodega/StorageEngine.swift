import Foundation

// The protocol and the key type of Bodega, which is a package of others
// (https://github.com/mergesort/Bodega). They are Bodega's. This file only states their
// requirements, after Bodega's public reference
// (https://mergesort.github.io/Bodega/documentation/bodega/storageengine), so that the engine in
// this folder can be compiled and tested without the package. In a program that depends on Bodega,
// leave this file out, and import Bodega in the other one.

/// The requirements of a storage engine of Bodega.
///
/// In Bodega some of the methods for several keys have default implementations. Reads do not throw.
public protocol StorageEngine: Actor {
  func write(_ data: Data, key: CacheKey) async throws
  func write(_ dataAndKeys: [(key: CacheKey, data: Data)]) async throws

  func read(key: CacheKey) async -> Data?
  func read(keys: [CacheKey]) async -> [Data]
  func readDataAndKeys(keys: [CacheKey]) async -> [(key: CacheKey, data: Data)]
  func readAllData() async -> [Data]
  func readAllDataAndKeys() async -> [(key: CacheKey, data: Data)]

  func remove(key: CacheKey) async throws
  func remove(keys: [CacheKey]) async throws
  func removeAllData() async throws

  func keyExists(_ key: CacheKey) async -> Bool
  func keyCount() async -> Int
  func allKeys() async -> [CacheKey]

  func createdAt(key: CacheKey) async -> Date?
  func updatedAt(key: CacheKey) async -> Date?
}

/// The key of a storage engine. Bodega also makes keys of URLs and of hashed text; an engine uses
/// only the members that are declared here.
public struct CacheKey: Codable, Hashable, Sendable {
  /// The text of the key.
  public let value: String

  /// Creates a key whose text is the given text.
  public init(verbatim value: String) {
    self.value = value
  }
}
