import MoraineEngine

/// The format in which models are written, and the migrations that read older versions of them.
///
/// ```swift
/// let format = ModelFormat<User>.json(version: 2)
///   .migrating(from: 1, UserV1.self) { User(id: $0.id, name: $0.first + " " + $0.last) }
/// ```
///
/// A stored model is migrated when it is read. It is written in the new form when it is saved the
/// next time. Reading a model of a version above ``version`` throws `.newerFormat`: a program must
/// not guess the meaning of a later version.
public struct ModelFormat<Model: Sendable>: Sendable {
  /// The version that is written, from 1.
  public let version: Int
  /// Splits a stored value into its version and its body.
  private let opening: @Sendable ([UInt8]) throws -> (version: Int, body: [UInt8])
  private let writing: @Sendable (Model) throws -> [UInt8]
  private var readers: [Int: @Sendable ([UInt8]) throws -> Model]
  private let codec: any ModelCodec
  /// Decodes many bodies of the current version at once; nil where that is not faster.
  private let readingTogether: (@Sendable ([[UInt8]]) throws -> [Model])?

  init(
    version: Int, codec: any ModelCodec,
    opening: @escaping @Sendable ([UInt8]) throws -> (version: Int, body: [UInt8]),
    writing: @escaping @Sendable (Model) throws -> [UInt8],
    readingTogether: (@Sendable ([[UInt8]]) throws -> [Model])? = nil
  ) where Model: Decodable {
    precondition(version > 0, "the version of a model is at least 1")
    self.version = version
    self.opening = opening
    self.writing = writing
    self.readingTogether = readingTogether
    self.codec = codec
    readers = [version: { try codec.decode(Model.self, from: $0) }]
  }

  /// Returns this format with a migration from an earlier version of the model.
  ///
  /// - Parameters:
  ///   - old: the earlier version, from 1 to below ``version``.
  ///   - type: the type as which models of that version are decoded.
  ///   - convert: converts a model of that version to the current one. An error that it throws
  ///     becomes `.decodingFailed`.
  public func migrating<Old: Decodable & SendableMetatype>(
    from old: Int, _ type: Old.Type, _ convert: @escaping @Sendable (Old) throws -> Model
  ) -> ModelFormat {
    precondition(old > 0 && old < version, "a migration must start from an earlier version")
    var format = self
    let codec = codec
    format.readers[old] = { try convert(codec.decode(Old.self, from: $0)) }
    return format
  }

  /// Decodes values together. Returns nil when one of them has another version or cannot be
  /// decoded: the caller then decodes each value alone and gets its error.
  func decodeTogether(_ values: some Sequence<[UInt8]>) -> [Model]? {
    guard let readingTogether else { return nil }
    do {
      var bodies: [[UInt8]] = []
      for value in values {
        let found = try opening(value)
        if found.version != version { return nil }
        bodies.append(found.body)
      }
      return try readingTogether(bodies)
    } catch {
      return nil
    }
  }

  func encode(_ model: Model) throws -> [UInt8] { try writing(model) }

  /// Decodes one stored value and migrates it if necessary.
  ///
  /// - Parameter noun: the noun for the value in error messages.
  /// - Throws: `.newerFormat`, `.decodingFailed`.
  func decode(
    _ bytes: [UInt8], _ key: Key, _ place: String, as noun: String = "model"
  ) throws(StoreError) -> Model {
    func undecodable(_ why: String) -> StoreError {
      StoreError(
        .decodingFailed, "the \(noun) '\(key)' cannot be decoded: \(why)", file: place)
    }
    let found: (version: Int, body: [UInt8])
    do { found = try opening(bytes) } catch { throw undecodable("\(error)") }
    guard found.version <= version else {
      throw StoreError(
        .newerFormat,
        "the \(noun) '\(key)' has version \(found.version), but this program knows \(version); "
          + "update the program", file: place)
    }
    guard let reader = readers[found.version] else {
      throw undecodable("it has version \(found.version), and there is no migration from it")
    }
    do { return try reader(found.body) } catch { throw undecodable("\(error)") }
  }
}
