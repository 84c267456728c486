import MoraineEngine
import MoraineStorage
import SystemPackage

/// The file of an object that has no name yet: written and synced.
///
/// Its lock shows that the process lives, so that no list removes the file. The lock ends with this
/// value, and with the process. Where the file system has no locks, no list removes the file.
struct TemporaryFile {
  let name: String
  private let folder: any StorageDirectory
  private let file: any StorageFile

  /// Returns whether the file has a name now.
  ///
  /// - Throws: `EIO` for every failure: the file may have the name.
  func isNamed(_ name: String) throws(StorageError) -> Bool {
    do throws(StorageError) {
      return try folder.extent(of: name)?.identity == file.identity
    } catch {
      throw StorageError(error.operation, file: error.file, errno: .ioError)
    }
  }

  /// Writes a body to a new file in a folder.
  ///
  /// - Throws: the error of the storage, or of reading the body. No file remains then, unless it
  ///   could not be removed.
  init(
    _ body: ObjectBody, in folder: any StorageDirectory, for object: ObjectName?
  ) throws(ObjectStoreError) {
    let name = Self.newName()
    do throws(StorageError) {
      file = try folder.createFile(name)
    } catch {
      throw ObjectFiles.error(error, object, mayHaveHadEffect: false)
    }
    (self.name, self.folder) = (name, folder)
    // Without its lock the file may be removed. Giving it a name then fails without an effect.
    do throws(StorageError) { _ = try file.tryLock(shared: false) } catch {}
    do throws(ObjectStoreError) { try fill(body, object) } catch {
      remove()
      throw error
    }
  }

  private func fill(_ body: ObjectBody, _ object: ObjectName?) throws(ObjectStoreError) {
    var length = 0
    var failure: StorageError?
    do throws(StoreError) {
      try body.forEachPiece { piece in
        guard length + piece.count <= body.byteCount else {
          length += piece.count
          return false
        }
        if piece.isEmpty { return true }
        do throws(StorageError) { try file.write(piece, at: UInt64(length)) } catch {
          failure = error
          return false
        }
        length += piece.count
        return true
      }
      if failure == nil, length != body.byteCount {
        throw StoreError(
          .invalidArgument,
          "the body of an object should have \(body.byteCount) bytes, and has \(length)")
      }
    } catch {
      throw ObjectStoreError(
        error.code == .cancelled ? .cancelled : .unreadableBody, error.message, object: object,
        mayHaveHadEffect: false)
    }
    do throws(StorageError) {
      if let failure { throw failure }
      try file.synchronize(.full)
    } catch {
      throw ObjectFiles.error(error, object, mayHaveHadEffect: false)
    }
  }

  /// Removes the temporary name, if the file still has it. A failure is ignored: a later list
  /// removes the name.
  func remove() {
    do throws(StorageError) { try folder.remove(name) } catch {}
  }

  private static let suffix = ".new"
  private static let digitCount = 32

  /// A random name that no object can have, because of its point.
  private static func newName() -> String {
    let digits = [SystemRandom.number(), SystemRandom.number()].map { number in
      let text = String(number, radix: 16)
      return String(repeating: "0", count: digitCount / 2 - text.count) + text
    }
    return digits.joined() + suffix
  }

  static func isName(_ name: String) -> Bool {
    name.utf8.count == digitCount + suffix.utf8.count && name.hasSuffix(suffix)
      && name.utf8.prefix(digitCount).allSatisfy { Character(Unicode.Scalar($0)).isHexDigit }
  }

  /// Removes a temporary file that no living process has locked. A failure is ignored: the file
  /// takes space only.
  ///
  /// Safe at any time: a temporary file gets its name in one step, which fails without the file. So
  /// the lock only keeps requests of living processes from failing.
  static func removeIfAbandoned(_ name: String, in folder: any StorageDirectory) {
    assert(isName(name), "an object is removed as a temporary file")
    do throws(StorageError) {
      guard let file = try folder.openFile(name, .readWrite), try file.tryLock(shared: false)
      else { return }
      try folder.remove(name)
    } catch {}
  }
}
