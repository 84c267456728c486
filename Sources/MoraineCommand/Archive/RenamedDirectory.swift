import ArgumentParser
import SystemPackage

/// The directory of a store that a command may rename, to put another one in its place.
enum RenamedDirectory {
  /// Checks that a path ends with the name of the directory. The system does not rename `.`, and a
  /// shell that stands in the directory would stay in the renamed one.
  static func check(_ path: String) throws {
    guard FilePath(path).lastComponent?.kind == .regular else {
      throw ValidationError(
        "'\(path)': the directory may be renamed; go out of it, and give its name")
    }
  }
}
